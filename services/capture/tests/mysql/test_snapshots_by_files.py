"""Incremental and blocking snapshots of a MySQL without GTIDs (``gtid_mode=OFF``), as it is by default, beside writers and kills."""

import pytest
from mariadb_cases import (
    READ_ONLY,
    blocking_amid_writes,
    create_numbered,
    incremental_amid_writes,
    running,
    snapshot_behind_an_unseen_commit,
    with_signals,
)
from mariadb_worker import Config
from mysql_parts import ANSWERED, SEMI_SYNCHRONOUS, MySqlDatabase

from tidings_capture.mysql.client import Session
from tidings_stack.mysql import MySqlServer


@pytest.fixture
def mysql(mysql_by_files: MySqlServer) -> MySqlServer:
    return mysql_by_files


@pytest.fixture
def config(config: Config, database: MySqlDatabase) -> Config:
    return with_signals(config, database)


@pytest.mark.parametrize(
    ("seed", "more", "kill"),
    [
        (1, {}, "window.read"),
        (2, {"incremental.snapshot.watermarking.strategy": "insert_delete"}, "window.sent"),
    ],
)
def test_concurrent_writes_and_restarts(
    database: MySqlDatabase, config: Config, seed: int, more: Config, kill: str
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


@pytest.mark.parametrize(
    ("kind", "by_xa"),
    [("incremental", None), ("incremental", "its session"), ("incremental", "another"), ("blocking", None)],
)
def test_a_commit_that_readers_do_not_see_yet_is_waited_for(
    database: MySqlDatabase, config: Config, kind: str, by_xa: str | None
) -> None:
    """Also one of a distributed transaction, by the session that has prepared it, or another."""
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2), (3)")
    other, commit = Session(database.endpoint), f"DELETE FROM {database.name}.a WHERE id = 2"
    if by_xa is not None:
        for statement in ("XA START 'x'", commit, "XA END 'x'", "XA PREPARE 'x'"):
            other.rows(statement)
        commit = "XA COMMIT 'x'"
        if by_xa == "another":
            other.close()
            other = Session(database.endpoint)
    # The prepared transaction lies before the stream's beginning: it is searched for in the log.
    database.run(*SEMI_SYNCHRONOUS)
    try:
        count, found = snapshot_behind_an_unseen_commit(database, config, kind, other, commit, ANSWERED)
    finally:
        database.run("UNINSTALL PLUGIN rpl_semi_sync_source")
    assert count == "3", "the deletion is seen before it is acknowledged: this shows nothing"
    assert found == [1, 3]


@pytest.mark.parametrize("unordered", [False, True])
def test_what_nothing_tells_is_refused(database: MySqlDatabase, config: Config, unordered: bool) -> None:
    """Read-only, or with commits that become visible in any order."""
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    database.run(f"SET GLOBAL binlog_order_commits = {not unordered}")
    try:
        with running(config if unordered else config | READ_ONLY, database) as case:
            case.execute("a")
            case.wait_told("TABLE_SCAN_COMPLETED")
            assert case.read("a") == []
            told = case.told("TABLE_SCAN_COMPLETED")
    finally:
        database.run("SET GLOBAL binlog_order_commits = ON")
    assert told[0]["additional_data"]["status"] == "SQL_EXCEPTION"
