"""Debezium's representations become SQL's types, exactly."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.columns import PLACEHOLDER, column_type, is_placeholder
from tidings_lakehouse.formats.avro_nodes import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def local(*parts: int) -> dt.datetime:
    """A time without a zone, as timestamp_ntz is given."""
    return dt.datetime(*parts)  # type: ignore[misc, arg-type]  # noqa: DTZ001


CASES: list[tuple[str, Node, str, Any, str]] = [
    ("date", Node("int", logical="io.debezium.time.Date"), "-1", dt.date(1969, 12, 31), "date"),
    (
        "timestamp",
        Node("long", logical="io.debezium.time.MicroTimestamp"),
        "1700000000123456L",
        local(2023, 11, 14, 22, 13, 20, 123456),
        "timestamp_ntz",
    ),
    (
        "timestamp_ms",
        Node("long", logical="io.debezium.time.Timestamp"),
        "-1L",
        local(1969, 12, 31, 23, 59, 59, 999000),
        "timestamp_ntz",
    ),
    (
        "timestamp_ns",
        Node("long", logical="io.debezium.time.NanoTimestamp"),
        "1700000000123456000L",
        local(2023, 11, 14, 22, 13, 20, 123456),
        "timestamp_ntz",
    ),
    ("time", Node("long", logical="io.debezium.time.MicroTime"), "86399999999L", "23:59:59.999999", "string"),
    (
        "time_24",
        Node("long", logical="io.debezium.time.MicroTime"),
        "86400000000L",
        "24:00:00.000000",
        "string",
    ),
    ("time_ms", Node("int", logical="io.debezium.time.Time"), "1001", "00:00:01.001000", "string"),
    ("time_ns", Node("long", logical="io.debezium.time.NanoTime"), "1001000L", "00:00:00.001001", "string"),
    (
        "decimal",
        Node("bytes", logical="decimal", precision=10, scale=2),
        "cast(12.34 as decimal(10,2))",
        Decimal("12.34"),
        "decimal(10,2)",
    ),
    ("many_digits", Node("bytes", logical="decimal", precision=64, scale=2), "X'FF'", "-0.01", "string"),
    ("uuid", Node("string", logical="io.debezium.data.Uuid"), "'u'", "u", "string"),
    (
        "dates",
        Node("array", items=Node("int", logical="io.debezium.time.Date")),
        "array(0, null)",
        [dt.date(1970, 1, 1), None],
        "array<date>",
    ),
    (
        "variable",
        Node(
            "record",
            logical="io.debezium.data.VariableScaleDecimal",
            name="V",
            fields=(("scale", Node("int")), ("value", Node("bytes"))),
        ),
        "struct(3 as scale, X'0102' as value)",
        "0.258",
        "string",
    ),
]


@pytest.mark.parametrize(
    ("node", "literal", "expected", "sql"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_value_and_type(session: SparkSession, node: Node, literal: str, expected: Any, sql: str) -> None:
    type_ = column_type(node)
    frame = session.sql(f"select {literal} as c").select(type_.apply(sf.col("c")).alias("c"))
    assert type_.sql.simpleString() == sql
    assert frame.schema["c"].dataType.simpleString() == sql
    assert frame.collect()[0]["c"] == expected


def test_time_zones_and_infinity(session: SparkSession) -> None:
    zoned = column_type(Node("string", logical="io.debezium.time.ZonedTimestamp"))
    texts = ["2024-01-01T00:00:00.123456Z", "infinity", "-infinity", "nonsense"]
    frame = session.createDataFrame([(text,) for text in texts], "c string").select(
        zoned.apply(sf.col("c")).cast("string").alias("c")
    )
    assert [row["c"] for row in frame.collect()] == [
        "2024-01-01 00:00:00.123456",
        "+294247-01-10 04:00:25.2",
        "-290308-12-21 19:59:27.6",
        None,
    ]


def test_null_stays_null(session: SparkSession) -> None:
    for name, node, *_ in CASES:
        type_ = column_type(node)
        raw = session.sql(f"select {CASES[[c[0] for c in CASES].index(name)][2]} as c").select(
            sf.when(sf.lit(False), sf.col("c")).alias("c")
        )
        assert raw.select(type_.apply(sf.col("c")).alias("c")).collect()[0]["c"] is None, name


@pytest.mark.parametrize(
    ("node", "literal"),
    [
        (Node("string"), f"'{PLACEHOLDER}'"),
        (Node("bytes"), f"cast('{PLACEHOLDER}' as binary)"),
        (Node("array", items=Node("string")), f"array('{PLACEHOLDER}')"),
        (Node("array", items=Node("int")), f"transform(split('{PLACEHOLDER}', ''), c -> ascii(c))"),
        (
            Node("array", items=Node("string", logical="io.debezium.data.Uuid")),
            "array('b68a35a7-17ad-35b3-af2a-ae46edb4545a')",
        ),
        (Node("map", items=Node("string")), f"map('{PLACEHOLDER}', '{PLACEHOLDER}')"),
    ],
)
def test_placeholders_are_recognised(session: SparkSession, node: Node, literal: str) -> None:
    test = is_placeholder(node, sf.col("c"))
    assert test is not None
    assert session.sql(f"select {literal} as c").select(test).collect()[0][0] is True
