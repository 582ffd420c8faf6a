"""Business events in Avro, from real Kafka and registry to objects in S3, by a worker that is killed: each event once, and typed."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from end_to_end import GROUP
from event_records import placing_orders
from pyarrow import fs

from tidings_stack.capture import CaptureWorkers
from tidings_stack.s3 import S3Server
from tidings_stack.waiting import wait_for

SIZE, EVENTS = 7, 140


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
    produce = placing_orders(kafka_bootstrap, registry_url, topic)
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
