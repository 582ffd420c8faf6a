"""Tasks that are killed between staging and merging, readers in other processes, and two tasks that share a warehouse."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from sink_targets import Sink
from warehouse_parts import ask

from tidings_connect.errors import BrokerError
from tidings_connect.task.sink.letters import Letters

POINTS = ("warehouse.staged", "warehouse.merged", "warehouse.committed")
UPSERT = {"pk_mode": "record_key", "insert_mode": "upsert", "auto_create": "true", "delete_enabled": "true"}
_READER = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM numbers").fetchone()[0], flush=True)
sys.stdin.read()
"""
_OTHER_TASK = """
import pathlib, sys
from tidings_sinks.warehouse.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("its turn", flush=True)
    sys.stdin.read()
"""
Warehouse = tuple[Sink, Path]


def send(sink: Sink, first: int, last: int) -> None:
    for number in range(first, last):
        sink.send("numbers", {"id": number}, {"id": number, "text": f"t{number}"}, partition=number % 2)


@contextmanager
def reader(file: Path) -> Iterator[int]:
    """Another process that has a file open for reading; gives how many rows it sees."""
    process = subprocess.Popen(
        [sys.executable, "-c", _READER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@pytest.mark.parametrize(
    ("point", "skip"), [*((point, skip) for point in POINTS for skip in (0, 1)), ("warehouse.copied", 0)]
)
def test_a_task_that_is_killed_anywhere_loses_and_doubles_nothing(
    warehouse: Warehouse, tmp_path: Path, point: str, skip: int
) -> None:
    sink, file = warehouse
    sink.worker.kafka.inputs.create("numbers", 2)
    snapshot = tmp_path / "snapshot.duckdb"
    more = {"tidings_snapshot_file": str(snapshot), "tidings_snapshot_interval_ms": "1"}
    with sink.worker.crash_at(point, skip) as happened:
        # Every record of its own is appended: one that is written twice is seen.
        sink.start("numbers", auto_create="true", batch_size="5", **more)
        send(sink, 0, 23)
        sink.worker.wait_for(
            lambda: happened.is_set() and sink.worker.state == "FAILED", f"a crash at {point}"
        )
    send(sink, 23, 31)
    sink.worker.resume()
    sink.wait()
    assert ask(file, "SELECT id FROM numbers ORDER BY id") == [(number,) for number in range(31)]
    assert not list(file.with_name(f"{file.name}.staging").glob("*"))
    sink.worker.stop()
    with duckdb.connect(str(snapshot), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchall() == [(31,)]


def test_readers_have_the_file_between_batches_and_the_task_waits_for_them(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start("numbers", **UPSERT, flush_max_retries="0")
    send(sink, 0, 4)
    sink.wait()
    with reader(file) as seen:
        assert seen == 4
        send(sink, 4, 8)
        sink.worker.wait_for(lambda: sink.worker.taken == 8, "the records at the task")
        with reader(file) as also_seen:
            assert also_seen == 4
        assert sink.worker.state == "RUNNING"
    sink.wait()
    assert ask(file, "SELECT count(*) FROM numbers") == [(8,)]


def test_the_snapshot_is_read_while_the_warehouse_is_written(warehouse: Warehouse, tmp_path: Path) -> None:
    sink, file = warehouse
    snapshot = tmp_path / "copy" / "snapshot.duckdb"
    snapshot.parent.mkdir()
    more = {"tidings_snapshot_file": str(snapshot), "tidings_snapshot_interval_ms": "1"}
    sink.start("numbers", **UPSERT, **more)
    send(sink, 0, 4)
    sink.worker.wait_for(snapshot.exists, "the first snapshot")
    with reader(snapshot) as seen:
        assert seen <= 4
        send(sink, 4, 8)
        sink.wait()
        assert ask(file, "SELECT count(*) FROM numbers") == [(8,)]

        def copied() -> bool:
            with reader(snapshot) as now:
                return now == 8

        sink.worker.wait_for(copied, "the next snapshot")
    assert [each.name for each in snapshot.parent.iterdir()] == [snapshot.name]


def test_tasks_of_several_processes_take_turns(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start("numbers", **UPSERT)
    send(sink, 0, 2)
    sink.wait()
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER_TASK, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "its turn\n"
        send(sink, 2, 4)
        with reader(file) as seen:
            assert seen == 2
    finally:
        other.stdin.close()
        other.wait(30)
        other.stdout.close()
    sink.wait()
    assert ask(file, "SELECT count(*) FROM numbers") == [(4,)]


def test_a_file_that_is_none_of_duckdb_s_and_a_directory_that_is_missing_are_named(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    sink, file = warehouse
    send(sink, 0, 1)
    for path, said in (
        (file, "not a valid DuckDB"),
        (tmp_path / "none" / "x.duckdb", "directory of the warehouse"),
    ):
        if path == file:
            file.write_text("no database " * 1000)
        sink.start("numbers", **{**UPSERT, "connection_url": f"jdbc:duckdb:{path}"})
        with pytest.raises(AssertionError, match="the task failed"):
            sink.worker.wait_for(lambda: False, "a failure")
        assert said in str(sink.worker.error)


def test_letters_that_kafka_does_not_take_keep_the_merge_from_counting(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE numbers (id INT, text INT)")

    def refuse(_letters: Letters) -> None:
        raise BrokerError("Kafka is away")

    monkeypatch.setattr(Letters, "flush", refuse)
    send(sink, 0, 1)
    sink.start("numbers", errors_tolerance="all", errors_deadletterqueue_topic_name="letters")
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert ask(file, "SELECT next_offset FROM tidings_sink_positions") == [(None,)]


def test_letters_hold_what_was_read(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE numbers (id INT, text TEXT NOT NULL)")
    sink.send("numbers", {"id": 1}, {"id": 1, "text": None})
    sink.start(
        "numbers",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="letters",
        flush_interval_ms="300",
    )
    sink.wait()
    ((key, value, _),) = sink.worker.kafka.topics["letters"]
    assert json.loads(key or b"") == {"id": 1}
    assert json.loads(value or b"") == {"id": 1, "text": None}
