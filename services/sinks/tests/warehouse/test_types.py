"""Every kind of value in the warehouse's columns; columns that become wider; values that a column does not hold exactly."""

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from object_parts import JSON, field, struct
from sink_targets import Sink
from warehouse_parts import ask

from tidings_envelope.decimals import decimal_to_bytes
from tidings_sinks.warehouse.values import _beyond

Warehouse = tuple[Sink, Path]
CONNECT, TIME, DATA = "org.apache.kafka.connect.data", "io.debezium.time", "io.debezium.data"
OPTIONS = {
    "auto_create": "true",
    "auto_evolve": "true",
    "value_converter": JSON,
    "value_converter_schemas_enable": "true",
    "table_name_format": "t",
}
LETTERS = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters"}


def plain(text: str) -> datetime:
    """A timestamp without a zone."""
    return datetime.fromisoformat(text)


def decimal(text: str, scale: int) -> str:
    return base64.b64encode(decimal_to_bytes(Decimal(text), scale)).decode()


def bare(text: str, scale: int) -> dict[str, Any]:
    return {"scale": scale, "value": decimal(text, scale)}


def send(sink: Sink, fields: list[Any], *rows: dict[str, Any]) -> None:
    for row in rows:
        full = {each["field"]: row.get(each["field"]) for each in fields}
        sink.send("t", None, {"schema": struct(*fields), "payload": full})


VARIABLE = {**struct(field("scale", "int32", optional=False), field("value", "bytes", optional=False), name=f"{DATA}.VariableScaleDecimal"), "optional": True}  # fmt: skip
POINT = {**struct(field("x", "double"), field("y", "double"), field("wkb", "bytes"), field("srid", "int32"), name=f"{DATA}.geometry.Point"), "optional": True}  # fmt: skip
ADDRESS = {**struct(field("city", "string"), field("since", "int32", name=f"{TIME}.Date"), name="Address"), "optional": True}  # fmt: skip
EVERY: list[tuple[Any, str, Any, Any]] = [
    # A field, its column, a value as it stands in the record, and what DuckDB gives.
    (field("i8", "int8"), "TINYINT", -128, -128),
    (field("i16", "int16"), "SMALLINT", 32767, 32767),
    (field("i32", "int32"), "INTEGER", -5, -5),
    (field("i64", "int64"), "BIGINT", 2**63 - 1, 2**63 - 1),
    (field("f32", "float"), "FLOAT", 0.5, 0.5),
    (field("f64", "double"), "DOUBLE", 1e-300, 1e-300),
    (field("flag", "boolean"), "BOOLEAN", True, True),
    (field("text", "string"), "VARCHAR", "ö\n'\"", "ö\n'\""),
    (field("raw", "bytes"), "BLOB", "AP8=", b"\0\xff"),
    (field("money", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "10"}), "DECIMAL(10,2)", decimal("-12345678.90", 2), Decimal("-12345678.90")),
    (field("big", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "5"}), "DECIMAL(38,5)", decimal("123456789012345678901234567890.12345", 5), Decimal("123456789012345678901234567890.12345")),
    (field("huge", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "1", "connect.decimal.precision": "60"}), "VARCHAR", decimal("1" * 59 + ".5", 1), "1" * 59 + ".5"),
    ({**VARIABLE, "field": "bare"}, "VARCHAR", bare("-1234567890123456789012345678901234567890.567", 3), "-1234567890123456789012345678901234567890.567"),
    (field("day", "int32", name=f"{CONNECT}.Date"), "DATE", 20_000, date(2024, 10, 4)),
    (field("clock", "int32", name=f"{CONNECT}.Time"), "TIME", 86_399_999, time(23, 59, 59, 999_000)),
    (field("moment", "int64", name=f"{CONNECT}.Timestamp"), "TIMESTAMP WITH TIME ZONE", 1_767_225_601_234, datetime(2026, 1, 1, 0, 0, 1, 234_000, UTC)),
    (field("d_day", "int32", name=f"{TIME}.Date"), "DATE", -1, date(1969, 12, 31)),
    (field("d_ms", "int32", name=f"{TIME}.Time"), "TIME", 1, time(0, 0, 0, 1000)),
    (field("d_clock", "int64", name=f"{TIME}.MicroTime"), "TIME", 1_000_001, time(0, 0, 1, 1)),
    (field("d_nanos", "int64", name=f"{TIME}.NanoTime"), "TIME", 86_399_999_999_000, time(23, 59, 59, 999_999)),
    (field("t_ms", "int64", name=f"{TIME}.Timestamp"), "TIMESTAMP", -1, plain("1969-12-31T23:59:59.999")),
    (field("t_us", "int64", name=f"{TIME}.MicroTimestamp"), "TIMESTAMP", 1_767_225_601_234_567, plain("2026-01-01T00:00:01.234567")),
    (field("iso", "string", name=f"{TIME}.IsoTimestamp"), "TIMESTAMP", "2026-01-01T02:00:00.5Z", plain("2026-01-01T02:00:00.5")),
    (field("iso_day", "string", name=f"{TIME}.IsoDate"), "DATE", "2026-01-01Z", date(2026, 1, 1)),
    (field("iso_clock", "string", name=f"{TIME}.IsoTime"), "TIME", "12:00:00.25Z", time(12, 0, 0, 250_000)),
    (field("zoned", "string", name=f"{TIME}.ZonedTimestamp"), "TIMESTAMP WITH TIME ZONE", "2026-01-01T02:00:00.123456+02:00", datetime(2026, 1, 1, 0, 0, 0, 123_456, UTC)),
    (field("clock_z", "string", name=f"{TIME}.ZonedTime"), "TIME WITH TIME ZONE", "10:00:00.5Z", time(10, 0, 0, 500_000, UTC)),
    (field("doc", "string", name=f"{DATA}.Json"), "JSON", '{"a": [1]}', '{"a": [1]}'),
    (field("id", "string", name=f"{DATA}.Uuid"), "UUID", "550e8400-e29b-41d4-a716-446655440000", UUID("550e8400-e29b-41d4-a716-446655440000")),
    (field("mood", "string", name=f"{DATA}.Enum", parameters={"allowed": "a,b"}), "VARCHAR", "a", "a"),
    (field("bits", "bytes", name=f"{DATA}.Bits", parameters={"length": "4"}), "BIT", "BQ==", "0101"),
    (field("list", "array", items={"type": "int32", "optional": True}), "INTEGER[]", [1, None], [1, None]),
    (field("days", "array", items={"type": "int32", "optional": True, "name": f"{TIME}.Date"}), "DATE[]", [0], [date(1970, 1, 1)]),
    (field("map", "map", keys={"type": "string", "optional": False}, values={"type": "int64", "optional": True}), "MAP(VARCHAR, BIGINT)", {"a": 1, "b": None}, {"a": 1, "b": None}),
    ({**ADDRESS, "field": "address"}, "STRUCT(city VARCHAR, since DATE)", {"city": "Oslo", "since": 1}, {"city": "Oslo", "since": date(1970, 1, 2)}),
    (field("addresses", "array", items=ADDRESS), "STRUCT(city VARCHAR, since DATE)[]", [{"city": None, "since": None}, None], [{"city": None, "since": None}, None]),
    ({**POINT, "field": "point"}, "STRUCT(x DOUBLE, y DOUBLE, wkb BLOB, srid INTEGER)", {"x": 1.0, "y": 2.0, "wkb": None, "srid": None}, {"x": 1.0, "y": 2.0, "wkb": None, "srid": None}),
]  # fmt: skip


def test_every_kind_of_value(warehouse: Warehouse) -> None:
    sink, file = warehouse
    fields = [each for each, *_ in EVERY]
    send(sink, fields, {each["field"]: value for each, _, value, _ in EVERY}, {})
    sink.start("t", **OPTIONS)
    sink.wait()
    columns = dict(ask(file, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 't'"))
    assert columns == {each["field"]: kind for each, kind, *_ in EVERY}
    row, empty = ask(file, "SELECT * FROM t ORDER BY rowid")
    for (each, _, _, expected), found in zip(EVERY, row, strict=True):
        assert found == expected, each["field"]
    assert set(empty) == {None}


@pytest.mark.parametrize(
    ("kind", "semantic", "value", "text"),
    [
        ("int32", "Date", 2_146_033_979, "infinity"),
        ("int32", "Date", -2_147_472_691, "-infinity"),
        ("int32", "Date", -719_529, "0002-12-31 (BC)"),
        ("int64", "Timestamp", 9_223_372_036_825_200_000, "infinity"),
        ("int64", "MicroTimestamp", 2**63 - 1, "infinity"),
        ("int64", "MicroTimestamp", -(2**63), "-infinity"),
        ("int64", "MicroTime", 86_400_000_000, "24:00:00"),
        ("int64", "MicroDuration", -176_400_500_000, "-49:00:00.5"),
        ("int64", "NanoTimestamp", 1_767_225_601_234_567_891, "2026-01-01 00:00:01.234567891"),
        ("string", "ZonedTimestamp", "infinity", "infinity"),
        ("string", "ZonedTimestamp", "-infinity", "-infinity"),
        ("string", "ZonedTimestamp", "+12026-01-01T02:00:00+02:00", "12026-01-01 00:00:00+00"),
        ("string", "ZonedTimestamp", "-0043-03-15T00:00:00Z", "0044-03-15 (BC) 00:00:00+00"),
        ("string", "IsoTimestamp", "+12026-01-01T02:00:00Z", "12026-01-01 02:00:00"),
        ("string", "Interval", "P1Y2M3DT4H", "P1Y2M3DT4H"),
    ],
)
def test_times_beyond_python_s_calendar(
    warehouse: Warehouse, kind: str, semantic: str, value: Any, text: str
) -> None:
    sink, file = warehouse
    send(sink, [field("m", kind, name=f"{TIME}.{semantic}")], {"m": value})
    sink.start("t", **OPTIONS)
    sink.wait()
    assert ask(file, "SELECT m::VARCHAR FROM t") == [(text,)]


def test_columns_become_wider(warehouse: Warehouse) -> None:
    sink, file = warehouse

    def amount(precision: int, scale: int) -> Any:
        parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
        return field("d", "bytes", name=f"{CONNECT}.Decimal", parameters=parameters)

    def address(*more: Any) -> Any:
        return {**struct(field("zip", "int16"), *more), "optional": True, "field": "s"}

    narrow = [field("i", "int16"), field("f", "float"), amount(5, 2), field("l", "array", items={"type": "int32", "optional": True}), address()]  # fmt: skip
    wide = [field("i", "int64"), field("f", "double"), amount(7, 3), field("l", "array", items={"type": "int64", "optional": True}), address(field("city", "string"))]  # fmt: skip
    wide[-1]["fields"][0]["type"] = "int32"
    sink.start("t", **OPTIONS)
    first = {"i": 1, "f": 0.5, "d": decimal("999.99", 2), "l": [1], "s": {"zip": 1}}
    second = {
        "i": 2**40,
        "f": 0.1,
        "d": decimal("1.001", 3),
        "l": [2**40],
        "s": {"zip": 70000, "city": "Oslo"},
    }
    send(sink, narrow, first)
    sink.wait()
    send(sink, wide, second)
    send(sink, narrow, first)
    sink.wait()
    old = (1, 0.5, Decimal("999.990"), [1], {"zip": 1, "city": None})
    new = (2**40, 0.1, Decimal("1.001"), [2**40], {"zip": 70000, "city": "Oslo"})
    assert ask(file, "SELECT * FROM t ORDER BY rowid") == [old, new, old]
    (kinds,) = ask(file, "SELECT typeof(i), typeof(f), typeof(d), typeof(l), typeof(s) FROM t LIMIT 1")
    assert kinds == ("BIGINT", "DOUBLE", "DECIMAL(7,3)", "BIGINT[]", "STRUCT(zip INTEGER, city VARCHAR)")


def test_a_value_that_a_column_does_not_hold_exactly_is_refused(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE t (i BIGINT, d DECIMAL(4,1), f FLOAT, day DATE)")
    fields = [
        field("i", "double"),
        field("d", "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": "2"}),
        field("f", "double"),
        field("day", "int64", name=f"{TIME}.MicroTimestamp"),
    ]
    day = 86_400_000_000
    good = {"i": 2.0, "d": decimal("1.50", 2), "f": 0.5, "day": day}
    bad: list[dict[str, Any]] = [{"i": 1.5}, {"d": decimal("1.25", 2)}, {"f": 0.1}, {"day": 1}]
    send(sink, fields, good, *bad)
    sink.start("t", **{**OPTIONS, "auto_evolve": "false"}, **LETTERS)
    sink.wait()
    assert ask(file, "SELECT * FROM t") == [(2, Decimal("1.5"), 0.5, date(1970, 1, 2))]
    assert len(sink.worker.kafka.topics["letters"]) == len(bad)


def test_values_without_schemas(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start("t", auto_create="true", auto_evolve="true", table_name_format="t")
    sink.send("t", None, {"a": 1, "b": 1.5, "c": True, "d": "x", "e": {"f": [1]}, "g": None})
    sink.wait()
    assert ask(file, "SELECT * FROM t") == [(1, 1.5, True, "x", '{"f":[1]}')]


def test_defaults_of_columns_are_the_schema_s(warehouse: Warehouse) -> None:
    sink, file = warehouse
    fields = [
        field("n", "int64"),
        field("a", "string", default="it's"),
        field("b", "int32", default=5),
        field("c", "int32", name=f"{TIME}.Date", default=1),
        field("d", "bytes", default="AP8="),
    ]
    sink.start("t", **OPTIONS)
    for each in (fields[:1], fields):
        sink.send("t", None, {"schema": struct(*each), "payload": {"n": 1}})
        sink.wait()
    ask(file, "INSERT INTO t (n) VALUES (2)")
    expected = ("it's", 5, date(1970, 1, 2), b"\0\xff")
    assert ask(file, "SELECT a, b, c, d FROM t WHERE n = 2") == [expected]


def test_iso_texts_are_read_as_python_reads_them() -> None:
    for text in (
        "2026-02-28T23:59:59.123456+05:30",
        "1600-02-29T00:00:00Z",
        "0001-01-01T00:00:00-11:00",
        "1969-12-31T12:00Z",
    ):
        expected = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
        assert (
            _beyond(text) == (expected.days * 86_400 + expected.seconds) * 1_000_000 + expected.microseconds
        )


CLOCKS = {1: 0, 2: -3_723_400_000, 3: 86_400_000_000, 4: 3_020_399_000_000, 5: 86_400_000_001}
"""Microseconds. A TIME of MariaDB's and MySQL's may be a duration; DuckDB's is one of a day, and no table with another is read."""


def clocks(sink: Sink, name: str, factor: int = 1) -> None:
    fields = [
        field("number", "int32"),
        field("worked", "int64", name=f"{TIME}.{name}"),
        {**struct(field("from", "int64", name=f"{TIME}.{name}"), name="Shift"), "optional": True, "field": "shift"},
    ]  # fmt: skip
    for number, micros in CLOCKS.items():
        worked = micros * factor if number % 2 else 0
        send(sink, fields, {"number": number, "worked": worked, "shift": {"from": micros * factor - worked}})


@pytest.mark.parametrize(("name", "factor"), [("MicroTime", 1), ("NanoTime", 1000)])
def test_a_time_outside_of_a_day_is_a_bad_record(warehouse: Warehouse, name: str, factor: int) -> None:
    """Also in a struct."""
    sink, file = warehouse
    clocks(sink, name, factor)
    headers = {"errors_deadletterqueue_context_headers_enable": "true"}
    sink.start("t", **OPTIONS, **LETTERS, **headers)
    sink.wait()
    found = ask(file, "SELECT number, worked::VARCHAR, shift::VARCHAR FROM t ORDER BY number")
    assert found == [(1, "00:00:00", "{'from': '00:00:00'}"), (3, "24:00:00", "{'from': '00:00:00'}")]
    letters = sink.worker.kafka.topics["letters"]
    told = [dict(more or ())["__connect.errors.exception.message"] for *_, more in letters]
    assert told == [
        f"column {column}: the time is none of a day; a column of type INTERVAL would hold it".encode()
        for column in ("shift", "shift", "worked")
    ]


def test_an_interval_that_is_there_holds_durations(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE t (number INTEGER, worked INTERVAL)")
    fields = [field("number", "int32"), field("worked", "int64", name=f"{TIME}.MicroTime")]
    send(sink, fields, *({"number": number, "worked": micros} for number, micros in CLOCKS.items()))
    sink.start("t", **OPTIONS)
    sink.wait()
    assert ask(file, "SELECT worked::VARCHAR FROM t ORDER BY number") == [
        ("00:00:00",), ("-01:02:03.4",), ("24:00:00",), ("838:59:59",), ("24:00:00.000001",),
    ]  # fmt: skip
