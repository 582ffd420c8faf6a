"""Business events in Avro, from real Kafka and registry to a warehouse that two tasks share, by a worker that is killed: each
event once, typed, and read meanwhile."""

from decimal import Decimal
from pathlib import Path

import duckdb
from end_to_end import GROUP
from event_records import placing_orders

from tidings_stack.capture import CaptureWorkers
from tidings_stack.waiting import wait_for

EVENTS = 300


def test_events_are_in_the_warehouse_once_after_a_kill(
    kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> None:
    topic, file, snapshot = (
        f"{unique_name}.order-placed.v1",
        tmp_path / "w.duckdb",
        tmp_path / "readers.duckdb",
    )
    produce = placing_orders(kafka_bootstrap, registry_url, topic)

    def rows(columns: str) -> list[tuple[object, ...]]:
        if not snapshot.exists():
            return []
        with duckdb.connect(str(snapshot), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(f"SELECT {columns} FROM orders ORDER BY order_id").fetchall()

    # Appended by its place: an event that is merged twice is seen.
    sink = {
        "connector.class": "tidings.WarehouseSinkConnector", "topics": topic, "tasks.max": "2",
        "connection.url": f"jdbc:duckdb:{file}", "table.name.format": "orders", "schema.evolution": "basic",
        "flush.interval.ms": "200", "batch.size": "40", "tidings.snapshot.file": str(snapshot), "tidings.snapshot.interval.ms": "100",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": registry_url,
        "consumer.override.max.poll.records": "20",
    }  # fmt: skip
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        produce(0, EVENTS // 2)
        status, body = worker.request("PUT", f"/connectors/{unique_name}/config", sink)
        assert status == 201, body
        wait_for("the first events", lambda: rows("1"))
        worker.kill()
        worker = workers.start(properties)
        produce(EVENTS // 2, EVENTS)
        wait_for("all events", lambda: len(rows("1")) >= EVENTS, 120)
    assert rows("order_id") == [(number,) for number in range(EVENTS)]
    first = rows("total, lines, epoch_ms(placed_at)")[1]
    assert first == (Decimal("0.01"), [{"sku": "s1", "qty": None}], 1_767_225_600_001)
