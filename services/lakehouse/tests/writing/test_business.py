"""Business events on real topics become one row per event id."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import event_headers

from tidings_lakehouse.history.history_sql import SPARK
from tidings_lakehouse.reading.corrected import CORRECTED, corrected_queries
from tidings_lakehouse.reading.look import select_as_of
from tidings_lakehouse.reading.views import create_views
from tidings_lakehouse.settings import HistorySettings, WarehouseSettings

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

AT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "OrderPlaced",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "sku", "type": {"type": "string", "logicalType": "uuid"}},
                        {
                            "name": "price",
                            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
                        },
                    ],
                },
            },
        },
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def payload(number: int) -> dict[str, Any]:
    return {
        "order_id": number,
        "lines": [{"sku": "5e8a4e64-7f43-4b57-b0a9-7c4dd1c0d0b2", "price": Decimal("1.20")}],
        "placed_at": AT,
    }


@pytest.fixture
def placed(lake: Lake, topics: Topics, unique_name: str) -> tuple[str, str, int]:
    topic = f"{unique_name}.placed-{unique_name}.v1"
    topics.create(topic)
    lake.streams = ["business"]
    return topic, f"business.placed_{unique_name}_v1", topics.register(f"{topic}-value", SCHEMA)


def test_an_event_is_a_row_with_its_attributes(
    lake: Lake, topics: Topics, placed: tuple[str, str, int]
) -> None:
    topic, table, schema = placed
    topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers("e1", ce_generation="7"))
    topics.flush()
    lake.drain()
    columns = "ce_id, ce_source, ce_type, ce_subject, cast(ce_time as string), ce_extensions, order_id, lines[0].price, cast(placed_at as string)"
    assert lake.rows(f"select {columns} from {table}") == [
        (
            "e1",
            "/shop",
            "shop.order-placed.v1",
            "1",
            "2024-01-01 00:00:00.5",
            {"generation": "7"},
            1,
            Decimal("1.20"),
            "2024-01-01 00:00:00",
        )
    ]


def test_an_id_is_one_row_however_often_it_comes(
    lake: Lake, topics: Topics, placed: tuple[str, str, int]
) -> None:
    topic, table, schema = placed
    for event in ("e1", "e2", "e1"):
        topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers(event))
    topics.flush()
    lake.drain()
    topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers("e2"))
    topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers("e3"))
    topics.flush()
    lake.drain()
    assert lake.rows(f"select ce_id from {table} order by ce_id") == [("e1",), ("e2",), ("e3",)]


def test_events_as_they_were_corrected(
    lake: Lake, topics: Topics, placed: tuple[str, str, int], reader: WarehouseSettings
) -> None:
    """Also where a correction was corrected; by DuckDB and by Spark's view."""
    topic, table, schema = placed
    for number, event, more in (
        (1, "right", {}),
        (2, "wrong", {}),
        (3, "told-anew", {"ce_corrects": "wrong", "ce_correction": "autumn"}),
        (4, "again", {"ce_corrects": "told-anew", "ce_correction": "winter"}),
        (5, "was-missing", {"ce_correction": "autumn"}),
    ):
        topics.produce(topic, b"1", topics.encode(schema, payload(number)), event_headers(event, **more))
    topics.flush()
    lake.drain()
    settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse)
    want = [("right", 1, None, None), ("again", 4, "told-anew", "winter"), ("was-missing", 5, None, "autumn")]
    asked = f"select ce_id, order_id, __corrects, __correction from {table}{CORRECTED} order by order_id"
    assert select_as_of(settings, asked, None).rows == want
    queries = corrected_queries([f"{table}{CORRECTED}"], [table], SPARK)
    assert create_views(lake.session, queries) == [f"{table}{CORRECTED}"]
    assert lake.rows(asked) == want
    lake.session.sql(f"DROP VIEW {table}{CORRECTED}")


def test_crashes_behind_every_write_lose_and_repeat_nothing(
    lake: Lake, topics: Topics, placed: tuple[str, str, int]
) -> None:
    topic, table, schema = placed
    for event in ("e1", None, "e2"):
        topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers(event))
    topics.flush()
    for point in ("survey", f"event:{table}", "quarantine", "watermark", "batch:business"):
        lake.drain_and_crash(point)
    topics.produce(topic, b"1", topics.encode(schema, payload(1)), event_headers("e3"))
    topics.flush()
    lake.forget()
    lake.drain()
    assert lake.rows(f"select ce_id from {table} order by ce_id") == [("e1",), ("e2",), ("e3",)]
    assert lake.rows(f"select offset, reason from tidings.quarantine where topic = '{topic}'") == [
        (1, "headers: no ce_id, which identifies the event")
    ]


def test_an_aborted_transaction_is_not_read(lake: Lake, topics: Topics, placed: tuple[str, str, int]) -> None:
    topic, table, schema = placed
    producer = topics.transactional()
    for event, commits in (("aborted", False), ("committed", True)):
        producer.begin_transaction()
        producer.produce(topic, topics.encode(schema, payload(1)), b"1", headers=event_headers(event))
        producer.flush(20)
        if commits:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    lake.drain()
    assert lake.rows(f"select ce_id from {table}") == [("committed",)]


def test_versions_of_a_schema_are_read_each_by_its_own(
    lake: Lake, topics: Topics, placed: tuple[str, str, int]
) -> None:
    topic, table, schema = placed
    wider = {
        **SCHEMA,
        "fields": [
            *SCHEMA["fields"][:1],
            {"name": "note", "type": ["null", "string"], "default": None},
            *SCHEMA["fields"][1:],
        ],
    }
    newer = topics.register(f"{topic}-value", wider)
    topics.produce(topic, b"1", topics.encode(newer, {**payload(1), "note": "new"}), event_headers("e1"))
    topics.produce(topic, b"1", topics.encode(schema, payload(2)), event_headers("e2"))
    topics.flush()
    lake.drain()
    assert lake.rows(f"select ce_id, order_id, note from {table} order by ce_id") == [
        ("e1", 1, "new"),
        ("e2", 2, None),
    ]
