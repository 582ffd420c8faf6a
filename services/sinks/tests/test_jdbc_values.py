"""Values of every semantic type: how they are read, and what PostgreSQL and SQLite make of them, through a whole task."""

import base64
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink

from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.jdbc.kinds import kind_of

JSON = "org.apache.kafka.connect.json.JsonConverter"
UPSERT = {
    "insert_mode": "upsert",
    "primary_key_mode": "record_value",
    "primary_key_fields": "id",
    "schema_evolution": "basic",
}
SCHEMAS = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
Rows = Callable[..., list[tuple[Any, ...]]]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def integer_bytes(number: int) -> str:
    return b64(number.to_bytes(20, "big", signed=True))


VALUES: list[tuple[str, dict[str, Any], Any, str, str]] = [
    # field, schema, value as JSON has it, column's type, value as PostgreSQL shows it
    ("tiny", {"type": "int8"}, -128, "smallint", "-128"),
    ("big", {"type": "int64"}, 2**63 - 1, "bigint", str(2**63 - 1)),
    ("single", {"type": "float"}, 0.1, "real", "0.1"),
    ("nan", {"type": "double"}, "NaN", "double precision", "NaN"),
    ("infinite", {"type": "double"}, "-Infinity", "double precision", "-Infinity"),
    ("yes", {"type": "boolean"}, True, "boolean", "true"),
    ("words", {"type": "string"}, "a\tb\\N\n'\"ü€😀", "text", "a\tb\\N\n'\"ü€😀"),
    ("empty", {"type": "string"}, "", "text", ""),
    ("data", {"type": "bytes"}, b64(b"\0\xff"), "bytea", "\\x00ff"),
    ("amount", {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "10"}}, integer_bytes(-123456), "numeric(10,2)", "-1234.56"),
    ("bare", {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]}, {"scale": 10, "value": integer_bytes(123456789012345678901234567890)}, "numeric", "12345678901234567890.1234567890"),
    ("day", {"type": "int32", "name": "io.debezium.time.Date"}, -1, "date", "1969-12-31"),
    ("old_day", {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, -735160, "date", "0044-03-15 BC"),
    ("clock_ms", {"type": "int32", "name": "io.debezium.time.Time"}, 86_399_999, "time(6) without time zone", "23:59:59.999"),
    ("clock", {"type": "int64", "name": "io.debezium.time.MicroTime"}, 86_400_000_000, "time(6) without time zone", "24:00:00"),
    ("clock_ns", {"type": "int64", "name": "io.debezium.time.NanoTime"}, 1_000, "time(6) without time zone", "00:00:00.000001"),
    ("at_ms", {"type": "int64", "name": "io.debezium.time.Timestamp"}, -1, "timestamp(6) without time zone", "1969-12-31 23:59:59.999"),
    ("at_connect", {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 0, "timestamp(6) without time zone", "1970-01-01 00:00:00"),
    ("at", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, -1, "timestamp(6) without time zone", "1969-12-31 23:59:59.999999"),
    ("at_ns", {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, 1_999, "timestamp(6) without time zone", "1970-01-01 00:00:00.000001"),
    ("at_iso", {"type": "string", "name": "io.debezium.time.IsoTimestamp"}, "+20021-01-01T00:00:00Z", "timestamp(6) without time zone", "20021-01-01 00:00:00"),
    ("moment", {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2026-01-01T00:00:00.000001Z", "timestamp(6) with time zone", "2026-01-01 00:00:00.000001+00"),
    ("clock_zoned", {"type": "string", "name": "io.debezium.time.ZonedTime"}, "10:00:00Z", "time(6) with time zone", "10:00:00+00"),
    ("span", {"type": "int64", "name": "io.debezium.time.MicroDuration"}, -93_600_000_001, "interval", "-26:00:00.000001"),
    ("span_text", {"type": "string", "name": "io.debezium.time.Interval"}, "P1Y2M-3DT4H5M6.7S", "interval", "1 year 2 mons -3 days +04:05:06.7"),
    ("document", {"type": "string", "name": "io.debezium.data.Json"}, '{"a": 1.50}', "json", '{"a": 1.50}'),
    ("mark", {"type": "string", "name": "io.debezium.data.Uuid"}, "b68a35a7-17ad-35b3-af2a-000000000000", "uuid", "b68a35a7-17ad-35b3-af2a-000000000000"),
    ("markup", {"type": "string", "name": "io.debezium.data.Xml"}, "<a/>", "xml", "<a/>"),
    ("mood", {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "ok,bad"}}, "ok", "text", "ok"),
    ("bits", {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "10"}}, b64(b"\x05\x00"), "bit(10)", "0000000101"),
    ("tags", {"type": "array", "items": {"type": "string", "optional": True}}, ["a,b", None, 'q"\\', "NULL", ""], "text[]", '{"a,b",NULL,"q\\"\\\\","NULL",""}'),
    ("days", {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date", "optional": True}}, [0, None], "date[]", "{1970-01-01,NULL}"),
    ("blobs", {"type": "array", "items": {"type": "bytes"}}, [b64(b"\xff")], "bytea[]", '{"\\\\xff"}'),
    ("pairs", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string", "optional": True}}, {"a": None, "b": "c"}, "json", '{"a":null,"b":"c"}'),
    ("place", {"type": "struct", "fields": [{"field": "x", "type": "int32"}, {"field": "y", "type": "bytes"}]}, {"x": 1, "y": b64(b"z")}, "json", '{"x":1,"y":"eg=="}'),
]  # fmt: skip


def record(nulls: bool = False) -> dict[str, Any]:
    fields = [{"field": "number", "type": "int32"}]
    fields += [{"field": name, **schema, "optional": True} for name, schema, *_ in VALUES]
    payload = {"number": 2 if nulls else 1} | {
        name: None if nulls else value for name, _, value, *_ in VALUES
    }
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


def test_every_type_in_postgresql(sink: Sink, target: Rows) -> None:
    sink.start("t", schema_evolution="basic", primary_key_mode="kafka", **SCHEMAS)
    sink.send("t", None, record())
    sink.send("t", None, record(nulls=True))
    sink.wait()
    found = target(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
    )
    types = dict(found)
    shown = target(f"SELECT {', '.join(f'{name}::text' for name, *_ in VALUES)} FROM t ORDER BY number")
    assert {name: types[name] for name, *_ in VALUES} == {name: kind for name, _, _, kind, _ in VALUES}
    assert list(shown[0]) == [text for *_, text in VALUES]
    assert list(shown[1]) == [None] * len(VALUES)


def test_every_type_in_sqlite(sqlite_sink: tuple[Sink, Path]) -> None:
    sink, file = sqlite_sink
    sink.start("t", schema_evolution="basic", primary_key_mode="kafka", **SCHEMAS)
    sink.send("t", None, record())
    sink.wait()
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM t").fetchone())
    assert (row["tiny"], row["yes"], row["nan"], row["data"]) == (-128, 1, "nan", b"\0\xff")
    assert row["bare"] == "12345678901234567890.1234567890"
    assert (row["amount"], row["at"], row["day"]) == ("-1234.56", "1969-12-31 23:59:59.999999", "1969-12-31")
    assert json.loads(row["tags"]) == ["a,b", None, 'q"\\', "NULL", ""]


def test_columns_that_are_there_get_what_their_type_reads(sink: Sink, target: Rows) -> None:
    target("CREATE DOMAIN short AS varchar(3)")
    target(
        "CREATE TABLE t (words short, pairs jsonb, tags jsonb, mood char(4), moment timestamp, tiny boolean, yes int, amount numeric(6,1),"
        " twice numeric GENERATED ALWAYS AS (amount * 2) STORED, place bigint GENERATED ALWAYS AS IDENTITY)"
    )
    schema = {name: schema for name, schema, *_ in VALUES}
    payload = {"words": "abc", "pairs": {"b": "c"}, "tags": ["x"], "mood": "ok", "moment": "2026-07-01T00:00:00Z", "tiny": 1, "yes": True,
               "amount": integer_bytes(123456), "twice": 5, "place": 7}  # fmt: skip
    schema |= {"twice": {"type": "int32"}, "place": {"type": "int64"}}
    fields = [{"field": name, **schema[name]} for name in payload]
    sink.start("t", use_time_zone="Europe/Berlin", **SCHEMAS)
    sink.send("t", None, {"schema": {"type": "struct", "fields": fields}, "payload": payload})
    sink.wait()
    (row,) = target(
        "SELECT words, pairs::text, tags::text, mood, moment::text, tiny, yes, amount, twice, place FROM t"
    )
    assert row[:7] == ("abc", '{"b": "c"}', '["x"]', "ok  ", "2026-07-01 02:00:00", True, 1)
    assert [str(value) for value in row[7:]] == ["1234.6", "2469.2", "7"]


@pytest.mark.parametrize("word", ["abcd", "abc "])
def test_a_text_that_is_too_long_is_never_cut_off(sink: Sink, target: Rows, word: str) -> None:
    target("CREATE TABLE t (words varchar(3))")
    sink.start("t", errors_tolerance="all")
    sink.send("t", None, {"words": word})
    sink.wait()
    assert target("SELECT words FROM t") == ([] if word == "abcd" else [("abc",)]), "SQL cuts off spaces only"


def test_required_columns_and_defaults_are_made(sink: Sink, target: Rows) -> None:
    sink.start("t", schema_evolution="basic", **SCHEMAS)
    first = [{"field": "number", "type": "int32"}]
    sink.send("t", None, {"schema": {"type": "struct", "fields": first}, "payload": {"number": 1}})
    sink.wait()
    more = [
        *first,
        {"field": "state", "type": "string", "default": "it's new"},
        {"field": "other", "type": "string"},
    ]
    values = {"number": 2, "state": "b", "other": "c"}
    sink.send("t", None, {"schema": {"type": "struct", "fields": more}, "payload": values})
    sink.wait()
    assert target("SELECT * FROM t ORDER BY number") == [(1, "it's new", None), (2, "b", "c")]
    required = target(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND attnotnull"
    )
    assert [name for (name,) in required] == ["number", "state"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("io.debezium.time.Date", 2_146_033_979, "infinity"),
        ("io.debezium.time.MicroTimestamp", -(2**63), "-infinity"),
        ("io.debezium.time.Timestamp", 9_223_372_036_825_200_000, "infinity"),
        ("io.debezium.time.MicroTimestamp", -62_135_596_800_000_001, "0001-12-31 23:59:59.999999 BC"),
    ],
)
def test_times_beyond_python_s(name: str, value: int, text: str) -> None:
    _, read = kind_of(ConnectSchema(ConnectType.INT64, name=name))
    assert read is not None
    assert read(value) == text


@pytest.mark.parametrize("others", [[], ["more"], ["more", "list"]])
def test_a_placeholder_in_a_record_with_schemas_is_no_value(
    sqlite_sink: tuple[Sink, Path], others: list[str]
) -> None:
    """With one column that may hold one, with two of texts, and with one of another type beside them."""
    sink, file = sqlite_sink
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "big"},
    ]
    for name in others:
        kind = {"type": "array", "items": {"type": "string"}} if name == "list" else {"type": "string"}
        fields.append({**kind, "optional": True, "field": name})
    row = {"type": "struct", "optional": True, "fields": fields}
    schema = {
        "type": "struct", "optional": False,
        "fields": [
            {**row, "field": "before"}, {**row, "field": "after"},
            {"type": "struct", "optional": True, "fields": [], "field": "source"}, {"type": "string", "optional": False, "field": "op"},
        ],
    }  # fmt: skip

    def put(op: str, **values: Any) -> None:
        after = {"id": 1, **dict.fromkeys(others), **values}
        payload = {"before": None, "after": after, "source": None, "op": op}
        sink.send("t", None, {"schema": schema, "payload": payload})

    put("c", big="kept")
    put("u", big="__debezium_unavailable_value", **dict.fromkeys(others[:1], "new"))
    sink.start("t", **UPSERT, **{name.replace(".", "_"): text for name, text in SCHEMAS.items()})
    sink.wait()
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT big FROM t").fetchall()
    assert found == [("kept",)]
