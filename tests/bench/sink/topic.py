"""The whole way of a sink from its topic, beside what one would write oneself: confluent_kafka's `consume`, fastavro, and the client
library's own bulk call.

The topic has rows of ten columns in Avro, in one partition. Both sides read it from the beginning and end when the last row is durable:
ours is the sink's loop with real Kafka, positions and all, in this process; theirs decodes each value, makes what its library does not
take of Connect's values, and hands over as many at once as ours does. What is counted is the processor time of this process, librdkafka's
threads among it, and DuckDB's; MongoDB's server is mongo-java-server.

`python -m tests.bench sink_topic --rows 200000`
"""

import gc
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import fastavro
import pyarrow as pa
from bson import Decimal128
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pymongo import MongoClient, ReplaceOne
from tests.bench.sink.search import KEY_SCHEMA, ROW_SCHEMA, rows

from tidings_connect.converters.encoding import make_converter
from tidings_connect.data.subscription import TopicPartition
from tidings_connect.task.channel import Command, Report, TaskJob
from tidings_connect.task.kafka_transport import KafkaTransport
from tidings_connect.task.sink.connector import GC_THRESHOLD, SinkConnector
from tidings_connect.task.sink.loop import SinkLoop
from tidings_connect.task.sink.task import SinkContext, SinkRecord, SinkTask, TopicColumns
from tidings_connect.task.transport import TaskContext
from tidings_jvm import PlainProgress
from tidings_sinks.mongo.connector import MongoSink
from tidings_sinks.warehouse.connector import WarehouseSink
from tidings_stack.connect import avro_converter_settings
from tidings_stack.mongo import MongoServer
from tidings_stack.stack import Stack

ROUNDS: Final = 3
MERGED: Final = 50_000
REQUEST: Final = 500
"""Of MongoDB, as a poll of a sink gives them."""
_TOPIC: Final = "bench"
_BY_KEY: Final = "com.mongodb.kafka.connect.sink.processor.id.strategy.FullKeyStrategy"


class _Nothing(SinkTask):
    """Takes records and does nothing."""

    durable_at_put = True

    def put(self, batch: Sequence[SinkRecord]) -> None: ...

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return offsets


class _Supervision:
    """Stops the loop when so many records were put."""

    descriptor = -1

    def __init__(self, count: int) -> None:
        self.left = count

    def stop_requested(self) -> bool:
        return self.left <= 0

    def commands(self) -> list[Command]:
        return []

    def report(self, report: Report) -> None: ...


def ours(
    stack: Stack,
    group: str,
    count: int,
    config: dict[str, str],
    open_task: Callable[[Mapping[str, str], SinkContext], SinkTask],
) -> None:
    """Run a sink's loop until it has written the topic."""
    supervision = _Supervision(count)

    def opened(config: Mapping[str, str], context: SinkContext) -> SinkTask:
        task = open_task(config, context)
        put, put_columns = task.put, task.put_columns

        def counted(batch: Sequence[SinkRecord]) -> None:
            put(batch)
            supervision.left -= len(batch)

        def counted_columns(batch: Sequence[TopicColumns]) -> bool:
            taken = put_columns(batch)
            supervision.left -= sum(len(topic.records) for topic in batch) if taken else 0
            return taken

        task.put, task.put_columns = counted, counted_columns  # type: ignore[method-assign]
        return task

    job = TaskJob(
        connector=group,
        task=0,
        config={"name": group, "topics": _TOPIC, **avro_converter_settings(stack.registry.url), **config},
        converters={},
        client={"bootstrap.servers": stack.kafka.bootstrap},
        producer={},
        consumer={},
        admin={},
        offset_topic="",
        offset_flush_ms=60_000,
        topic_creation=False,
    )
    SinkLoop(TaskContext(job, supervision, KafkaTransport(job)), opened).run()


def consumed(stack: Stack, group: str, count: int, at_once: int) -> Iterator[list[dict[str, Any]]]:
    """Rows of the topic, so many at a time, and their offsets committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.kafka.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([_TOPIC])
    schemas: dict[int, Any] = {}
    converter = make_converter(_value(stack), is_key=False)
    assert converter.registry is not None

    def decoded(data: bytes) -> dict[str, Any]:
        number = int.from_bytes(data[1:5], "big")
        if number not in schemas:
            schemas[number] = converter.registry.schema_by_id(number)  # type: ignore[union-attr]
        row: dict[str, Any] = fastavro.schemaless_reader(io.BytesIO(data[5:]), schemas[number], None)  # type: ignore[assignment,call-arg,arg-type]
        return row

    found: list[dict[str, Any]] = []
    while count:
        for message in consumer.consume(REQUEST, 0.25):
            data = message.value()
            assert isinstance(data, bytes)
            found.append(decoded(data))
            count -= 1
        if len(found) >= at_once or not count:
            yield found
            found = []
            consumer.commit(asynchronous=False)
    consumer.close()


def _value(stack: Stack) -> dict[str, str]:
    settings = avro_converter_settings(stack.registry.url)
    return {name: value for name, value in settings.items() if name.startswith("value.")}


def _produce(stack: Stack, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(60)
    settings = avro_converter_settings(stack.registry.url)
    key, value = (
        make_converter(settings_of, is_key=is_key).encoder(_TOPIC, schema)
        for settings_of, is_key, schema in (
            ({n: v for n, v in settings.items() if n.startswith("key.")}, True, KEY_SCHEMA),
            (_value(stack), False, ROW_SCHEMA),
        )
    )
    producer = Producer(
        {
            "bootstrap.servers": stack.kafka.bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for row in rows(count):
        producer.produce(_TOPIC, value(row), key({"id": row["id"]}))
        producer.poll(0)
    assert producer.flush(300) == 0


def merged(stack: Stack, group: str, count: int, file: Path) -> None:
    """Rows into DuckDB: Arrow makes a table of a batch, and DuckDB merges it."""
    schema = pa.schema(
        [
            ("id", pa.int64()), ("customer", pa.string()), ("quantity", pa.int32()), ("amount", pa.decimal128(38, 2)),
            ("placed_at", pa.timestamp("us")), ("day", pa.date32()), ("ratio", pa.float64()), ("yes", pa.bool_()),
            ("note", pa.string()), ("status", pa.string()),
        ]
    )  # fmt: skip
    for batch in consumed(stack, group, count, MERGED):
        with duckdb.connect(str(file), config={"threads": 2}) as connection:
            given = pa.Table.from_pylist(batch, schema)
            connection.execute("CREATE TABLE IF NOT EXISTS t AS SELECT * FROM given LIMIT 0")
            connection.execute("MERGE INTO t USING given AS s USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT")  # fmt: skip
            del given


def replaced(stack: Stack, group: str, count: int, url: str) -> None:
    """Rows into MongoDB by `bulk_write`."""
    with MongoClient[dict[str, Any]](url) as client:
        for batch in consumed(stack, group, count, REQUEST):
            for row in batch:
                row["amount"] = Decimal128(row["amount"])
            client["bench"][group].bulk_write(
                [ReplaceOne({"_id": {"id": row["id"]}}, row, upsert=True) for row in batch]
            )


def run(count: int) -> None:
    """Print what all do with so many rows."""
    gc.set_threshold(*GC_THRESHOLD)  # as `SinkConnector.run_task` does; for all sides
    with Stack(members=("kafka", "registry"), progress=PlainProgress(print)) as stack:
        server = stack.add(lambda place: MongoServer(place, heap="2g"))
        _produce(stack, count)
        with tempfile.TemporaryDirectory() as name:
            _compare(stack, server.url, count, Path(name))


def _compare(stack: Stack, mongo: str, count: int, directory: Path) -> None:
    def connector(made: SinkConnector, config: Callable[[str], dict[str, str]]) -> Callable[[str], None]:
        return lambda group: ours(stack, group, count, config(group), made.open_task)

    def warehouse(group: str) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:duckdb:{directory / group}.duckdb", "insert.mode": "upsert", "pk.mode": "record_key",
            "schema.evolution": "basic", "batch.size": str(MERGED),
        }  # fmt: skip

    def documents(group: str) -> dict[str, str]:
        return {
            "connection.uri": mongo, "database": "bench", "collection": group, "document.id.strategy": _BY_KEY,
            "tidings.positions": "false",
        }  # fmt: skip

    sides: dict[str, Callable[[str], None]] = {
        "read: consume and fastavro": lambda group: [None for _ in consumed(stack, group, count, REQUEST)] and None,
        "read: our loop": lambda group: ours(stack, group, count, {}, lambda *_: _Nothing()),
        "DuckDB: Arrow and MERGE": lambda group: merged(stack, group, count, directory / f"{group}.duckdb"),
        "DuckDB: our sink": connector(WarehouseSink(), warehouse),
        "MongoDB: bulk_write": lambda group: replaced(stack, group, count, mongo),
        "MongoDB: our sink": connector(MongoSink(), documents),
    }  # fmt: skip
    for number in range(ROUNDS + 1):  # the first warms
        for place, (side, act) in enumerate(sides.items()):
            wall, processor = time.monotonic(), time.process_time()
            act(f"g-{number}-{place}")
            wall, processor = time.monotonic() - wall, time.process_time() - processor
            if number:
                print(
                    f"{side:28} {count / wall:9,.0f} rows/s {count / processor:9,.0f} rows per CPU second",
                    flush=True,
                )
            with MongoClient[dict[str, Any]](mongo) as client:
                client.drop_database("bench")
