"""What a comparison finds, on real servers with random writers and kills: afterwards each key's last record is the row."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from reconciling import MODES, LateWriter, MariaDbTable, PostgresTable, Source, wait_a_little, write

from tidings_capture.query.connector import JdbcSource
from tidings_connect.testing.memory_worker import Crash, MemoryWorker
from tidings_stack.mariadb import MariaDbServer

POINTS = [
    "range.compared", "difference.sent", "range.noted", "keys.announced", "batch.sent", "records.acknowledged",
    "offset.written", "offset.stored",
]  # fmt: skip


@pytest.fixture(params=[False, True], ids=["at least once", "exactly once"])
def source(request: pytest.FixtureRequest, pg_database: str) -> Iterator[Source]:
    with MemoryWorker(JdbcSource(), "query", exactly_once=request.param) as worker:
        table = PostgresTable(pg_database)
        yield Source(worker, table, exactly_once=request.param)
        table.close()


@pytest.fixture(params=[False, True], ids=["at least once", "exactly once"])
def mariadb_source(
    request: pytest.FixtureRequest, mariadb: MariaDbServer, unique_name: str
) -> Iterator[Source]:
    with MemoryWorker(JdbcSource(), "query", exactly_once=request.param) as worker:
        table = MariaDbTable(mariadb, unique_name)
        yield Source(worker, table, exactly_once=request.param)
        table.close()


def test_each_kind_is_found_and_said_in_a_header(source: Source) -> None:
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (id, note) SELECT n * 10, 'x' FROM generate_series(1, 20) n")
    source.begin("incrementing")
    source.await_equal()
    assert source.kinds() == {None: 20}
    source.run("UPDATE ev SET note = 'y' WHERE id = 50")
    source.run("DELETE FROM ev WHERE id IN (70, 80, 200)")
    source.run("INSERT INTO ev (id, note) VALUES (15, 'late')")
    source.await_equal()
    assert source.kinds() == {None: 20, "changed": 1, "deleted": 3, "missed": 1}


def test_findings_are_counted_from_zero(source: Source) -> None:
    source.run(PostgresTable.definition.replace(" NOT NULL DEFAULT now()", ""))
    source.run(
        "INSERT INTO ev (id, updated, note) VALUES (1, '2026-01-01', 'x'), (2, '2026-01-01', 'x'), (3, NULL, 'x')"
    )
    source.begin("timestamp", **{"validate.non.null": "false"})
    source.await_equal()
    kinds = {
        "missed": 1,
        "changed": 0,
        "deleted": 0,
        "unknown": 0,
        "unfinished": 0,
        "equal_timestamp": 1,
        "null": 1,
        "ahead": 0,
    }
    source.worker.wait_for(lambda: source.worker.findings == kinds, "the counts")


def test_a_statement_that_takes_too_long_ends_the_comparison_only(source: Source) -> None:
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (note) SELECT repeat('x', 2000) FROM generate_series(1, 3000)")
    slow = {"tidings.reconciliation.range.rows": "5000"}
    source.begin("incrementing", **slow, **{"tidings.reconciliation.statement.timeout.ms": "1"})
    source.worker.wait_for(lambda: source.worker.findings.get("unfinished", 0) > 0, "an end")
    source.run("INSERT INTO ev (note) VALUES ('polled')")
    source.worker.wait_for(lambda: "3001" in source.last(), "a poll")
    source.run("DELETE FROM ev WHERE id = 7")
    source.begin("incrementing", **slow)
    source.await_equal()


def test_what_is_known_survives_a_move(source: Source) -> None:
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (id, note) SELECT n * 10, 'x' FROM generate_series(1, 20) n")
    source.begin("timestamp+incrementing")
    source.await_equal()
    source.worker.stop()
    source.run("DELETE FROM ev WHERE id = 70")
    source.run("UPDATE ev SET note = 'y' WHERE id = 10")
    source.worker.resume()
    source.await_equal()
    assert source.kinds() == {None: 20, "changed": 1, "deleted": 1}


def test_what_was_sent_before_is_sent_again_once(source: Source) -> None:
    """Rows that were sent without being noted: nobody knows what was."""
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (note) SELECT 'x' FROM generate_series(1, 9) n")
    source.begin("incrementing", **{"tidings.reconciliation.interval.ms": "0"})
    source.await_equal()
    source.begin("incrementing")
    source.worker.wait_for(lambda: source.kinds() == {None: 9, "unknown": 9}, "each row again")
    source.run("DELETE FROM ev WHERE id = 3")
    source.await_equal()
    assert source.kinds() == {None: 9, "unknown": 9, "deleted": 1}


def test_rows_before_the_beginning_are_left_alone(source: Source) -> None:
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (note) SELECT 'x' FROM generate_series(1, 9) n")
    source.begin("incrementing", **{"incrementing.initial": "6"})
    source.worker.wait_for(lambda: len(source.last()) == 3, "three rows")
    source.run("UPDATE ev SET note = 'y' WHERE id IN (5, 8)")
    source.worker.wait_for(lambda: source.last().get("8") == "y", "the change")
    assert sorted(source.last()) == ["7", "8", "9"]


def test_a_row_that_a_killed_task_had_sent_gets_its_tombstone(source: Source) -> None:
    """The row is in Kafka, its position is not, and nobody finds it any more."""
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (note) VALUES ('first')")
    source.begin("incrementing")
    source.await_equal()
    with source.worker.crash_at("records.acknowledged", when=lambda: "2" in source.last()) as killed:
        source.run("INSERT INTO ev (note) VALUES ('second')")
        killed_or_sent(source, killed)
    source.run("DELETE FROM ev WHERE id = 2")
    source.worker.resume()
    source.await_equal()


def test_a_difference_that_a_killed_task_had_sent_is_known(source: Source) -> None:
    """A row that comes late, and one that is deleted; both are taken back while the task is dead."""
    source.run(PostgresTable.definition)
    source.run("INSERT INTO ev (id, note) VALUES (10, 'x'), (20, 'x')")
    source.begin("incrementing")
    source.await_equal()
    source.run("BEGIN; DELETE FROM ev WHERE id = 20; INSERT INTO ev (id, note) VALUES (15, 'late'); COMMIT")
    with source.worker.crash_at(
        "records.acknowledged", when=lambda: source.last() == {"10": "x", "15": "late"}
    ) as killed:
        killed_or_sent(source, killed)
    source.run("BEGIN; INSERT INTO ev (id, note) VALUES (20, 'x'); DELETE FROM ev WHERE id = 15; COMMIT")
    source.worker.resume()
    source.await_equal()


def killed_or_sent(source: Source, killed: threading.Event) -> None:
    """With exactly once no record is there before its position, so nobody is killed there."""
    rows = source.rows()
    source.worker.wait_for(
        lambda: killed.is_set() or (source.exactly_once and source.last() == rows), "a kill"
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(2))
def test_random_writers_and_kills(source: Source, mode: Any, seed: int) -> None:
    write_and_kill(source, mode, seed)


@pytest.mark.parametrize("mode", MODES)
def test_random_writers_and_kills_on_mariadb(mariadb_source: Source, mode: Any) -> None:
    write_and_kill(mariadb_source, mode, 0)


def write_and_kill(source: Source, mode: str, seed: int) -> None:
    """Afterwards the topic is the table."""
    print(f"seed {seed} of {mode}")
    chance = random.Random(f"{mode} {seed}")
    source.run(source.table.definition)
    source.begin(mode)
    late: list[LateWriter] = []
    for _round in range(12):
        with source.worker.crash_at(chance.choice(POINTS), skip=chance.randint(0, 4)):
            for _write in range(chance.randint(1, 6)):
                write(source, chance, late)
            wait_a_little(source, chance)
        if source.worker.state == "FAILED":
            assert isinstance(source.worker.error, Crash), source.worker.error
            source.worker.resume()
    for writer in late:
        writer.commit()
    source.await_equal()
    source.worker.stop()
    if source.exactly_once:
        states: dict[str, Any] = {}
        for key, note, kind in source.records():
            assert states.get(key, "nothing") != note, f"{key} is there twice ({kind})"
            states[key] = note
