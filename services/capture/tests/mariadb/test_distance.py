"""How far a connector is from a purged binary log: what is computed, and what ``/metrics`` shows of a real server."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from distance_case import Watched, is_seen_until_its_log_is_gone
from mariadb_parts import Database, connector_options

from tidings_capture.mysql.binlog_distance import NEVER, BinaryLogs, Distance, distance
from tidings_stack.mariadb import MariaDbServer

LOGS = {"b.01": 100, "b.02": 200, "b.03": 50}


@pytest.mark.parametrize(
    ("logs", "position", "found"),
    [
        (BinaryLogs(LOGS), {"file": "b.03", "pos": 50}, Distance(0, 0, 2, False, NEVER, None)),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.03", "pos": 4, "ts_sec": 1},
            Distance(46, 0, 2, False, NEVER, None),
        ),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.02", "pos": 150, "ts_sec": 900},
            Distance(100, 1, 1, False, 500, None),
        ),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.01", "pos": 4, "ts_sec": 1},
            Distance(346, 2, 0, False, 0, None),
        ),
        (BinaryLogs(LOGS, None, 400), {"file": "b.02", "pos": 4}, Distance(246, 1, 1, False, NEVER, 150)),
        (BinaryLogs(LOGS, 600.0), {"file": "b.00", "pos": 4}, Distance(350, 3, 0, True, 0, None)),
        (BinaryLogs(LOGS), {"file": ""}, None),
        (BinaryLogs(LOGS), {}, None),
    ],
)
def test_distance(logs: BinaryLogs, position: Mapping[str, Any], found: Distance | None) -> None:
    assert distance(logs, position, 1000.0) == found


@pytest.fixture
def database(database: Database) -> Iterator[Database]:
    yield database
    database.run("SET GLOBAL binlog_expire_logs_seconds = 0")


def test_a_connector_that_stands_still_is_seen_until_its_log_is_gone(
    database: Database, mariadb: MariaDbServer, unique_name: str
) -> None:
    is_seen_until_its_log_is_gone(database, connector_options(mariadb, unique_name))


def test_a_log_that_grows_behind_a_connector_reaches_its_limit(
    database: Database, mariadb: MariaDbServer, unique_name: str
) -> None:
    """As it grows: within two looks by ten megabytes, of which the server has room for a gigabyte."""
    if not database.session.rows("SHOW GLOBAL VARIABLES LIKE 'max_binlog_total_size'"):
        pytest.skip("this server removes files of its log by their age only")
    database.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, filler MEDIUMTEXT)")
    watched = Watched(database, connector_options(mariadb, unique_name))
    assert "seconds_to_limit" not in watched.look()
    try:
        database.run(f"SET GLOBAL max_binlog_total_size = {1 << 30}")
        assert watched.look()["seconds_to_limit"] == NEVER
        database.run("INSERT INTO t (filler) VALUES (REPEAT('x', 10000000))")
        time.sleep(0.1)
        left = watched.look()
        assert 0 < left["seconds_to_limit"] < 3600
        assert left["safe_bytes"] < (1 << 30) - 10_000_000
    finally:
        database.run("SET GLOBAL max_binlog_total_size = 0")
    assert "seconds_to_limit" not in watched.look()
