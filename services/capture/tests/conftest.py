"""A real worker for the tests: started as people start it, spoken to over REST, read back from Kafka."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from psycopg.conninfo import conninfo_to_dict

DEADLINE_SECONDS = 60
_NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def wait_for(what: str, condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """The first true value of `condition`; fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


@dataclass
class Worker:
    """A running worker process."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        if not text.startswith((b"{", b"[")):
            return status, text.decode()
        return status, json.loads(text)

    def task(self, name: str) -> dict[str, Any]:
        """The state of a connector's task."""
        status, body = self.request("GET", f"/connectors/{name}/status")
        return body["tasks"][0] if status == 200 and body["tasks"] else {"state": None}

    def wait_task(self, name: str, state: str) -> dict[str, Any]:
        """Wait until a connector's task has a state."""
        try:
            return wait_for(f"{name} to be {state}", lambda: (t := self.task(name))["state"] == state and t)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; it is {self.task(name)}\n{self.log.read_text()[-3000:]}"
            ) from None

    def task_pid(self) -> int | None:
        """The process of the worker's only task."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(text.split()[0]) if text.split() else None

    def kill(self) -> None:
        """SIGKILL, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


@pytest.fixture(scope="session")
def worker_properties(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a worker's properties file: `worker_properties("group", key="value")`."""
    directory = tmp_path_factory.mktemp("workers")

    def write(group: str, **changes: str) -> Path:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {
            "bootstrap.servers": kafka_bootstrap,
            "group.id": group,
            "listeners": f"http://127.0.0.1:{port}",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "3",
            "key.converter": JSON_CONVERTER,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON_CONVERTER,
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "100",
            **{name.replace("_", "."): value for name, value in changes.items()},
        }
        path = directory / f"{group}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    return write


@pytest.fixture(scope="session")
def start_worker() -> Iterator[Callable[..., Worker]]:
    """Starts `tidings-capture <properties> [<connector>...]` and waits until it answers."""
    with contextlib.ExitStack() as exits:

        def start(properties: Path, *connectors: Path) -> Worker:
            log = properties.with_suffix(".log")
            command = [
                str(Path(sys.executable).with_name("tidings-capture")),
                *map(str, (properties, *connectors)),
            ]
            with log.open("ab") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output)
            exits.callback(_end, process)
            text = properties.read_text()
            listeners = next(
                line.partition("=")[2] for line in text.splitlines() if line.startswith("listeners=")
            )
            url = listeners.split(",")[0]
            worker = Worker(process, url, log)

            def answers() -> bool:
                assert process.poll() is None, log.read_text()
                with contextlib.suppress(OSError):
                    return worker.request("GET", "/readyz")[1]["components"]["kafka"]["ok"]
                return False

            wait_for("the worker to answer", answers, 180)
            return worker

        yield start


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


@pytest.fixture(scope="session")
def worker(worker_properties: Callable[..., Path], start_worker: Callable[..., Worker]) -> Worker:
    """One worker for all tests that do not harm it."""
    return start_worker(worker_properties(f"capture-tests-{os.getpid()}"))


@pytest.fixture
def connector_config(pg_database: str, unique_name: str) -> dict[str, str]:
    """A connector on a fresh database; change what a test needs."""
    parts = conninfo_to_dict(pg_database)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": str(parts["host"]),
        "database.port": str(parts["port"]),
        "database.user": str(parts["user"]),
        "database.password": str(parts.get("password") or ""),
        "database.dbname": str(parts["dbname"]),
        "topic.prefix": unique_name,
        "slot.name": unique_name,
        "publication.name": unique_name,
        "publication.autocreate.mode": "all_tables",
        "errors.retry.delay.max.ms": "500",
    }


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
                # A few at a time: a topic may grow faster than a big batch fills.
                for message in consumer.consume(500, timeout=0.2):
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
