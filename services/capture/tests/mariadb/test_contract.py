"""MariaDB's connector keeps the contract of every source connector, on a worker in memory."""

import pytest
from mariadb_parts import Database
from mariadb_worker import Config, contract_case

from tidings_connect.testing.contract import Case, SourceContract


class TestMariaDb(SourceContract):
    @pytest.fixture
    def case(self, database: Database, config: Config) -> Case:
        return contract_case(database, config)
