"""Synthetic topics, as capture and the translator write them, and one Spark session for the whole run."""

from __future__ import annotations

import io
import json
import secrets
import shutil
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import fastavro
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_lakehouse.errors import LakehouseError
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.job import Job
from tidings_lakehouse.registry import Registry
from tidings_lakehouse.session import create_session, stop_gateway
from tidings_lakehouse.settings import LakehouseSettings, WarehouseSettings
from tidings_service import Health

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {
        "name": "status",
        "type": ["null", {"type": "string", "connect.name": "io.debezium.data.Enum", "connect.version": 1}],
        "default": None,
    },
    {"name": "note", "type": ["null", "string"], "default": None},
    {
        "name": "amount",
        "type": [
            "null",
            {
                "type": "bytes",
                "scale": 2,
                "precision": 10,
                "connect.version": 1,
                "logicalType": "decimal",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
            },
        ],
        "default": None,
    },
    {
        "name": "required_on",
        "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}],
        "default": None,
    },
    {
        "name": "ordered_at",
        "type": [
            "null",
            {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp", "connect.version": 1},
        ],
        "default": None,
    },
    {
        "name": "updated_at",
        "type": [
            "null",
            {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1},
        ],
        "default": None,
    },
]
"""Fields of a row, the first being the key."""


def envelope_schema(topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Debezium's envelope as the AvroConverter registers it."""
    optional_long = {"type": ["null", "long"], "default": None}
    optional_string = {"type": ["null", "string"], "default": None}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": topic,
        "fields": [
            {
                "name": "before",
                "type": [
                    "null",
                    {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{topic}.Value"},
                ],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "namespace": "io.debezium.connector.postgresql",
                    "fields": [
                        {"name": "version", "type": "string"},
                        {"name": "connector", "type": "string"},
                        {"name": "name", "type": "string"},
                        {"name": "ts_ms", "type": "long"},
                        {
                            "name": "snapshot",
                            "type": [{"type": "string", "connect.name": "io.debezium.data.Enum"}, "null"],
                            "default": "false",
                        },
                        {"name": "db", "type": "string"},
                        {"name": "sequence", **optional_string},
                        {"name": "ts_us", **optional_long},
                        {"name": "ts_ns", **optional_long},
                        {"name": "schema", "type": "string"},
                        {"name": "table", "type": "string"},
                        {"name": "txId", **optional_long},
                        {"name": "lsn", **optional_long},
                        {"name": "xmin", **optional_long},
                    ],
                    "connect.name": "io.debezium.connector.postgresql.Source",
                },
            },
            {
                "name": "transaction",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "block",
                        "namespace": "event",
                        "fields": [
                            {"name": "id", "type": "string"},
                            {"name": "total_order", "type": "long"},
                            {"name": "data_collection_order", "type": "long"},
                        ],
                    },
                ],
                "default": None,
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", **optional_long},
            {"name": "ts_us", **optional_long},
            {"name": "ts_ns", **optional_long},
        ],
        "connect.name": f"{topic}.Envelope",
    }


def key_schema(topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The key's schema: the first field."""
    return {"type": "record", "name": "Key", "namespace": topic, "fields": fields[:1]}


class Topics:
    """Writes records to real topics; every value's schema is registered as the converters do."""

    def __init__(self, bootstrap: str, registry: str) -> None:
        self.bootstrap, self.registry = bootstrap, registry
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.parsed: dict[int, Any] = {}

    def create(self, topic: str, partitions: int = 1) -> None:
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(20)

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result(20)

    def recreate(self, topic: str) -> None:
        """Make a deleted topic again, as soon as the broker is done with the old one."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.create(topic)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                self.admin.poll(0.1)

    def table(
        self, topic: str, fields: list[dict[str, Any]] | None = None, partitions: int = 1
    ) -> TableTopic:
        return TableTopic(self, topic, fields, partitions)

    def transactional(self) -> Producer:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": secrets.token_hex(4)})
        producer.init_transactions(20)
        return producer

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        request = urllib.request.Request(
            f"{self.registry}/subjects/{subject}/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            schema_id = int(json.load(response)["id"])
        self.parsed[schema_id] = fastavro.parse_schema(schema)
        return schema_id

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self.parsed[schema_id], value)
        return struct.pack(">bI", 0, schema_id) + buffer.getvalue()

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Any = None, partition: int = 0
    ) -> None:
        self.producer.produce(topic, key=key, value=value, headers=headers, partition=partition)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(20) == 0


class TableTopic:
    """One technical topic: `insert`, `update`, `delete`, `snapshot` with explicit positions."""

    def __init__(
        self, topics: Topics, topic: str, fields: list[dict[str, Any]] | None = None, partitions: int = 1
    ) -> None:
        self.topics, self.topic = topics, topic
        self.table = f"technical.{topic.rpartition('.')[2]}"
        topics.create(topic, partitions)
        self.use(ORDERS if fields is None else fields)

    def use(self, fields: list[dict[str, Any]]) -> None:
        """Write with these fields from now on."""
        self.fields = fields
        self.value_id = self.topics.register(f"{self.topic}-value", envelope_schema(self.topic, fields))
        self.key_id = self.topics.register(f"{self.topic}-key", key_schema(self.topic, fields))

    def change(
        self,
        op: str,
        row: dict[str, Any],
        commit: int | None,
        lsn: int,
        *,
        snapshot: str = "false",
        before: dict[str, Any] | None = None,
        partition: int = 0,
    ) -> None:
        key, value = self.encoded(row, commit, lsn, op=op, snapshot=snapshot, before=before)
        self.topics.produce(self.topic, key, value, partition=partition)
        if op == "d":
            self.topics.produce(self.topic, key, None, partition=partition)

    def truncate(self, commit: int, lsn: int) -> None:
        value = {**self._envelope("t", commit, lsn, "false"), "before": None, "after": None}
        self.topics.produce(self.topic, None, self.topics.encode(self.value_id, value))

    def encoded(
        self,
        row: dict[str, Any],
        commit: int | None,
        lsn: int,
        *,
        op: str = "c",
        snapshot: str = "false",
        before: dict[str, Any] | None = None,
    ) -> tuple[bytes, bytes]:
        """Key and value of a change."""
        rows = {"before": row if op == "d" else before, "after": None if op == "d" else row}
        key = self.topics.encode(self.key_id, {name: row[name] for name in [self.fields[0]["name"]]})
        return key, self.topics.encode(self.value_id, {**self._envelope(op, commit, lsn, snapshot), **rows})

    def _envelope(self, op: str, commit: int | None, lsn: int, snapshot: str) -> dict[str, Any]:
        return {
            "source": {
                "version": "3.7.0.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": 1_700_000_000_000 + lsn,
                "snapshot": snapshot,
                "db": "shop",
                "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
                "ts_us": (1_700_000_000_000 + lsn) * 1000,
                "ts_ns": None,
                "schema": "public",
                "table": "orders",
                "txId": lsn,
                "lsn": lsn,
                "xmin": None,
            },
            "transaction": None
            if op == "r"
            else {"id": f"{lsn}:{lsn}", "total_order": 1, "data_collection_order": 1},
            "op": op,
            "ts_ms": 1,
            "ts_us": 1,
            "ts_ns": 1,
        }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves the sockets of ended threads to the garbage collector, which warns in whatever test it runs."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


class Lake:
    """The job on the session that all tests share: every test has topics, and so tables, of its own."""

    def __init__(self, session: SparkSession, settings: LakehouseSettings) -> None:
        self.session, self.settings = session, settings
        self.streams = ["technical"]

    def drain(self, failpoint: Failpoint | None = None) -> None:
        """Write what is on the topics, as a newly started job would."""
        job = Job(
            self.session,
            self.settings,
            Registry(self.settings.registry),
            Health(),
            streams=self.streams,
            failpoint=failpoint,
        )
        try:
            job.start(available_now=True)
            job.wait(threading.Event())
        finally:
            job.stop()

    def drain_and_crash(self, point: str) -> None:
        """Write until a point behind a write is passed, and nothing after it, as a killed job would."""
        reached = []

        def crash(passed: str) -> None:
            if passed == point:
                reached.append(passed)
                raise CrashError

        with pytest.raises(LakehouseError):
            self.drain(crash)
        assert reached

    def forget(self) -> None:
        """Delete the checkpoints."""
        shutil.rmtree(url2pathname(urlsplit(self.settings.checkpoint_uri).path))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What SQL says."""
        return [tuple(row) for row in self.session.sql(statement).collect()]


class CrashError(Exception):
    """The process would be dead."""


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = WarehouseSettings(
        lakehouse_warehouse=str(tmp_path_factory.mktemp("warehouse")),
        lakehouse_java_options="-XX:TieredStopAtLevel=1",
    )
    session = create_session(settings, "tests")
    yield session
    session.stop()
    stop_gateway(session)


@pytest.fixture
def lake(
    session: SparkSession, kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> Lake:
    settings = LakehouseSettings(
        kafka=kafka_bootstrap,
        registry=registry_url,
        source=unique_name,
        lakehouse_business=rf"{unique_name}\.[^.]+\.v[0-9]+",
        lakehouse_checkpoint=str(tmp_path / "checkpoints"),
    )
    return Lake(session, settings)


@pytest.fixture
def orders(lake: Lake, topics: Topics, unique_name: str) -> TableTopic:
    """The topic `<unique>.public.o_<unique>`, whose table is `technical.o_<unique>`."""
    return TableTopic(topics, f"{unique_name}.public.o_{unique_name}")


@pytest.fixture(scope="session")
def topics(kafka_bootstrap: str, registry_url: str) -> Topics:
    return Topics(kafka_bootstrap, registry_url)
