"""MySQL's snapshots beside changes, on a worker in memory and a real server: by a table of signals, read-only, and blocking."""

import pytest
from mariadb_cases import (
    NOTES,
    READ_ONLY,
    blocking_amid_writes,
    create_numbered,
    incremental_amid_writes,
    running,
)
from mariadb_worker import Config
from mysql_parts import MySqlDatabase


@pytest.fixture
def config(config: Config, database: MySqlDatabase) -> Config:
    database.run("CREATE TABLE signals (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)")
    return config | {
        "snapshot.mode": "no_data",
        "signal.data.collection": f"{database.name}.signals",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTES,
    }


@pytest.mark.parametrize(
    ("seed", "more", "kill"),
    [(1, {}, "window.read"), (2, READ_ONLY, "window.sent"), (3, READ_ONLY, None)],
)
def test_concurrent_writes_and_restarts(
    database: MySqlDatabase, config: Config, seed: int, more: Config, kill: str | None
) -> None:
    told = incremental_amid_writes(database, config | more, seed, kill)
    assert [kind for kind in told if kind != "SKIPPED"] == 2 * [
        "STARTED",
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
    ]


def test_a_blocking_snapshot_stands_behind_the_changes_before_it(
    database: MySqlDatabase, config: Config
) -> None:
    create_numbered(database)
    with running(config, database) as case:
        blocking_amid_writes(case)
