"""Exactly once, read back with read_committed: killed tasks, fenced zombies, what is asked for and refused."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from mariadb_parts import Database
from row_traffic import RowTraffic

from tidings_capture.postgres.offsets.offset import decode_offset, offset_key
from tidings_connect.config.exactly_once import preflight
from tidings_connect.errors import FencedError
from tidings_connect.kafka.topics import read_compacted
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_service import Retry
from tidings_stack.capture import CaptureWorker as Worker
from tidings_stack.kafka import arrived

ROWS = 7
KILLS = 2
GROUP = f"exact-tests-{os.getpid()}"
OFFSETS = f"{GROUP}-offset"
READ_SECONDS = 120.0


@dataclass(frozen=True)
class Read:
    key: Any
    value: Any


class Subscriber:
    """What a consumer with read_committed sees of a topic of one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.records: list[Read] = []
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "exactly-once-tests",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def wait(self, count: int) -> list[Read]:
        """Everything so far, once there are `count` records."""
        deadline = time.monotonic() + READ_SECONDS
        while len(self.records) < count:
            assert time.monotonic() < deadline, f"{self._topic} has {len(self.records)} of {count} records"
            self.look(0.2)
        return self.records

    def look(self, seconds: float) -> None:
        """Take what has come; waits so long at most for the first."""
        for message in arrived(self._consumer, seconds):
            self._take(message)

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            key, value = message.key(), message.value()
            self.records.append(Read(key and json.loads(key), value and json.loads(value)))
        elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def subscribe(kafka_bootstrap: str) -> Iterator[Callable[[str], Subscriber]]:
    made: list[Subscriber] = []

    def make(topic: str) -> Subscriber:
        made.append(Subscriber(kafka_bootstrap, topic))
        return made[-1]

    yield make
    for subscriber in made:
        subscriber.close()


@pytest.fixture(scope="module")
def exact_worker(worker_properties: Callable[..., Path], start_worker: Callable[..., Worker]) -> Any:
    """A worker that writes exactly once, for all tests that do not harm it."""
    return start_worker(worker_properties(GROUP, exactly_once_source_support="enabled"))


@pytest.fixture
def exact(exact_worker: Any, pg_database: str) -> Iterator[Callable[..., Any]]:
    """Creates connectors on the exact worker, which are deleted before their database is dropped."""
    names = []

    def make(config: Any, *, state: str = "RUNNING") -> Any:
        name = config["topic.prefix"]
        names.append(name)
        config = config | {"exactly.once.support": "required"}
        status, body = exact_worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body
        exact_worker.wait_task(name, state)
        return name

    yield make
    for name in names:
        exact_worker.request("DELETE", f"/connectors/{name}")


def test_killed_under_traffic_nothing_is_repeated_or_lost(
    exact: Callable[..., Any],
    exact_worker: Any,
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    subscribe: Callable[[str], Subscriber],
    kafka_bootstrap: str,
    wait_until: Callable[..., Any],
) -> None:
    """Every row once and in order, every marker once; then another producer takes the transactional.id over."""
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = exact(connector_config | {"provide.transaction.metadata": "true"})
    rows, markers = subscribe(f"{name}.public.a"), subscribe(f"{name}.transaction")
    with RowTraffic(pg_database, rows=ROWS, pause_seconds=0.02) as traffic:
        for _ in range(KILLS):
            exact_worker.wait_task(name, "RUNNING")
            pid = exact_worker.task_pid()
            rows.wait(
                len(rows.records) + 10 * ROWS
            )  # committed output: the task is in the middle of its work
            os.kill(pid, signal.SIGKILL)
            wait_until("its end to be noticed", lambda pid=pid: exact_worker.task_pid() != pid)
        rows.wait(len(rows.records) + 10 * ROWS)
    total = traffic.total_rows
    records, told = rows.wait(total), markers.wait(2 * traffic.transactions)
    assert [record.key["id"] for record in records] == list(range(1, total + 1))
    orders = [record.value["transaction"]["total_order"] for record in records]
    assert orders == [*range(1, ROWS + 1)] * traffic.transactions
    assert [(marker.value["status"], marker.value["event_count"]) for marker in told] == [
        ("BEGIN", None),
        ("END", ROWS),
    ] * traffic.transactions
    # The slot was never told more than is stored.
    settings = {"bootstrap.servers": kafka_bootstrap}
    ((confirmed,),) = sql(
        f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = '{name}'"
    )
    stored = decode_offset(read_compacted(settings, OFFSETS)[offset_key(name, name)])
    assert stored is not None
    assert int(confirmed) <= stored.done_lsn

    # Kafka Connect's name for the producer of this task: whoever uses it next fences this task for good.
    other = Producer({**settings, "transactional.id": f"{GROUP}-{name}-0"})
    other.init_transactions(60)
    sql(f"INSERT INTO a VALUES ({total + 1})")
    task = exact_worker.wait_task(name, "FAILED")
    assert task["trace"].startswith("fenced: another producer has taken over transactional.id=")
    assert "no further attempt" in task["trace"]
    # Restarted by hand, it goes on where it was.
    assert exact_worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")[0] < 300
    assert [record.key["id"] for record in rows.wait(total + 1)] == list(range(1, total + 2))


@pytest.fixture
def on_mariadb(exact_worker: Any, mariadb: Any, unique_name: str) -> Iterator[Database]:
    """A database whose rows the exact worker captures, by a connector of its name."""
    database = Database(mariadb, unique_name)
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "admin",
        "database.password": mariadb.password,
        "database.include.list": unique_name,
        "topic.prefix": unique_name,
        "include.schema.changes": "false",
        "snapshot.locking.mode": "none",
        "provide.transaction.metadata": "true",
        "exactly.once.support": "required",
    }
    status, body = exact_worker.request("PUT", f"/connectors/{unique_name}/config", config)
    assert status == 201, body
    exact_worker.wait_task(unique_name, "RUNNING")
    yield database
    exact_worker.request("DELETE", f"/connectors/{unique_name}")
    database.close()


def test_mariadb_killed_under_traffic_nothing_is_repeated_or_lost(
    on_mariadb: Database,
    exact_worker: Any,
    subscribe: Callable[[str], Subscriber],
    wait_until: Callable[..., Any],
) -> None:
    """The same of MariaDB's connector: a kill in the midst of a transaction goes on at its next row."""
    database, name = on_mariadb, on_mariadb.name
    rows, markers = subscribe(f"{name}.{name}.a"), subscribe(f"{name}.transaction")
    transactions = 0

    def write(until: Any) -> None:
        nonlocal transactions
        while not until():
            first = transactions * ROWS
            values = ", ".join(f"({number})" for number in range(first + 1, first + ROWS + 1))
            database.run(f"INSERT INTO a VALUES {values}")
            transactions += 1
            rows.look(0.02)

    for _ in range(KILLS):
        exact_worker.wait_task(name, "RUNNING")
        pid, seen = exact_worker.task_pid(), len(rows.records)
        deadline = time.monotonic() + READ_SECONDS
        write(
            lambda seen=seen, deadline=deadline: (
                len(rows.records) >= seen + 10 * ROWS or time.monotonic() > deadline
            )
        )
        assert time.monotonic() < deadline, f"{len(rows.records)} records after {transactions} transactions"
        os.kill(pid, signal.SIGKILL)
        wait_until("its end to be noticed", lambda pid=pid: exact_worker.task_pid() != pid)
    records, told = rows.wait(transactions * ROWS), markers.wait(2 * transactions)
    assert [record.key["id"] for record in records] == list(range(1, transactions * ROWS + 1))
    orders = [record.value["transaction"]["total_order"] for record in records]
    assert orders == [*range(1, ROWS + 1)] * transactions
    assert [(marker.value["status"], marker.value["event_count"]) for marker in told] == [
        ("BEGIN", None),
        ("END", ROWS),
    ] * transactions


def test_a_lost_slot_and_a_kill_while_the_tables_are_read_again(
    exact: Callable[..., Any],
    exact_worker: Any,
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    subscribe: Callable[[str], Subscriber],
    wait_until: Callable[..., Any],
) -> None:
    """The new position, what has yet to be read and what has been sent are one transaction: nothing comes twice."""
    rows = 400
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = exact(
        connector_config
        | {
            "snapshot.mode": "no_data",
            "read.only": "true",
            "incremental.snapshot.chunk.size": "10",
            "on.slot.loss": "incremental",
        }
    )
    topic = subscribe(f"{name}.public.a")
    sql("INSERT INTO a SELECT generate_series(1, 3)")
    topic.wait(3)
    assert exact_worker.request("PUT", f"/connectors/{name}/pause")[0] == 202
    free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{name}'"
    wait_until("the slot to be free", lambda: sql(free) == [(True,)])
    sql(f"SELECT pg_drop_replication_slot('{name}')", f"INSERT INTO a SELECT generate_series(4, {rows})")
    assert exact_worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
    topic.wait(3 + rows // 8)
    pid = exact_worker.task_pid()
    os.kill(pid, signal.SIGKILL)
    wait_until("its end to be noticed", lambda: exact_worker.task_pid() != pid)
    sql(f"INSERT INTO a VALUES ({rows + 1})")
    found = [(record.value["op"], record.key["id"]) for record in topic.wait(3 + rows + 1)]
    # The new row is beyond the largest key there was when the reading began.
    read = [("r", number) for number in range(1, rows + 1)]
    assert sorted(found) == sorted([("c", 1), ("c", 2), ("c", 3), ("c", rows + 1), *read])


def test_a_zombie_is_fenced_and_what_it_sent_is_never_seen(
    transactional: Callable[..., TransactionalProducer],
    unique_name: str,
    subscribe: Callable[[str], Subscriber],
) -> None:
    zombie = transactional()
    zombie.send(unique_name, [(None, b'"zombie"', None)])
    assert zombie.flush(60)
    owner = transactional()
    owner.send(unique_name, [(None, b'"owner"', None)])
    owner.commit()
    with pytest.raises(FencedError, match=f"transactional.id={unique_name}") as caught:
        zombie.commit()
    assert caught.value.retry is Retry.MANUAL
    assert [read.value for read in subscribe(unique_name).wait(1)] == ["owner"]


@pytest.fixture
def three_tasks(exact_worker: Any, tmp_path: Path, unique_name: str) -> Iterator[dict[str, str]]:
    """A connector on the exact worker with a table for each of its three tasks, all running; its configuration."""
    file = tmp_path / "source.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as source:
        for table in "abc":
            source.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            source.execute(f"INSERT INTO {table} VALUES (1)")
    config = {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "connection.url": f"jdbc:sqlite:{file}",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "a,b,c",
        "poll.interval.ms": "100",
        "topic.prefix": f"{unique_name}-",
        "tasks.max": "3",
    }
    assert exact_worker.request("PUT", f"/connectors/{unique_name}/config", config)[0] == 201
    yield config
    exact_worker.request("DELETE", f"/connectors/{unique_name}")


def states(worker: Worker, name: str) -> list[str]:
    return [task["state"] for task in worker.request("GET", f"/connectors/{name}/status")[1]["tasks"]]


def test_a_former_task_that_wakes_up_when_tasks_have_become_fewer_writes_nothing(
    exact_worker: Any,
    three_tasks: dict[str, str],
    transactional: Callable[..., TransactionalProducer],
    unique_name: str,
    subscribe: Callable[[str], Subscriber],
    kafka_bootstrap: str,
    wait_until: Callable[..., Any],
) -> None:
    """The third of three tasks is frozen before its commit, and there are two now: nobody has its id by itself."""
    wait_until("three tasks", lambda: states(exact_worker, unique_name) == ["RUNNING"] * 3)
    topic = subscribe(f"{unique_name}-c")
    topic.wait(1)
    zombie = transactional(f"{GROUP}-{unique_name}-2")
    zombie.send(f"{unique_name}-c", [(None, b'"zombie"', None)])
    assert zombie.flush(60)
    fewer = three_tasks | {"tasks.max": "2"}
    assert exact_worker.request("PUT", f"/connectors/{unique_name}/config", fewer)[0] == 200
    wait_until("two tasks", lambda: states(exact_worker, unique_name) == ["RUNNING"] * 2)
    with pytest.raises(FencedError):  # noqa: PT012 - whichever comes first
        zombie.send(OFFSETS, [(b'["zombie"]', b"{}", None)])
        zombie.commit()
    with (
        closing(sqlite3.connect(three_tasks["connection.url"].removeprefix("jdbc:sqlite:"))) as source,
        source,
    ):
        source.execute("INSERT INTO c VALUES (2)")
    assert [read.value["id"] for read in topic.wait(2)] == [1, 2]
    settings = {"bootstrap.servers": kafka_bootstrap}
    told = read_compacted(settings, f"{GROUP}-config")[f"tasks-fencing-{unique_name}".encode()]
    assert json.loads(told) == {"task-count": 2}, "as Kafka Connect writes it"


def test_a_former_task_that_wakes_up_after_offsets_were_reset_stores_none(
    exact_worker: Any,
    three_tasks: dict[str, str],
    transactional: Callable[..., TransactionalProducer],
    unique_name: str,
    wait_until: Callable[..., Any],
) -> None:
    """It would put its own offset back: the connector would begin there, not at the beginning."""
    connector = f"/connectors/{unique_name}"
    wait_until("three tasks", lambda: states(exact_worker, unique_name) == ["RUNNING"] * 3)
    wait_until("offsets", lambda: len(exact_worker.request("GET", f"{connector}/offsets")[1]["offsets"]) == 3)
    assert exact_worker.request("PUT", f"{connector}/stop")[0] == 204
    wait_until("no task", lambda: states(exact_worker, unique_name) == [])
    zombie = transactional(f"{GROUP}-{unique_name}-2")
    status, body = exact_worker.request("DELETE", f"{connector}/offsets")
    assert status == 200, body
    with pytest.raises(FencedError):  # noqa: PT012 - whichever comes first
        zombie.send(OFFSETS, [(b'["zombie"]', b"{}", None)])
        zombie.commit()


def test_required_is_refused_where_the_worker_does_not_write_exactly_once(
    worker: Worker, connector_config: dict[str, str]
) -> None:
    config = connector_config | {"exactly.once.support": "required"}
    name = config["topic.prefix"]
    status, body = worker.request("PUT", f"/connectors/{name}/config", config)
    assert status == 400
    assert "does not have exactly-once source support enabled" in body["message"]
    assert worker.request("GET", f"/connectors/{name}")[0] == 404
    assert preflight(config, "preparing")
    assert not preflight(config, "enabled")
    assert not preflight(connector_config, "disabled")


def test_a_boundary_of_the_connectors_own_is_refused(
    worker: Worker, connector_config: dict[str, str]
) -> None:
    plugin = "io.debezium.connector.postgresql.PostgresConnector"
    config = connector_config | {"transaction.boundary": "connector", "name": "x"}
    status, body = worker.request("PUT", f"/connector-plugins/{plugin}/config/validate", config)
    assert status == 200
    errors = {c["value"]["name"]: c["value"]["errors"] for c in body["configs"] if c["value"]["errors"]}
    assert list(errors) == ["transaction.boundary"]
    assert "use poll or interval" in errors["transaction.boundary"][0]
