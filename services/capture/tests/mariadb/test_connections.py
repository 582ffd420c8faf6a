"""Options of a connector's connections: statements at their beginning, time limits, and what stands in the log's connection."""

import pytest
from mariadb_parts import Database
from mariadb_worker import Config

from tidings_capture.mysql.client import BinlogStream, Session
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.settings.config import read_config


def test_initial_statements_come_first_and_the_connections_own_settings_stay(
    database: Database, config: Config
) -> None:
    statements = "SET @a = 'x;;y'; SET SESSION time_zone = '+05:00', sql_mode = 'ANSI'"
    endpoint = read_config({**config, "database.initial.statements": statements}).endpoint
    session = Session(endpoint)
    assert session.rows("SELECT @a, @@time_zone, @@sql_mode") == [("x;y", "+00:00", "")]
    session.close()
    with pytest.raises(MariaDbError, match=r"a statement on .* failed"):
        Session(read_config({**config, "database.initial.statements": "no such statement"}).endpoint)


def test_a_statement_is_limited_and_a_table_of_a_snapshot_is_not(database: Database, config: Config) -> None:
    session = Session(read_config({**config, "database.query.timeout.ms": "300"}).endpoint)
    with pytest.raises(MariaDbError, match="error 1969"):
        session.rows("SELECT SLEEP(5)")
    result = session.open("SELECT SLEEP(1)")
    assert len(result.fetch(2)) == 1
    session.close()
    unlimited = Session(read_config({**config, "database.query.timeout.ms": "0"}).endpoint)
    assert unlimited.rows("SELECT @@max_statement_time = 0") == [("1",)]
    unlimited.close()


def test_timeouts_of_the_log_are_told_to_the_server(database: Database, config: Config) -> None:
    timeouts = {"binlog.net.read.timeout": "33", "binlog.net.write.timeout": "44"}
    endpoint = read_config({**config, **timeouts}).endpoint
    request = MARIADB.request(database.position(), 90_002, annotations=False, heartbeat_seconds=1)
    wrong = "SELECT IF((@@net_read_timeout, @@net_write_timeout) = ({}, {}), 1, (SELECT 1 UNION SELECT 2))"
    told = request._replace(statements=[*request.statements, (wrong.format(33, 44), ())])
    BinlogStream(endpoint, told).close()
    with pytest.raises(MariaDbError, match="error 1242"):
        BinlogStream(endpoint, request._replace(statements=[*request.statements, (wrong.format(33, 45), ())]))
