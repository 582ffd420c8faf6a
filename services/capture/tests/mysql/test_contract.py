"""MySQL's connector keeps the contract of every source connector, on a worker in memory."""

import pytest
from mariadb_worker import Config, contract_case
from mysql_parts import MySqlDatabase

from tidings_connect.testing.contract import Case, SourceContract


class TestMySql(SourceContract):
    @pytest.fixture
    def case(self, database: MySqlDatabase, config: Config) -> Case:
        return contract_case(database, config)
