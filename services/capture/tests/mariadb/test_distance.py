"""How far a connector is from a purged binary log: what is computed, and what ``/metrics`` shows of a real server."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from distance_case import is_seen_until_its_log_is_gone
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
