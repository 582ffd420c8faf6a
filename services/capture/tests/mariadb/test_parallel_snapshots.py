"""Snapshots that read several of MariaDB's tables at a time: one moment, the serial one's records, its end and its errors."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from mariadb_parts import Database
from mariadb_worker import Config, records, topic

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.snapshots.moment import begin_together, position_of
from tidings_capture.mysql.snapshots.rows import count_of
from tidings_capture.mysql.snapshots.snapshot import Snapshot, Work
from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.json_codec import JsonCodec

THREADS = {"snapshot.max.threads": "3", "snapshot.fetch.size": "7"}


@pytest.fixture
def tables(database: Database) -> Database:
    """Several, of which some are empty, small, or without transactions."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(20))",
        "INSERT INTO a SELECT seq, CONCAT('x', seq) FROM seq_1_to_100",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, f FLOAT)",
        "INSERT INTO c VALUES (1, 0.1)",
        "CREATE TABLE d LIKE a",
        "INSERT INTO d SELECT id + 5, t FROM a",
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM",
        "INSERT INTO m SELECT id FROM a",
        "CREATE TABLE z (id INT PRIMARY KEY)",
    )
    return database


class Disturbed(Session):
    """Another transaction commits behind the first beginnings of its own: it sets `a` and `d` to the same number."""

    def __init__(self, database: Database, left: int) -> None:
        super().__init__(database.endpoint)
        self._database, self.left = database, left

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found = super().rows(statement, parameters)
        if statement.startswith("START") and self.left:
            self.left -= 1
            writes = (f"UPDATE {t} SET t = {self.left} WHERE id = 7" for t in "ad")
            self._database.run("BEGIN", *writes, "COMMIT")
        return found


def read(config: Config, done: tuple[str, ...] = ()) -> tuple[dict[str, list[Any]], list[str]]:
    """The rows by table, and the marks in their order."""
    found: dict[str, list[Any]] = {}
    marks = []
    snapshot = Snapshot(read_config(config), work=Work(done=done))
    try:
        while some := snapshot.read():
            assert len(some) <= int(config["snapshot.fetch.size"])
            for record in some:
                assert isinstance(record, SourceRecord)
                source = record.value["source"]
                found.setdefault(source["table"], []).append((record.key, record.value["after"]))
                marks.append(f"{source['table']} {source['snapshot']}")
    finally:
        snapshot.close()
    return found, marks


def test_it_has_the_rows_and_the_marks_of_the_serial_one(tables: Database, config: Config) -> None:
    config = config | {"snapshot.locking.mode": "minimal"} | THREADS
    serial, _ = read(config | {"snapshot.max.threads": "1"})
    found, marks = read(config)
    assert found == serial
    assert set(found) == {"a", "c", "d", "m"}
    assert marks[0].endswith(" first")
    assert marks[-1].endswith(" last")
    for table, rows in found.items():
        own = [mark.partition(" ")[2] for mark in marks if mark.startswith(f"{table} ")]
        assert len(own) == len(rows)
        assert own[0] in {"first", "first_in_data_collection", "last_in_data_collection", "last"}
        assert own[-1] in {"first", "last_in_data_collection", "last"}
        assert set(own[1:-1]) <= {"true"}
    assert sorted(read(config, done=tuple(f"{tables.name}.{t}" for t in "ad"))[0]) == ["c", "m"]


@pytest.mark.parametrize("lock", [False, True])
def test_all_tables_are_of_one_moment(tables: Database, lock: bool) -> None:
    first, *others = sessions = [Disturbed(tables, 3), *(Session(tables.endpoint) for _ in range(3))]
    try:
        assert begin_together(sessions, tables.endpoint, may_lock=lock, tries=3 if lock else 4)
        places = {position_of(session).position for session in (first, *others)}
        values = {
            session.rows(f"SELECT t FROM {tables.name}.{table} WHERE id = 7")[0]
            for session in (first, *others)
            for table in "ad"
        }
    finally:
        for session in (first, *others):
            session.close()
    assert first.left == 0
    assert (len(places), values) == (1, {("0",)})


def test_without_a_common_moment_tables_are_read_one_by_one(tables: Database) -> None:
    sessions = [Disturbed(tables, 5), *(Session(tables.endpoint) for _ in range(3))]
    try:
        assert not begin_together(sessions, tables.endpoint, may_lock=False, tries=5)
    finally:
        for session in sessions:
            session.close()


def test_a_table_that_cannot_be_read_ends_it(tables: Database, config: Config) -> None:
    """It was altered behind the snapshot's moment; the other readers end with it."""
    before = threading.active_count()
    snapshot = Snapshot(read_config(config | {"table.include.list": r".*\.[abcdz]"} | THREADS))
    try:
        tables.run("ALTER TABLE z ADD COLUMN n INT, FORCE")
        with pytest.raises(MariaDbError) as caught:
            deque(iter(snapshot.read, []))
    finally:
        snapshot.close()
    assert caught.value.number == 1412
    assert threading.active_count() == before


def test_an_interrupted_one_leaves_out_what_was_sent(tables: Database, config: Config) -> None:
    config = config | THREADS | {"snapshot.locking.mode": "minimal"}
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        with worker.crash_at("batch.sent", 20) as happened:
            worker.put(config)
            worker.wait_for(lambda: happened.is_set() and not worker.tasks, "the crash")
        done = worker.offsets()[0]["offset"].get("tidings_snapshot_done", "[]")
        before = {t: len(records(worker, topic(tables, t))) for t in "acdm"}
        tables.run("DELETE FROM a WHERE id = 3", "INSERT INTO d VALUES (1, 'new')")
        worker.resume()
        worker.wait_for(lambda: "snapshot" not in worker.offsets()[0]["offset"], "the end")
        state: dict[str, dict[int, Any]] = {}
        for table in "acdm":
            state[table] = {}
            for key, value, _ in records(worker, topic(tables, table)):
                if value is None or value["after"] is None:
                    state[table].pop(key["id"], None)
                else:
                    state[table][key["id"]] = value["after"]
        for table in "acdm":
            ((count,),) = tables.run(f"SELECT COUNT(*) FROM {table}")
            assert len(state[table]) == int(count), (table, before, done)
            reads = [v for _, v, _ in records(worker, topic(tables, table)) if v and v["op"] == "r"]
            if f"{tables.name}.{table}" in done:
                assert len(reads) == before[table]


@pytest.mark.parametrize("direct", [False, True])
def test_wide_rows_are_few_at_a_time(database: Database, config: Config, direct: bool) -> None:
    database.run(
        "CREATE TABLE wide (id INT PRIMARY KEY, b LONGBLOB)",
        "INSERT INTO wide SELECT seq, REPEAT('x', 1000000) FROM seq_1_to_30",
    )
    codecs = JsonConverter(JsonCodec(), schemas_enable=False), JsonConverter(JsonCodec(), schemas_enable=True)
    snapshot = Snapshot(read_config(config), direct=codecs if direct else None)
    found = []
    while some := snapshot.read():
        found.append(count_of(some))
    snapshot.close()
    assert sum(found) == 30
    assert max(found) < 10
