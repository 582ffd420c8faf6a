"""Business events in Avro, from real Kafka and registry to objects in S3, by a worker that is killed: each event once, and typed."""

import io
import json
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import fs

from tidings_stack.capture import CaptureWorkers
from tidings_stack.s3 import S3Server
from tidings_stack.waiting import wait_for

SCHEMA = {
    "type": "record", "name": "OrderPlaced", "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "placed_at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "qty", "type": ["null", "int"], "default": None},
        ]}}},
    ],
}  # fmt: skip
GROUP = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "100",
    "scheduled.rebalance.max.delay.ms": "0",
}
SIZE, EVENTS = 7, 140


def register(url: str, subject: str, schema: Any = SCHEMA) -> int:
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    request = urllib.request.Request(
        f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["id"])


def event(number: int, schema_id: int) -> bytes:
    out = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    out.seek(5)
    value = {
        "order_id": number, "total": Decimal(number) / 100, "placed_at": 1_767_225_600_000 + number,
        "lines": [{"sku": f"s{number}", "qty": None if number % 2 else number}],
    }  # fmt: skip
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), value)
    return out.getvalue()


def objects(server: S3Server, topic: str) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """What each object holds, by partition and first offset."""
    system = fs.S3FileSystem(
        access_key="key", secret_key="secret", endpoint_override=server.url.removeprefix("http://"), scheme="http", region="us-west-2"
    )  # fmt: skip
    found = {}
    selector = fs.FileSelector(f"{server.bucket}/topics/{topic}", recursive=True, allow_not_found=True)
    for info in system.get_file_info(selector):
        if info.is_file:
            with system.open_input_file(info.path) as file:
                rows = pq.read_table(io.BytesIO(file.read())).to_pylist()
            _, partition, offset = info.base_name.removesuffix(".snappy.parquet").split("+")
            found[int(partition), int(offset)] = rows
    return found


def test_events_are_in_objects_once_after_a_kill(
    kafka_bootstrap: str, registry_url: str, s3: S3Server, unique_name: str, tmp_path: Path
) -> None:
    topic = f"{unique_name}.order-placed.v1"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        made.result(60)
    schema_id = register(registry_url, f"{topic}-value")
    producer = Producer({"bootstrap.servers": kafka_bootstrap})

    def produce(first: int, last: int) -> None:
        for number in range(first, last):
            headers = [("ce_id", f"e-{number}".encode()), ("ce_type", b"shop.order-placed")]
            producer.produce(topic, event(number, schema_id), f"o-{number}", number % 2, headers=headers)
        assert producer.flush(60) == 0

    sink = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": topic, "tasks.max": "2",
        "s3.bucket.name": s3.bucket, "store.url": s3.url, "aws.access.key.id": "key", "aws.secret.access.key": "secret",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "flush.size": str(SIZE),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": registry_url,
        "transforms": "id", "transforms.id.type": "io.debezium.transforms.HeaderToValue", "transforms.id.headers": "ce_id",
        "transforms.id.fields": "ce_id", "transforms.id.operation": "copy", "consumer.override.max.poll.records": "10",
    }  # fmt: skip
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        produce(0, EVENTS // 2)
        status, body = worker.request("PUT", f"/connectors/{unique_name}/config", sink)
        assert status == 201, body
        wait_for("the first objects", lambda: objects(s3, topic))
        worker.kill()
        worker = workers.start(properties)
        produce(EVENTS // 2, EVENTS)
        expected = {
            (partition, first): list(range(first * 2 + partition, (first + SIZE) * 2 + partition, 2))
            for partition in (0, 1)
            for first in range(0, EVENTS // 2, SIZE)
        }

        def ids() -> dict[tuple[int, int], list[int]]:
            return {place: [row["order_id"] for row in rows] for place, rows in objects(s3, topic).items()}

        wait_for("all objects", lambda: ids() == expected, 120)

        def committed() -> bool:
            _, answer = worker.request("GET", f"/connectors/{unique_name}/offsets")
            found = [entry["offset"]["kafka_offset"] for entry in answer["offsets"]]
            return found == [EVENTS // 2] * 2

        wait_for("the commit", committed, 60)
        worker.request("PUT", f"/connectors/{unique_name}/stop")
    row = objects(s3, topic)[0, 0][1]
    assert (row["total"], row["lines"], row["ce_id"]) == (Decimal("0.02"), [{"sku": "s2", "qty": 2}], "e-2")
    assert row["placed_at"].isoformat() == "2026-01-01T00:00:00.002000+00:00"
