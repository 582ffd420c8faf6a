"""What is in Parquet and Avro files: every kind of value, as DuckDB, Arrow and fastavro read it; envelopes and events."""

import base64
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_parts import JSON, TOPIC, Objects, field, struct

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_envelope.decimals import decimal_to_bytes
from tidings_sinks.objects.connector import ObjectStorageSink

CONNECT, TIME = "org.apache.kafka.connect.data", "io.debezium.time"


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Objects]:
    with MemoryWorker(ObjectStorageSink(), "lake") as worker:
        yield Objects(worker, tmp_path)


def plain(text: str) -> datetime:
    """A timestamp without a zone."""
    return datetime.fromisoformat(text)


def decimal(text: str, scale: int) -> str:
    return base64.b64encode(decimal_to_bytes(Decimal(text), scale)).decode()


ADDRESS = {
    **struct(field("city", "string"), field("since", "int32", name=f"{TIME}.Date"), name="Address"),
    "optional": True,
}
FIELDS = [
    field("i8", "int8"), field("i16", "int16"), field("i32", "int32"), field("i64", "int64", optional=False),
    field("f32", "float"), field("f64", "double"), field("flag", "boolean"), field("text", "string"), field("raw", "bytes"),
    field("money", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "10"}),
    field("big", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "5"}),
    field("huge", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "1", "connect.decimal.precision": "60"}),
    {**struct(field("scale", "int32", optional=False), field("value", "bytes", optional=False), name="io.debezium.data.VariableScaleDecimal"), "optional": True, "field": "bare"},
    field("day", "int32", name=f"{CONNECT}.Date"), field("clock", "int32", name=f"{CONNECT}.Time"), field("moment", "int64", name=f"{CONNECT}.Timestamp"),
    field("d_day", "int32", name=f"{TIME}.Date"), field("d_clock", "int64", name=f"{TIME}.MicroTime"), field("d_nanos", "int64", name=f"{TIME}.NanoTime"),
    field("d_ms", "int64", name=f"{TIME}.Timestamp"), field("d_us", "int64", name=f"{TIME}.MicroTimestamp"), field("d_ns", "int64", name=f"{TIME}.NanoTimestamp"),
    field("zoned", "string", name=f"{TIME}.ZonedTimestamp"), field("iso", "string", name=f"{TIME}.IsoTimestamp"), field("iso_day", "string", name=f"{TIME}.IsoDate"),
    field("doc", "string", name="io.debezium.data.Json"),
    field("list", "array", items={"type": "int32", "optional": True}), field("dates", "array", items={"type": "string", "optional": True, "name": f"{TIME}.ZonedTimestamp"}),
    field("map", "map", keys={"type": "string", "optional": False}, values={"type": "int64", "optional": True}),
    {**ADDRESS, "field": "address"},
    field("addresses", "array", items=ADDRESS),
]  # fmt: skip
ROW: dict[str, Any] = {
    "i8": -128, "i16": 32767, "i32": -5, "i64": 2**63 - 1, "f32": 0.5, "f64": 1e-300, "flag": True, "text": "ö\n", "raw": "AP8=",
    "money": decimal("-12345678.90", 2), "big": decimal("123456789012345678901234567890.12345", 5), "huge": decimal("1" * 59 + ".5", 1),
    "bare": {"scale": 3, "value": decimal("-1234.567", 3)}, "day": 20_000, "clock": 86_399_999, "moment": 1_767_225_601_234, "d_day": -1,
    "d_clock": 1_000_001, "d_nanos": 86_399_999_999_000, "d_ms": -1, "d_us": 1_767_225_601_234_567, "d_ns": 1_767_225_601_234_567_000,
    "zoned": "2026-01-01T02:00:00.123456+02:00", "iso": "2026-01-01T02:00:00.5Z", "iso_day": "2026-01-01Z", "doc": '{"a":1}', "list": [1, None],
    "dates": ["2026-01-01T00:00:00Z", None], "map": {"a": 1, "b": None}, "address": {"city": "Oslo", "since": 1},
    "addresses": [{"city": None, "since": None}, None],
}  # fmt: skip
EMPTY = {"i64": 0}
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def message(row: dict[str, Any]) -> bytes:
    full = {each["field"]: row.get(each["field"]) for each in FIELDS}
    return json.dumps({"schema": struct(*FIELDS), "payload": full}).encode()


def test_every_kind_of_value_in_parquet(sink: Objects) -> None:
    sink.send(message(ROW), message(EMPTY))
    sink.start(flush_size="2")
    sink.await_committed(2)
    (name,) = sink.files()
    file = sink.directory / name
    table = pq.read_table(file)
    row, empty = table.to_pylist()
    assert {column: value for column, value in row.items() if column != "d_ns"} == {
        "i8": -128, "i16": 32767, "i32": -5, "i64": 2**63 - 1, "f32": 0.5, "f64": 1e-300, "flag": True, "text": "ö\n", "raw": b"\0\xff",
        "money": Decimal("-12345678.90"), "big": Decimal("123456789012345678901234567890.12345"), "huge": Decimal("1" * 59 + ".5"),
        "bare": "-1234.567", "day": date(2024, 10, 4), "clock": time(23, 59, 59, 999_000), "moment": WHEN + timedelta(milliseconds=1234),
        "d_day": date(1969, 12, 31), "d_clock": time(0, 0, 1, 1), "d_nanos": time(23, 59, 59, 999_999), "d_ms": plain("1969-12-31T23:59:59.999"),
        "d_us": plain("2026-01-01T00:00:01.234567"), "zoned": WHEN + timedelta(microseconds=123_456), "iso": plain("2026-01-01T02:00:00.5"),
        "iso_day": date(2026, 1, 1), "doc": '{"a":1}', "list": [1, None], "dates": [WHEN, None], "map": [("a", 1), ("b", None)],
        "address": {"city": "Oslo", "since": date(1970, 1, 2)}, "addresses": [{"city": None, "since": None}, None],
    }  # fmt: skip
    assert table["d_ns"].cast(pa.int64()).to_pylist() == [1_767_225_601_234_567_000, None]
    assert empty == {each["field"]: 0 if each["field"] == "i64" else None for each in FIELDS}
    assert not table.schema.field("i64").nullable
    assert table.schema.field("i32").nullable
    with duckdb.connect() as reader:
        columns = reader.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
        read = reader.execute(
            f"SELECT money, day, zoned::timestamp, address.city, map['a'], list FROM '{file}'"
        ).fetchall()
    types = {name: kind for name, kind, *_ in columns}
    assert {name: types[name] for name in ("money", "big", "day", "clock", "moment", "d_us", "zoned", "list", "address", "map")} == {
        "money": "DECIMAL(10,2)", "big": "DECIMAL(38,5)", "day": "DATE", "clock": "TIME", "moment": "TIMESTAMP WITH TIME ZONE",
        "d_us": "TIMESTAMP", "zoned": "TIMESTAMP WITH TIME ZONE", "list": "INTEGER[]",
        "address": "STRUCT(city VARCHAR, since DATE)", "map": "MAP(VARCHAR, BIGINT)",
    }  # fmt: skip
    assert read[0][0] == Decimal("-12345678.90")
    assert read[0][3:] == ("Oslo", 1, [1, None])


def test_every_kind_of_value_in_avro_and_json(sink: Objects) -> None:
    sink.send(message(ROW), message(EMPTY))
    sink.start("AvroFormat", flush_size="2")
    sink.await_committed(2)
    (data,) = sink.files().values()
    reader = fastavro.reader(io.BytesIO(data))
    row, empty = list(reader)
    assert row["money"] == Decimal("-12345678.90")
    assert row["address"] == {"city": "Oslo", "since": 1}
    assert row["map"] == {"a": 1, "b": None}
    assert row["moment"] == datetime(2026, 1, 1, 0, 0, 1, 234_000, tzinfo=UTC)
    assert empty["i64"] == 0
    sink.worker.stop()
    sink.worker.reset_offsets()
    sink.start("JsonFormat", flush_size="2", json_decimal_format="NUMERIC")
    sink.worker.wait_for(lambda: len(sink.files()) == 2, "the other object")
    text = next(data for name, data in sink.files().items() if name.endswith(".json"))
    first, second = (json.loads(line) for line in text.splitlines())
    assert b'"money":-12345678.90,' in text
    assert (first["address"], first["map"], second["i64"]) == (
        {"city": "Oslo", "since": 1},
        {"a": 1, "b": None},
        0,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("money", decimal("123456789.00", 2)),
        ("zoned", "infinity"),
        ("i64", None),
        ("iso", "+12026-01-01T00:00:00Z"),
        ("clock", 86_400_001),
    ],
)
def test_a_value_that_no_column_takes_is_a_dead_letter_by_its_column(
    sink: Objects, name: str, value: Any
) -> None:
    sink.send(message(ROW), message({**ROW, name: value}), message(EMPTY))
    letters = {
        "errors_deadletterqueue_topic_name": "letters",
        "errors_deadletterqueue_context_headers_enable": "true",
    }
    sink.start(flush_size="2", errors_tolerance="all", **letters)
    sink.await_committed(3)
    (data,) = sink.files().values()
    assert [row["i64"] for row in pq.read_table(io.BytesIO(data)).to_pylist()] == [2**63 - 1, 0]
    ((_, _, headers),) = sink.worker.kafka.topics["letters"]
    said = dict(headers or ())
    assert name.encode() in (said["__connect.errors.exception.message"] or b"")


def test_changes_of_rows_as_they_are_after_them(sink: Objects) -> None:
    """Debezium's envelopes, as they are and through ExtractNewRecordState."""
    value = struct(
        field("id", "int32", optional=False),
        field("at", "int64", name=f"{TIME}.MicroTimestamp"),
        name="o.Value",
    )
    envelope = struct(
        {**value, "field": "before", "optional": True}, {**value, "field": "after", "optional": True},
        field("op", "string", optional=False), name="o.Envelope",
    )  # fmt: skip

    def change(op: str, before: Any, after: Any) -> bytes:
        return json.dumps(
            {"schema": envelope, "payload": {"before": before, "after": after, "op": op}}
        ).encode()

    one = {"id": 1, "at": 1_000_000}
    sink.send(change("c", None, one), change("u", one, {**one, "at": None}), change("d", one, None), None)
    sink.start(flush_size="3", behavior_on_null_values="ignore")
    sink.await_committed(4)
    (data,) = sink.files().values()
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    assert [(row["op"], row["after"] and row["after"]["at"]) for row in rows] == [
        ("c", plain("1970-01-01T00:00:01")), ("u", None), ("d", None),
    ]  # fmt: skip
    sink.worker.stop()
    sink.worker.reset_offsets()
    unwrap = {"transforms": "u", "transforms_u_type": "io.debezium.transforms.ExtractNewRecordState"}
    sink.start(flush_size="2", topics_dir="flat", behavior_on_null_values="ignore", **unwrap)
    sink.await_committed(4)
    flat = next(data for name, data in sink.files().items() if name.startswith("flat/"))
    assert pq.read_table(io.BytesIO(flat)).to_pylist() == [
        {"id": 1, "at": plain("1970-01-01T00:00:01")},
        {"id": 1, "at": None},
    ]


def test_events_with_their_attributes(sink: Objects) -> None:
    """CloudEvents have their attributes in headers; a transform makes columns of those that are wanted."""
    event = {
        "schema": struct(field("order_id", "int64", optional=False), name="OrderPlaced"),
        "payload": {"order_id": 7},
    }
    sink.worker.kafka.inputs.produce(
        TOPIC,
        b'"order-7"',
        json.dumps(event).encode(),
        headers=[("ce_id", b"e-1"), ("ce_subject", b"order-7")],
    )
    move = {
        "transforms": "h", "transforms_h_type": "io.debezium.transforms.HeaderToValue", "transforms_h_headers": "ce_id,ce_subject",
        "transforms_h_fields": "ce_id,ce_subject", "transforms_h_operation": "copy",
    }  # fmt: skip
    sink.start(flush_size="1", key_converter_schemas_enable="false", key_converter=JSON, **move)
    sink.await_committed(1)
    (data,) = sink.files().values()
    assert pq.read_table(io.BytesIO(data)).to_pylist() == [
        {"order_id": 7, "ce_id": "e-1", "ce_subject": "order-7"}
    ]
