"""A real worker for the tests: started as people start it, spoken to over REST, read back from Kafka."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

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


@pytest.fixture(scope="session")
def start_worker(workers: CaptureWorkers) -> Callable[..., Worker]:
    """Starts `tidings-capture <properties> [<connector>...]` and waits until it answers."""
    return workers.start


@pytest.fixture(scope="session")
def points_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `worker` looks for the point at which one of its processes is to end (`tidings_capture.cdc.fault_points`)."""
    return tmp_path_factory.mktemp("points") / "armed"


@pytest.fixture(scope="session")
def worker(
    worker_properties: Callable[..., Path], start_worker: Callable[..., Worker], points_file: Path
) -> Worker:
    """One worker for all tests that do not harm it."""
    return start_worker(
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

    def make(config: dict[str, str], *, state: str = "RUNNING") -> str:
        name = config["topic.prefix"]
        names.append(name)
        status, body = worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body
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


@pytest.fixture
def read_topic(kafka_bootstrap: str) -> Callable[[str], list[Read]]:
    """All records of a topic so far; none when there is no such topic."""

    def read(topic: str) -> list[Read]:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka_bootstrap,
                "group.id": "capture-tests",
                "enable.auto.commit": False,
                # A broker whose leader of a new topic has just changed refuses the first offset for a moment.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        try:
            metadata = consumer.list_topics(timeout=10).topics.get(topic)
            if metadata is None:
                return []
            ends = {
                p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1]
                for p in metadata.partitions
            }
            waiting = {p for p, end in ends.items() if end}
            consumer.assign([TopicPartition(topic, p, 0) for p in sorted(waiting)])
            found: list[Read] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while waiting:
                assert time.monotonic() < deadline, (
                    f"{topic} cannot be read to its end: {sorted(waiting)} of {ends}"
                )
                for message in arrived(consumer, 0.2):
                    assert message.error() is None, message.error()
                    if message.offset() < ends[message.partition()]:
                        found.append(_decoded(message))
                    if message.offset() >= ends[message.partition()] - 1:
                        waiting.discard(message.partition())
            return found
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET:
                return []  # a topic that is just being created
            raise
        finally:
            consumer.close()

    return read


def _decoded(message: Any) -> Read:
    key, value = message.key(), message.value()
    return Read(
        None if key is None else json.loads(key),
        None if value is None else json.loads(value),
        dict(message.headers() or []),
    )


@pytest.fixture
def wait_records(read_topic: Callable[[str], list[Read]]) -> Callable[[str, int], list[Read]]:
    """Waits until a topic holds at least a number of records."""

    def wait(topic: str, count: int) -> list[Read]:
        def enough() -> list[Read] | None:
            found = read_topic(topic)
            return found if len(found) >= count else None

        records: list[Read] = wait_for(f"{count} records on {topic}", enough)
        return records

    return wait


@pytest.fixture
def topic_end(kafka_bootstrap: str) -> Iterator[Callable[[str], int]]:
    """How many records a topic of one partition has got."""
    consumer = Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": "capture-tests"})

    def end(topic: str) -> int:
        if topic not in consumer.list_topics(timeout=10).topics:
            return 0
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return 0  # it has just been made

    yield end
    consumer.close()


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """`wait_until("what", condition)`: the first true value of the condition."""
    return wait_for
