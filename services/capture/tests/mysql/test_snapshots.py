"""MySQL's snapshots beside changes, on a worker in memory and a real server: by a table of signals, read-only, and blocking."""

import threading
from collections.abc import Iterator

import pytest
from mariadb_cases import (
    READ_ONLY,
    blocking_amid_writes,
    create_numbered,
    incremental_amid_writes,
    own_statements_do_not_wait_for_own_locks,
    running,
    snapshot_behind_an_unseen_commit,
    snapshot_modes,
    tables_are_of_one_moment,
    with_signals,
)
from mariadb_worker import Config
from mysql_parts import ANSWERED, SEMI_SYNCHRONOUS, MySqlDatabase

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.snapshots.snapshot import Snapshot


@pytest.fixture
def config(config: Config, database: MySqlDatabase) -> Config:
    return with_signals(config, database)


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


def test_a_blocking_snapshot_of_a_connector_that_goes_on_by_file_and_position(
    database: MySqlDatabase, config: Config
) -> None:
    """It began when the server had no GTIDs."""
    create_numbered(database)
    with running(config, database) as case:
        case.worker.stop()
        (begun,) = case.worker.offsets()
        del begun["offset"]["gtids"]
        case.worker.alter_offsets([begun])
        case.worker.resume()
        blocking_amid_writes(case)
        assert "gtids" not in case.worker.offsets()[0]["offset"]


def test_snapshot_modes(database: MySqlDatabase, config: Config) -> None:
    snapshot_modes(database, config)


@pytest.mark.parametrize("locking", ["minimal", "extended", "none"])
def test_tables_that_are_read_at_a_time_are_of_one_moment(
    database: MySqlDatabase, config: Config, locking: str
) -> None:
    tables_are_of_one_moment(database, config | {"snapshot.locking.mode": locking})


@pytest.mark.parametrize("locking", ["minimal", "extended", "none"])
def test_own_statements_do_not_wait_for_own_locks(
    database: MySqlDatabase, config: Config, locking: str
) -> None:
    own_statements_do_not_wait_for_own_locks(database, config | {"snapshot.locking.mode": locking})


def test_extended_locks_everything_until_the_end(database: MySqlDatabase, config: Config) -> None:
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    snapshot = Snapshot(
        read_config(config | {"snapshot.locking.mode": "extended", "snapshot.fetch.size": "1"}, MYSQL)
    )
    try:
        assert snapshot.read()
        other = Session(database.endpoint)
        other.rows("SET SESSION lock_wait_timeout = 1")
        with pytest.raises(MariaDbError, match="1205"):
            other.rows(f"INSERT INTO {database.name}.a VALUES (3)")
        while snapshot.read():
            pass
    finally:
        snapshot.close()
    other.rows(f"INSERT INTO {database.name}.a VALUES (3)")
    other.close()


@pytest.fixture
def unanswered(database: MySqlDatabase, config: Config) -> Iterator[None]:
    """Commits wait for a semi-synchronous replica: the log has them, and who reads does not see them."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1), (2), (3)",
        *SEMI_SYNCHRONOUS,
    )
    yield
    database.run("UNINSTALL PLUGIN rpl_semi_sync_source")


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize(
    ("kind", "locking"),
    [("incremental", "minimal"), ("blocking", "minimal"), ("blocking", "none"), ("always", "none")],
)
def test_a_commit_that_readers_do_not_see_yet_is_waited_for(
    database: MySqlDatabase, config: Config, kind: str, locking: str
) -> None:
    chosen = config | READ_ONLY | {"snapshot.locking.mode": locking}
    other, commit = Session(database.endpoint), f"DELETE FROM {database.name}.a WHERE id = 2"
    count, found = snapshot_behind_an_unseen_commit(database, chosen, kind, other, commit, ANSWERED)
    assert count == "3", "the deletion is seen before it is acknowledged: this shows nothing"
    assert found == [1, 3]


@pytest.mark.usefixtures("unanswered")
def test_a_task_that_begins_anew_behind_a_commit_that_is_not_complete_goes_on(
    database: MySqlDatabase, config: Config
) -> None:
    """It was taken for one of another server."""
    other = Session(database.endpoint)
    inserts = threading.Thread(target=lambda: other.rows(f"INSERT INTO {database.name}.a VALUES (4)"))
    try:
        with running(config, database) as case:
            inserts.start()
            case.worker.wait_for(lambda: case.values("a"), "the row")
            ((count,),) = database.run("SELECT COUNT(*) FROM a")
            case.worker.put(config | {"max.batch.size": "100"})
            case.worker.wait_for(lambda: case.worker.state == "RUNNING", "the task")
            database.run(ANSWERED, "INSERT INTO a VALUES (5)")
            case.worker.wait_for(lambda: len(case.values("a")) > 1, "the next row")
            told = [value["after"]["id"] for value in case.values("a")]
    finally:
        database.run(ANSWERED)
        inserts.join()
        other.close()
    assert count == "3", "the row is seen before it is acknowledged: this shows nothing"
    assert told == [4, 5]
