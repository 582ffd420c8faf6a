"""How far MySQL's connector is from a purged binary log: see the test of MariaDB's."""

from collections.abc import Iterator

import pytest
from distance_case import is_seen_until_its_log_is_gone
from mariadb_worker import Config
from mysql_parts import MySqlDatabase


@pytest.fixture
def database(database: MySqlDatabase) -> Iterator[MySqlDatabase]:
    ((before,),) = database.run("SELECT @@global.binlog_expire_logs_seconds")
    yield database
    database.run(f"SET GLOBAL binlog_expire_logs_seconds = {before}")


def test_a_connector_that_stands_still_is_seen_until_its_log_is_gone(
    database: MySqlDatabase, config: Config
) -> None:
    is_seen_until_its_log_is_gone(database, config)
