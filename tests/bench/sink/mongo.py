"""Documents into MongoDB's protocol: our sink's task beside pymongo's own bulk_write, and the sink on a worker beside mongo-kafka's.

First both get the same decoded rows, in requests of 2,000: the task reads schemas, makes ids, dates and decimals, and keeps
places; pymongo is given documents that are ready. Then both sinks drain a topic of JSON with schemas from Kafka, each alone,
warm. Processor time is that of the client's process, or of the engine's process tree. The server is mongo-java-server, which
uses no index for a filter that has more than the ``_id``, as a write with places has (MongoDB does): so the first rows are of
100 keys, and the sinks are compared without places.
"""

import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import orjson
from bson import Decimal128, Int64
from bson.datetime_ms import DatetimeMS
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pymongo import MongoClient, ReplaceOne
from tests.bench.engines import Engine
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.sink.search import KEY_SCHEMA, ROW_SCHEMA, refused, rows

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_envelope.decimals import decimal_to_bytes
from tidings_envelope.json_codec import JsonCodec
from tidings_jvm import PlainProgress
from tidings_sinks.mongo.settings import read_settings
from tidings_sinks.mongo.task import MongoSinkTask
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import ConnectServer
from tidings_stack.mongo import MongoServer
from tidings_stack.stack import Stack

REQUEST: Final = 2000
ROUNDS: Final = 2
_WARM_UP: Final = 60_000
_ALONE: Final = 20_000
"""How many rows the first comparison takes at most."""
_KEYS: Final = 100
_DEADLINE_SECONDS: Final = 900
_BY_KEY: Final = {
    "document.id.strategy": "com.mongodb.kafka.connect.sink.processor.id.strategy.FullKeyStrategy",
    "delete.on.null.values": "true",
}
Rows = list[dict[str, Any]]


def task(url: str, collection: str, found: Rows, *, positions: bool) -> None:
    """Our task alone."""
    config = {"connection.uri": url, "database": "bench", "topics": collection, **_BY_KEY}
    settings = read_settings("bench", config | {"tidings.positions": str(positions).lower()})
    sink, at = (
        MongoSinkTask(settings, SinkContext("bench", 0, refused), tolerates=False),
        TopicPartition(collection, 0),
    )
    sink.open([at])
    for first in range(0, len(found), REQUEST):
        part = found[first : first + REQUEST]
        sink.put(
            [
                SinkRecord(
                    collection, 0, KEY_SCHEMA, {"id": row["id"]}, ROW_SCHEMA, row, None, [], first + place, at
                )
                for place, row in enumerate(part)
            ]
        )
    sink.stop()


def pymongo(url: str, collection: str, found: Rows) -> None:
    """pymongo's own bulk call, on documents that are ready."""
    with MongoClient[dict[str, Any]](url) as client:
        for first in range(0, len(found), REQUEST):
            part = found[first : first + REQUEST]
            client["bench"][collection].bulk_write(
                [ReplaceOne({"_id": row["_id"]}, row, upsert=True) for row in part]
            )


def _ready(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "_id": {"id": Int64(row["id"])}, **row, "id": Int64(row["id"]), "amount": Decimal128(row["amount"]),
        "placed_at": DatetimeMS(row["placed_at"] // 1000), "day": DatetimeMS(row["day"] * 86_400_000),
    }  # fmt: skip


def _alone(server: MongoServer, found: Rows) -> None:
    ready = [_ready(row) for row in found]
    sides: tuple[tuple[str, Callable[[str, str], None]], ...] = (
        ("bulk_write", lambda url, name: pymongo(url, name, ready)),
        ("our task", lambda url, name: task(url, name, found, positions=True)),
        ("without places", lambda url, name: task(url, name, found, positions=False)),
    )
    for number in range(ROUNDS + 1):  # the first warms the server
        for name, write in sides:
            wall, processor = time.monotonic(), time.process_time()
            write(server.url, f"{name.replace(' ', '-')}-{number}")
            wall, processor = time.monotonic() - wall, time.process_time() - processor
            with MongoClient[dict[str, Any]](server.url) as client:
                client.drop_database("bench")
            if number:
                print(
                    f"  {name:15} {len(found) / wall:9,.0f} documents/s {len(found) / processor:9,.0f} per CPU second",
                    flush=True,
                )


def _produce(bootstrap: str, topic: str, found: Rows) -> None:
    codec = JsonCodec()
    schemas = [codec.schema_json(schema) for schema in (KEY_SCHEMA, ROW_SCHEMA)]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    for row in found:
        sent = {**row, "amount": _base64(row["amount"])}
        key, value = (
            b'{"schema":%b,"payload":%b}' % (schema, orjson.dumps(payload))
            for schema, payload in zip(schemas, ({"id": row["id"]}, sent), strict=True)
        )
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(120) == 0


def _base64(value: Decimal) -> str:
    return b64encode(decimal_to_bytes(value, 2)).decode()


def _beside_mongo_kafka(stack: Stack, server: MongoServer, found: Rows, directory: Path) -> None:
    bootstrap, topic = stack.kafka.bootstrap, "bench"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    connect = stack.add(lambda place: ConnectServer(place, bootstrap=bootstrap, plugins=("mongo-kafka",)))
    with CaptureWorkers(directory, bootstrap) as workers, MongoClient[dict[str, Any]](server.url) as client:
        worker = workers.start(workers.properties("bench", {"offset.flush.interval.ms": "5000"}))
        engines = [
            Engine("mongo-kafka", connect.url, connect.pid),
            Engine("ours", worker.url, worker.process.pid),
        ]

        def count(engine: Engine) -> int:
            return client["bench"][engine.name].estimated_document_count()

        def wait(engine: Engine, number: int) -> None:
            deadline = time.monotonic() + _DEADLINE_SECONDS
            while count(engine) < number:
                assert time.monotonic() < deadline, f"{engine.name} is at {count(engine)} of {number}"
                time.sleep(0.02)

        _produce(bootstrap, topic, found[:_WARM_UP])
        written = _WARM_UP
        for engine in engines:
            converters = {
                f"{side}.converter{name}": value
                for side in ("key", "value")
                for name, value in (
                    ("", "org.apache.kafka.connect.json.JsonConverter"),
                    (".schemas.enable", "true"),
                )
            }
            engine.put(
                f"sink-{engine.name}",
                {
                    "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector", "tasks.max": "1", "topics": topic,
                    "connection.uri": server.url, "database": "bench", "collection": engine.name, **_BY_KEY, **converters,
                    **({"tidings.positions": "false"} if engine.name == "ours" else {}),
                },
            )  # fmt: skip
            wait(engine, written)
        share = (len(found) - _WARM_UP) // 2
        for turn in range(2):
            for engine in engines:
                engine.pause(f"sink-{engine.name}")
            _produce(bootstrap, topic, found[written : written + share])
            written += share
            for engine in engines if turn % 2 == 0 else reversed(engines):
                before = count(engine)
                engine.resume(f"sink-{engine.name}")
                wait(engine, before + 1)
                first, wall, processor = count(engine), time.monotonic(), cpu_seconds(engine.pid)
                wait(engine, written)
                wall, processor = time.monotonic() - wall, cpu_seconds(engine.pid) - processor
                print(
                    f"  round {turn + 1} {engine.name:12} {(written - first) / wall:9,.0f} documents/s"
                    f" {(written - first) / max(processor, 0.01):9,.0f} per CPU second {resident_bytes(engine.pid) / 1e6:6,.0f} MB",
                    flush=True,
                )
                engine.pause(f"sink-{engine.name}")
        for engine in engines:
            engine.delete(f"sink-{engine.name}")


def run(count: int) -> None:
    """Print what each does with so many rows."""
    found = rows(count + _WARM_UP)
    few = [{**row, "id": row["id"] % _KEYS} for row in found[: min(count, _ALONE)]]
    with (
        Stack(members=("kafka",), progress=PlainProgress(print)) as stack,
        tempfile.TemporaryDirectory() as directory,
    ):
        server = stack.add(lambda place: MongoServer(place, heap="2g"))
        _alone(server, few)
        _beside_mongo_kafka(stack, server, found, Path(directory))
