"""A snapshot that is killed under writes: no row is lost, none goes back in time, none that was deleted stays."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg
import pytest
from a_transform import A_TRANSFORM

from tidings_stack.capture import CaptureWorker as Worker

ROWS = 20_000
FLUSH_INTERVAL_SECONDS = 0.15
"""A little more than the worker's ``offset.flush.interval.ms``."""
TABLES = ("a", "b", "c")
SEED = random.randrange(1 << 32)
SLOW = {
    "producer.override.linger.ms": "0",
    "producer.override.max.in.flight.requests.per.connection": "1",
}


class Writes:
    """Inserts, updates, deletes and puts back rows of all tables; every value written is larger than those before."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failure = None

    def _run(self) -> None:
        try:
            self._write()
        except psycopg.Error as error:
            self.failure = error

    def _write(self) -> None:
        chance = random.Random(SEED)
        print("seed", SEED)
        versions = itertools.count(1)
        with psycopg.connect(self._database) as connection:
            while not self._stop.is_set():
                for _ in range(chance.randint(1, 4)):
                    table, key = chance.choice(TABLES), chance.randint(1, ROWS + 500)
                    if chance.random() < 0.3:
                        connection.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
                    else:
                        connection.execute(
                            f"INSERT INTO {table} VALUES (%(k)s, %(v)s) ON CONFLICT (id) DO UPDATE SET v = %(v)s",
                            {"k": key, "v": next(versions)},
                        )
                connection.commit()
                self._stop.wait(0.001)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self.failure is None


def replay(records: Any) -> Any:
    """The table that a consumer has, and that no row went back, but for changes that come again after a kill."""
    rows, newest, told = {}, {}, set()
    for record in records:
        if record.value is None:
            continue
        key, after = record.key["id"], record.value["after"]
        if after is None:
            rows.pop(key, None)
            continue
        change = None if record.value["op"] == "r" else (key, after["v"])
        assert after["v"] >= newest.get(key, 0) or change in told, f"row {key} went back in time"
        rows[key], newest[key] = after["v"], max(after["v"], newest.get(key, 0))
        told.add(change)
    return rows


@pytest.mark.turns
@pytest.mark.parametrize("threads", ["1", "3"])
def test_killed_in_the_middle_of_the_snapshot(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    read_topic: Callable[[str], list[Any]],
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
    arm: Callable[..., Callable[[], bool]],
    frozen_task: Callable[[Callable[[], bool]], int],
    threads: str,
) -> None:
    """Twice: amid the first rows, and when a table's end has just been stored. The points decide where, not the time."""
    for table in TABLES:
        sql(f"CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL)")
        sql(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, {ROWS}) i", f"ANALYZE {table}")
    name = connector_config["topic.prefix"]
    topics = {table: f"{name}.public.{table}" for table in TABLES}
    with Writes(pg_database):
        held = arm("snapshot.rows", 5, action="freeze")
        # It may stand still before anybody has heard that it runs.
        create(connector_config | SLOW | {"snapshot.max.threads": threads}, state=None)
        first = frozen_task(held)
        assert topic_end(topics["c"]) < ROWS
        held = arm("snapshot.rows", 5, action="freeze")
        os.kill(first, signal.SIGKILL)
        wait_until("another task", lambda: worker.task_pid() not in {first, None})
        assert worker.request("GET", f"/connectors/{name}/snapshot")[0] == 200
        second = frozen_task(held)
        began = time.monotonic()
        wait_until("a position to be due", lambda: time.monotonic() - began > FLUSH_INTERVAL_SECONDS)
        killed = arm("offset.stored")
        os.kill(second, signal.SIGCONT)
        wait_until("the end of a table to be stored", killed)
        wait_until("another task", lambda: worker.task_pid() not in {second, None})
        worker.wait_task(name, "RUNNING")
        # A task that was killed when the snapshot was over goes on with the stream, and knows of none.
        wait_until(
            "the snapshot's end",
            lambda: worker.request("GET", f"/connectors/{name}/snapshot")[1]["state"] in {"done", "none"},
        )
    for table in TABLES:
        sql(f"INSERT INTO {table} VALUES (1000000, 2000000000)")
    for table, topic in topics.items():
        wait_until(f"the last row of {table}", lambda topic=topic: last_is_there(read_topic(topic)))
        records = read_topic(topic)
        found = dict(sql(f"SELECT id, v FROM {table}"))
        assert replay(records) == found
        reads = [r.value["op"] for r in records if r.value is not None].count("r")
        if threads == "1" and table == "a":
            assert reads < 3 * ROWS
    if threads == "1":
        snapshot = worker.request("GET", f"/connectors/{name}/snapshot")[1]
        assert [t["table"] for t in snapshot["tables"]] != ["public.a", "public.b", "public.c"], (
            "a table that had been sent was read again"
        )
        assert all(t["estimated_rows"] > 0 for t in snapshot["tables"])


@pytest.fixture
def tables(sql: Callable[..., list[tuple[Any, ...]]]) -> None:
    for table in TABLES:
        sql(f"CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL)")
        sql(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, {ROWS}) i", f"ANALYZE {table}")
    sql("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")


@pytest.fixture
def check(
    sql: Callable[..., list[tuple[Any, ...]]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> Callable[..., Any]:
    """Checks that a consumer of a connector's topics has the tables, and saw no row go back."""

    def run(name: str) -> None:
        for table in TABLES:
            sql(f"INSERT INTO {table} VALUES (1000000, 2000000000)")
        ((end,),) = sql("SELECT pg_current_wal_lsn()")
        passed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{name}'"
        wait_until("all to be there", lambda: sql(passed) == [(True,)])
        for table in TABLES:
            assert replay(read_topic(f"{name}.public.{table}")) == dict(sql(f"SELECT id, v FROM {table}"))

    return run


def ask(worker: Worker, name: str, kind: Any, **data: Any) -> None:
    status, body = worker.request("POST", f"/connectors/{name}/signals", {"type": kind, "data": data})
    assert status == 202, body


@pytest.mark.parametrize(
    "way",
    [
        {"incremental.snapshot.watermarking.strategy": "insert_insert"},
        {"incremental.snapshot.watermarking.strategy": "insert_delete"} | A_TRANSFORM,
        {"read.only": "true"},
    ],
    ids=["insert_insert", "insert_delete with a transform", "read_only"],
)
@pytest.mark.turns
def test_incremental_snapshot_killed_under_writes(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    pg_database: str,
    read_topic: Callable[[str], list[Any]],
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
    arm: Callable[..., Callable[[], bool]],
    tables: None,
    check: Callable[..., Any],
    way: dict[str, str],
) -> None:
    options = {
        "snapshot.mode": "no_data",
        "incremental.snapshot.chunk.size": "1000",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{connector_config['topic.prefix']}.notes",
    }
    if "read.only" not in way:
        options["signal.data.collection"] = "public.signals"
    name = create(connector_config | options | way)

    def kinds() -> list[Any]:
        return [note.value["type"] for note in read_topic(f"{name}.notes")]

    with Writes(pg_database):
        wait_until("the stream", lambda: topic_end(f"{name}.public.a") > 10)
        # Of about 21 windows of each table: within the second one.
        killed = arm("window.sent", 25)
        ask(worker, name, "execute-snapshot", **{"data-collections": ["public.[abc]"]})
        wait_until("a kill in the second table", killed)
        assert kinds().count("TABLE_SCAN_COMPLETED") <= 1
        wait_until("the snapshot's end", lambda: "COMPLETED" in kinds())
    check(name)
    reads = [r.value["source"]["snapshot"] for r in read_topic(f"{name}.public.a") if r.value]
    assert reads.count("incremental") < 2 * ROWS, "a table that had been sent was read again"


def change_some_rows(sql: Callable[..., list[tuple[Any, ...]]], version: Any) -> None:
    """Of each table rows change that others do not, and most not at all: what is lost is in no later change. In many
    transactions, so that a position lies between them."""
    for part in range(40):
        keys = f"id % 120 = {part}"
        sql(
            f"UPDATE a SET v = {version} WHERE {keys}",
            f"DELETE FROM a WHERE id % 1000 = {part + version * 40}",
            f"INSERT INTO a SELECT {10**7 * version} + {part} * 1000 + i, {version} FROM generate_series(1, 200) i",
            f"UPDATE b SET v = {version} WHERE {keys}",
            f"DELETE FROM b WHERE id % 1000 = {part + version * 40}",
            f"UPDATE c SET v = {version} WHERE {keys}",
        )


NOT_BY_ITSELF = {"errors.retry.delay.initial.ms": "600000", "errors.retry.delay.max.ms": "600000"}
"""A task that was killed waits until somebody restarts it."""


@pytest.fixture
def kill(
    worker: Worker, arm: Callable[..., Callable[[], bool]], wait_until: Callable[..., Any]
) -> Callable[..., Any]:
    """Kills the task at a point and waits for its end; `catching_up`: at the point's first passage after a snapshot has
    its own position, while the changes up to there are being sent."""

    def run(name: str, point: Any, skip: int = 0, *, catching_up: bool = False, begin: Any) -> None:
        reached = arm("slot.created", action="freeze") if catching_up else arm(point, skip)
        begin()
        if catching_up:
            wait_until("the snapshot's position", reached)
            reached = arm(point, skip)
            os.kill(worker.task_pid(), signal.SIGCONT)
        wait_until(f"{point} to be reached", reached)
        assert "ended by signal 9" in worker.wait_task(name, "FAILED")["trace"]

    return run


def restart(worker: Worker, name: str) -> None:
    status, body = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")
    assert status == 202, body


@pytest.mark.turns
def test_killed_while_it_catches_up_with_the_snapshot(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    tables: None,
    check: Callable[..., Any],
    kill: Callable[..., Any],
) -> None:
    """A snapshot that goes on begins with the changes since: a kill among these sends no row of the snapshot too early,
    and takes neither the snapshot nor the changes for done."""
    config = connector_config | SLOW | NOT_BY_ITSELF | {"snapshot.max.threads": "1"}
    name = config["topic.prefix"]
    # In the second table: a batch has 2,000 rows.
    kill(name, "snapshot.rows", ROWS * 3 // 4000, begin=lambda: create(config, state="FAILED"))
    change_some_rows(sql, 1)
    kill(name, "offset.stored", catching_up=True, begin=lambda: restart(worker, name))
    change_some_rows(sql, 2)
    restart(worker, name)
    shown = f"/connectors/{name}/snapshot"
    wait_until("its end", lambda: worker.request("GET", shown)[1].get("state") == "done")
    check(name)


@pytest.mark.turns
def test_killed_in_a_blocking_snapshot(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    tables: None,
    check: Callable[..., Any],
    kill: Callable[..., Any],
) -> None:
    """In its catch-up and among its rows: the stream goes on where it was, and one that is asked for again is whole."""
    name = create(connector_config | SLOW | NOT_BY_ITSELF | {"snapshot.mode": "no_data"})
    asked = {"type": "blocking", "data-collections": ["public.[abc]"]}

    def ask_while_it_is_behind() -> None:
        pid = worker.task_pid()
        os.kill(pid, signal.SIGSTOP)
        change_some_rows(sql, 1)
        ask(worker, name, "execute-snapshot", **asked)
        os.kill(pid, signal.SIGCONT)

    kill(name, "offset.stored", catching_up=True, begin=ask_while_it_is_behind)
    restart(worker, name)
    worker.wait_task(name, "RUNNING")
    kill(
        name, "snapshot.rows", ROWS * 3 // 4000, begin=lambda: ask(worker, name, "execute-snapshot", **asked)
    )
    change_some_rows(sql, 2)
    restart(worker, name)
    worker.wait_task(name, "RUNNING")
    ask(worker, name, "execute-snapshot", **asked)
    shown = f"/connectors/{name}/snapshot"
    wait_until("its end", lambda: worker.request("GET", shown)[1].get("state") == "done")
    check(name)


def test_blocking_snapshot_under_writes(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    pg_database: str,
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
    tables: None,
    check: Callable[..., Any],
) -> None:
    name = create(connector_config | {"snapshot.mode": "no_data"})
    with Writes(pg_database):
        wait_until("the stream", lambda: topic_end(f"{name}.public.a") > 10)
        ask(worker, name, "execute-snapshot", type="blocking", **{"data-collections": ["public.[abc]"]})
        shown = f"/connectors/{name}/snapshot"
        wait_until("its end", lambda: worker.request("GET", shown)[1]["state"] == "done")
    check(name)


def last_is_there(records: Any) -> bool:
    return any(r.key["id"] == 1000000 for r in records)
