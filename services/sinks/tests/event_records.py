"""Business events in Avro, for tests of sinks on real Kafka."""

import io
import json
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs leave it out

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


def register(url: str, subject: str, schema: Any = SCHEMA) -> int:
    """Register a schema; its id."""
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    request = urllib.request.Request(
        f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["id"])


def event(number: int, schema_id: int) -> bytes:
    """The event of a number, in the registry's wire format."""
    out = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    out.seek(5)
    value = {
        "order_id": number, "total": Decimal(number) / 100, "placed_at": 1_767_225_600_000 + number,
        "lines": [{"sku": f"s{number}", "qty": None if number % 2 else number}],
    }  # fmt: skip
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), value)
    return out.getvalue()


def placing_orders(bootstrap: str, registry: str, topic: str) -> Callable[[int, int], None]:
    """Make a topic with two partitions; gives what writes the events from one number to before another to it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        made.result(60)
    schema_id = register(registry, f"{topic}-value")
    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(first: int, last: int) -> None:
        for number in range(first, last):
            headers: Any = [
                ("ce_specversion", b"1.0"), ("ce_source", b"/tidings/shop/order"),
                ("ce_id", f"e-{number}".encode()), ("ce_type", b"shop.order-placed"),
            ]  # fmt: skip
            producer.produce(topic, event(number, schema_id), f"o-{number}", number % 2, headers=headers)
        assert producer.flush(60) == 0

    return produce
