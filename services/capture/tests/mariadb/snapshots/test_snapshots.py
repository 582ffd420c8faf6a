"""MariaDB's snapshots beside changes, on a worker in memory and a real server: their order, and what a restart goes on with."""

import time

import pytest
from a_transform import A_TRANSFORM
from mariadb_cases import (
    READ_ONLY,
    Case,
    blocking_amid_writes,
    create_numbered,
    incremental_amid_writes,
    running,
    snapshot_behind_an_unseen_commit,
    snapshot_modes,
    tables_are_of_one_moment,
)
from mariadb_parts import Database
from mariadb_worker import Config

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.testing.memory_worker import MemoryWorker


@pytest.mark.parametrize(
    ("seed", "more", "kill"), [(1, {}, "window.read"), (2, READ_ONLY, "window.sent"), (3, READ_ONLY, None)]
)
def test_concurrent_writes_and_restarts(
    database: Database, config: Config, seed: int, more: Config, kill: str | None
) -> None:
    print("seed", seed)
    chosen = config | more
    if seed == 3:
        chosen |= A_TRANSFORM
    told = incremental_amid_writes(database, chosen, seed, kill)
    assert told == [
        "SKIPPED",
        "STARTED",
        *(["SKIPPED"] if kill else []),
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
        "STARTED",
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
    ]


@pytest.mark.parametrize("distributed", [False, True], ids=["plain", "xa"])
@pytest.mark.parametrize("kind", ["incremental", "blocking", "always"])
def test_a_commit_that_readers_do_not_see_yet_is_waited_for(
    database: Database, config: Config, kind: str, distributed: bool
) -> None:
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2), (3)")
    other, commit = Session(database.endpoint), f"DELETE FROM {database.name}.a WHERE id = 2"
    if distributed:
        xid = f"'{database.name}'"
        for statement in (f"XA START {xid}", commit, f"XA END {xid}", f"XA PREPARE {xid}"):
            other.rows(statement)
        commit = f"XA COMMIT {xid}"
    ((enabled, missing, seconds),) = database.run(
        "SELECT @@rpl_semi_sync_master_enabled, @@rpl_semi_sync_master_wait_no_slave, @@rpl_semi_sync_master_timeout"
    )
    database.run(
        "SET GLOBAL rpl_semi_sync_master_timeout = 60000, rpl_semi_sync_master_wait_no_slave = 1,"
        " rpl_semi_sync_master_wait_point = 'AFTER_SYNC', rpl_semi_sync_master_enabled = 1"
    )
    answered = "SET GLOBAL rpl_semi_sync_master_enabled = 0"
    try:
        count, found = snapshot_behind_an_unseen_commit(
            database, config | READ_ONLY, kind, other, commit, answered
        )
    finally:
        database.run(
            f"SET GLOBAL rpl_semi_sync_master_enabled = {enabled}, rpl_semi_sync_master_wait_no_slave = {missing},"
            f" rpl_semi_sync_master_timeout = {seconds}"
        )
    assert count == "3", "the deletion is seen before it is acknowledged: this shows nothing"
    assert found == [1, 3]


def test_a_blocking_snapshot_stands_behind_the_changes_before_it(database: Database, config: Config) -> None:
    create_numbered(database)
    database.run("CREATE TABLE b (id INT, x FLOAT)", "INSERT INTO b VALUES (1, 1.1), (2, 0.3)")
    with running(config, database) as case:
        blocking_amid_writes(case)
        name = f"{database.name}.b"
        wrong = ["SELECT nothere FROM b", "SELECT 1) UNION (SELECT 2", "nonsense"]
        for filter_ in [*wrong, f"SELECT id FROM {name} WHERE id > 1"]:
            case.execute(
                "b",
                type="blocking",
                **{"additional-conditions": [{"data-collection": name, "filter": filter_}]},
            )
        case.wait_told("COMPLETED", 4)
        assert [v["after"] for v in case.values("b")] == [{"id": 2, "x": None}]
        assert len(case.told("ABORTED")) == 2


NOT_THE_TABLE_S = {
    "SELECT id FROM {}": "column 'n' of {} is NOT NULL, and a row has no value for it",
    "SELECT id, 1.5 AS n FROM {}": "column 'n' of {} is of type int, and a row has another value",
    "SELECT id, n, x'fbff' AS t FROM {}": "column 't' of {} is of type varchar, and a row has another value",
}


@pytest.mark.parametrize("statement", NOT_THE_TABLE_S)
@pytest.mark.parametrize("schemas", ["false", "true"])
def test_a_statement_that_gives_what_the_table_cannot_have(
    database: Database, config: Config, statement: str, schemas: str
) -> None:
    name = f"{database.name}.c"
    database.run(
        "CREATE TABLE c (id INT PRIMARY KEY, n INT NOT NULL, t VARCHAR(9))",
        "INSERT INTO c VALUES (1, 1, 't')",
    )
    wanted = NOT_THE_TABLE_S[statement].format(name)
    chosen = config | {"snapshot.mode": "initial", "value.converter.schemas.enable": schemas}
    overrides = "snapshot.select.statement.overrides"
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(chosen | {overrides: name, f"{overrides}.{name}": statement.format(name)})
        worker.wait_for(lambda: worker.state == "FAILED", "the task to end")
        assert str(worker.error) == wanted
        assert Case(worker, database).values("c") == []
    with running(config, database) as case:
        conditions = [{"data-collection": name, "filter": statement.format(name)}]
        case.execute("c", type="blocking", **{"additional-conditions": conditions})
        case.wait_told("ABORTED", 1)
        database.run("INSERT INTO c VALUES (2, 2, 'after it')")
        case.worker.wait_for(lambda: [v["op"] for v in case.values("c")] == ["c"], "the log to go on")


def test_an_interrupted_snapshot_goes_on_behind_the_log(database: Database, config: Config) -> None:
    """A table that was sent as a whole is not read again; a row that was sent, and deleted meanwhile, has its delete."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1), (2)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO b SELECT seq FROM seq_1_to_2000",
        "CREATE TABLE c (id INT PRIMARY KEY)",
        "INSERT INTO c VALUES (1)",
    )
    initial = config | {"snapshot.mode": "initial", "snapshot.fetch.size": "5"}
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        case = Case(worker, database)

        def amid_b() -> bool:
            """With the end of `a` stored, which takes longer than a quiet machine needs for the rest."""
            time.sleep(0.001)
            worker.deliver()
            return len(case.read("b")) > 100 and "tidings_snapshot_done" in worker.offsets()[0]["offset"]

        with worker.crash_at("batch.sent", when=amid_b) as happened:
            worker.put(initial)
            worker.wait_for(lambda: happened.is_set() and not worker.tasks, "the crash")
        sent = case.read("b")
        assert len(sent) < 2000
        database.run(
            "DELETE FROM b WHERE id IN (2, 1999)",
            "UPDATE a SET id = 3 WHERE id = 2",
            "INSERT INTO c VALUES (2)",
        )
        worker.resume()
        worker.wait_for(lambda: len(case.values("c")) >= 3, "the rest")
        told = [[(v["op"], (v["after"] or v["before"])["id"]) for v in case.values(t)] for t in "abc"]
        assert told[0] == [("r", 1), ("r", 2), ("d", 2), ("c", 3)]
        assert told[1] == [
            *(("r", n) for n in sent),
            ("d", 2),
            ("d", 1999),
            *(("r", n) for n in range(1, 2001) if n not in {2, 1999}),
        ]
        assert told[2] == [("c", 2), ("r", 1), ("r", 2)]
        worker.wait_for(lambda: "snapshot" not in worker.offsets()[0]["offset"], "the end to be stored")


def test_snapshot_modes(database: Database, config: Config) -> None:
    snapshot_modes(database, config)


def test_tables_that_are_read_at_a_time_are_of_one_moment(database: Database, config: Config) -> None:
    tables_are_of_one_moment(database, config | {"snapshot.locking.mode": "minimal"})


def test_never_reads_the_whole_log(config: Config, database: Database) -> None:
    database.run("FLUSH BINARY LOGS")
    database.purge()
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "UPDATE a SET id = 2")
    with MemoryWorker(MariaDbConnector(), "c", exactly_once=True) as worker:
        worker.put(config | {"snapshot.mode": "never"})
        case = Case(worker, database)
        worker.wait_for(lambda: [v["op"] for v in case.values("a")] == ["c", "d", "c"], "the log")
