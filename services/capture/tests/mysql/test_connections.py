"""The time limit of statements on MySQL, which has its own name for it; what else stands in connections is as on MariaDB."""

import pytest
from mariadb_worker import Config
from mysql_parts import MySqlDatabase

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config


def test_a_statement_is_limited_and_a_table_of_a_snapshot_is_not(
    database: MySqlDatabase, config: Config
) -> None:
    session = Session(read_config({**config, "database.query.timeout.ms": "300"}, MYSQL).endpoint)
    slow = "SELECT COUNT(*) FROM information_schema.collations a JOIN information_schema.collations b JOIN information_schema.collations c"
    with pytest.raises(MariaDbError, match="error 3024"):
        session.rows(slow)
    assert session.rows("SELECT @@max_execution_time") == [("300",)]
    result = session.open("SELECT @@max_execution_time")
    assert result.fetch(2) == [b"\x010"]
    session.close()
