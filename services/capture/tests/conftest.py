"""A real worker for the tests: started as people start it, spoken to over REST, read back from Kafka."""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidings_connect.kafka.topics import TopicAdmin
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_stack.capture import CaptureWorker as Worker
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.kafka import arrived
from tidings_stack.waiting import wait_for

DEADLINE_SECONDS = 120
_NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}


@pytest.fixture(scope="session")
def workers(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaptureWorkers]:
    """All workers of the session, which end with it."""
    with CaptureWorkers(tmp_path_factory.mktemp("workers"), kafka_bootstrap) as made:
        yield made


@pytest.fixture(scope="session")
def worker_properties(
    workers: CaptureWorkers, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Writes a worker's properties file: `worker_properties("group", key="value")`."""

    def write(group: str, **changes: str) -> Path:
        settings = {
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "100",
            "tidings.signal.directory": str(tmp_path_factory.getbasetemp()),
        }
        return workers.properties(
            group, settings | {name.replace("_", "."): value for name, value in changes.items()}
        )

    return write


@pytest.fixture(scope="module")
def start_worker(workers: CaptureWorkers) -> Iterator[Callable[..., Worker]]:
    """Starts `tidings-capture <properties> [<connector>...]` and waits until it answers; it ends with the file's tests, since
    also one that has nothing to do reads its topics."""
    started: list[Worker] = []

    def start(*arguments: Any, **more: Any) -> Worker:
        started.append(workers.start(*arguments, **more))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture(scope="session")
def points_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `worker` looks for the point at which one of its processes is to end (`tidings_capture.cdc.fault_points`)."""
    return tmp_path_factory.mktemp("points") / "armed"


@pytest.fixture(scope="session")
def worker(worker_properties: Callable[..., Path], workers: CaptureWorkers, points_file: Path) -> Worker:
    """One worker for all tests that do not harm it."""
    return workers.start(
        worker_properties(f"capture-tests-{os.getpid()}"),
        environment={"TIDINGS_FAULT_POINTS": str(points_file)},
    )


@pytest.fixture
def arm(points_file: Path) -> Iterator[Callable[..., Callable[[], bool]]]:
    """`arm("offset.stored", 2)`: whichever task of `worker` passes the point for the third time is killed there, or frozen
    with `action="freeze"`; gives what tells whether that has happened."""

    def write(point: str, skip: int = 0, *, action: str = "kill") -> Callable[[], bool]:
        made = points_file.with_suffix(".new")
        made.write_text(f"{point} {action} {skip}", encoding="ascii")
        made.replace(points_file)
        return lambda: not points_file.exists()

    yield write
    points_file.unlink(missing_ok=True)


@pytest.fixture
def frozen_task(worker: Worker) -> Callable[[Callable[[], bool]], int]:
    """`frozen_task(arm("batch.sent", action="freeze"))`: the process of `worker`'s task, once it stands still there."""

    def wait(held: Callable[[], bool]) -> int:
        wait_for("the point", held)
        pid = worker.task_pid()
        assert pid is not None
        status = Path(f"/proc/{pid}/stat")
        wait_for("the task to stand still", lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        return pid

    return wait


@pytest.fixture
def connector_config(pg_database: str, unique_name: str) -> dict[str, str]:
    """A connector on a fresh database; change what a test needs."""
    return connector_settings(
        pg_database,
        **{
            "topic.prefix": unique_name,
            "slot.name": unique_name,
            "publication.name": unique_name,
            "publication.autocreate.mode": "all_tables",
            "errors.retry.delay.max.ms": "500",
        },
    )


@pytest.fixture
def create(worker: Worker, pg_database: str) -> Iterator[Callable[..., str]]:
    """Creates connectors on the shared worker, which are deleted before their database is dropped."""
    names: list[str] = []

    def make(config: dict[str, str], *, state: str | None = "RUNNING") -> str:
        name = config["topic.prefix"]
        names.append(name)
        status, body = worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body
        if state is not None:
            worker.wait_task(name, state)
        return name

    yield make
    for name in names:
        worker.request("DELETE", f"/connectors/{name}")


@pytest.fixture
def sql(pg_database: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Runs statements in autocommit: `sql("insert ...", "select ...")`; the last one's rows."""
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def run(*statements: str) -> list[tuple[Any, ...]]:
            cursor = None
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor is not None and cursor.description else []

        yield run


@dataclass(frozen=True)
class Read:
    """A record as a consumer gets it, JSON decoded."""

    key: Any
    value: Any
    headers: dict[str, bytes]


class Topics:
    """Reads topics to their ends, again and again: what was read once is kept."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "capture-tests",
                "enable.auto.commit": False,
                # A broker whose leader of a new topic has just changed refuses the first offset for a moment.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                # The last offsets may be the marks of transactions, which no consumer sees.
                "enable.partition.eof": True,
            }
        )
        self._found: dict[str, list[Message]] = {}
        self._next: dict[str, dict[int, int]] = {}

    def messages(self, topic: str) -> list[Message]:
        """All of a topic so far; none when there is no such topic."""
        found = self._found.setdefault(topic, [])
        try:
            self._read_on(topic, found)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET:
                raise
            # a topic that is just being created
        return found

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset of a partition's next record."""
        place = TopicPartition(topic, partition)
        return int(self._consumer.get_watermark_offsets(place, timeout=10)[1])

    def partitions(self, topic: str) -> list[int]:
        """Its partitions; none when there is no such topic. Of all topics, Kafka would send those of the whole session."""
        metadata = self._consumer.list_topics(topic, timeout=10).topics[topic]
        return [] if metadata.error is not None else sorted(metadata.partitions)

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()

    def _read_on(self, topic: str, found: list[Message]) -> None:
        following = self._next.setdefault(topic, {})
        ends = {partition: self.end(topic, partition) for partition in self.partitions(topic)}
        waiting = {partition for partition, end in ends.items() if end > following.get(partition, 0)}
        if not waiting:
            return
        self._consumer.assign([TopicPartition(topic, p, following.get(p, 0)) for p in sorted(waiting)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while waiting:
            assert time.monotonic() < deadline, (
                f"{topic} cannot be read to its end: {sorted(waiting)} of {ends}"
            )
            for message in arrived(self._consumer, 0.2):
                error, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    waiting.discard(partition)
                    continue
                if offset < ends[partition]:
                    found.append(message)
                    following[partition] = offset + 1
                if offset >= ends[partition] - 1:
                    waiting.discard(partition)
        self._consumer.unassign()  # else it would ask for more all the time


@pytest.fixture
def topics(kafka_bootstrap: str) -> Iterator[Topics]:
    made = Topics(kafka_bootstrap)
    yield made
    made.close()


@pytest.fixture
def read_topic(topics: Topics) -> Callable[[str], list[Read]]:
    """All records of a topic so far; none when there is no such topic."""
    return lambda topic: [_decoded(message) for message in topics.messages(topic)]


def _decoded(message: Message) -> Read:
    key, value = message.key(), message.value()
    return Read(
        None if key is None else json.loads(key),
        None if value is None else json.loads(value),
        dict(message.headers() or []),
    )


@pytest.fixture
def wait_records(topics: Topics, read_topic: Callable[[str], list[Read]]) -> Callable[[str, int], list[Read]]:
    """Waits until a topic holds at least a number of records."""

    def wait(topic: str, count: int) -> list[Read]:
        wait_for(f"{count} records on {topic}", lambda: len(topics.messages(topic)) >= count)
        return read_topic(topic)

    return wait


@pytest.fixture
def topic_end(topics: Topics) -> Callable[[str], int]:
    """How many records a topic of one partition has got."""

    def end(topic: str) -> int:
        try:
            return topics.end(topic) if topics.partitions(topic) else 0
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET:
                raise
            return 0  # it has just been made

    return end


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """`wait_until("what", condition)`: the first true value of the condition."""
    return wait_for


@pytest.fixture
def transactional(kafka_bootstrap: str, unique_name: str) -> Iterator[Callable[..., TransactionalProducer]]:
    """Makes producers of one transactional.id, and a topic for them; both are `unique_name`."""
    settings = {"bootstrap.servers": kafka_bootstrap}
    TopicAdmin(settings).ensure_topic(unique_name, partitions=1, replication_factor=1, config={})
    made: list[TransactionalProducer] = []

    def make(id_: str = unique_name) -> TransactionalProducer:
        producer = TransactionalProducer(settings, id_, on_wait=lambda: None)
        made.append(producer)
        producer.open()
        return producer

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def synchronous_standbys(
    sql: Callable[..., list[tuple[Any, ...]]], wait_until: Callable[..., Any]
) -> Callable[[str], AbstractContextManager[None]]:
    """`with synchronous_standbys("nobody")`: commits of the server wait for a standby of that name; with "*", for any reader of a
    slot."""

    @contextmanager
    def named(name: str) -> Iterator[None]:
        sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'", "SELECT pg_reload_conf()")
        try:
            wait_until("the setting", lambda: sql("SHOW synchronous_standby_names") == [(name,)])
            sql("CHECKPOINT")  # commits wait once the checkpointer has read the setting, too
            yield
        finally:
            sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")

    return named


@pytest.fixture
def commits_wait(
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    synchronous_standbys: Callable[[str], AbstractContextManager[None]],
) -> Callable[..., AbstractContextManager[None]]:
    """`with commits_wait("DELETE ...", standby="nobody")`: its commit waits for a standby; nobody else's does.

    With "*" the standby is any reader of a slot: the commit ends when that has confirmed it.
    """

    @contextmanager
    def held(statement: str, standby: str = "nobody") -> Iterator[None]:
        sql(f"ALTER DATABASE {sql('SELECT current_database()')[0][0]} SET synchronous_commit = 'local'")
        sql("SET synchronous_commit = 'local'")
        with psycopg.connect(pg_database, autocommit=True) as other, ThreadPoolExecutor(1) as pool:
            other.execute("SET synchronous_commit = 'on'")
            with synchronous_standbys(standby):
                written = pool.submit(other.execute, statement)
                yield
                assert standby == "*" or not written.done()
            written.result(30)

    return held
