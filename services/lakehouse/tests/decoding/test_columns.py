"""Debezium's representations become SQL's types, exactly."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from tidings_envelope.decimals import decimal_to_bytes
from tidings_lakehouse.choices import TypeChoices
from tidings_lakehouse.decoding.columns import (
    PLACEHOLDER,
    chosen_type,
    column_type,
    is_placeholder,
    misfit,
)
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.spark.small import LocalRows, is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def test_numbers_become_decimals_exactly_or_not_at_all(session: SparkSession) -> None:
    """Of every length, sign and scale, by both engines: Spark's tasks, and the driver for rows that are in memory."""
    chance = random.Random(5)
    edges = [10**38 - 1, 10**38, 2**127 - 1, 2**119, 10**45, 1, 0, 10**37]
    numbers = [sign * one for one in edges for sign in (1, -1)]
    numbers += [
        chance.choice([1, -1]) * chance.randrange(10 ** chance.randrange(1, 42)) * 10 ** chance.randrange(5)
        for _ in range(300)
    ]
    given = [(number, chance.choice([0, 1, 2, 9, 10, 11, 12, 20, 38, 45])) for number in numbers]
    fits = []
    with localcontext(Context(prec=120)):
        for number, scale in given:
            value = Decimal(number).scaleb(-scale)
            digits = value.scaleb(10)
            is_exact = digits == digits.to_integral_value() and abs(digits) < 10**38
            fits.append(value if is_exact and abs(number) < 10**38 else None)
        of_scale_12 = [Decimal(number).scaleb(-12) for number, _ in given]
    rows = [(n, decimal_to_bytes(Decimal(number), 0), scale) for n, (number, scale) in enumerate(given)]
    frame = session.createDataFrame(rows, "n int, value binary, scale int").coalesce(1)
    wide = Node("bytes", logical="decimal", precision=64, scale=12)
    variable = next(node for name, node, *_ in CASES if name == "variable")
    types = TypeChoices(numeric_scale=10)

    def told(records: DataFrame) -> DataFrame:
        number = sf.struct("scale", "value")
        tests = [misfit(variable, types, number), misfit(wide, types, sf.col("value"))]
        return records.select(
            chosen_type(variable, types).apply(number).alias("v"),
            chosen_type(wide, types).apply(sf.col("value")).alias("w"),
            *[test.alias(f"t{n}") for n, test in enumerate(tests) if test is not None],
        )

    assert chosen_type(variable, types).sql.simpleString() == "decimal(38,10)"
    local = LocalRows(session, 1000)
    here = local.collected(frame)
    kept = local.plan(here, told).of(here)
    assert kept is not None
    assert is_local(kept)
    for found in (told(frame).collect(), kept.collect()):
        assert [row["v"] for row in found] == fits
        assert [row["t0"] for row in found] == [one is None for one in fits]
        of_wide = [None if row["t1"] else row["w"] for row in found]
        assert sum(one is not None for one in of_wide) > 20
        assert all(one is None or one == value for one, value in zip(of_wide, of_scale_12, strict=True))
