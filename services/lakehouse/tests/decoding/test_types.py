"""The tables of types in the documentation, each row by a value of each type, and infinities by both ways of keeping them."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as values
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.choices import Choices, TopicChoices, TypeChoices, infinite_rules
from tidings_lakehouse.decoding.change_decoder import log_schema
from tidings_lakehouse.decoding.columns import column_type, shaped_row
from tidings_lakehouse.decoding.infinite import LEAST, MOST, infinity_of
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.errors import TableConflictError
from tidings_lakehouse.formats.avro_nodes import Node, parse_schema
from tidings_lakehouse.formats.connect_schemas import avro_of
from tidings_lakehouse.formats.records import ReaderGroup
from tidings_lakehouse.history.history import plain
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.naming import Naming, Rename

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[4] / "docs/lakehouse.md"
HEADS = ("| PostgreSQL | On the topic", "| MariaDB, MySQL | On the topic")
Case = tuple[dict[str, Any], str, Any]
"""A schema of Connect's, a value as SQL has it when it comes from the topic, and the value in the lake."""


def named(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "name": name}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    digits = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {**named("bytes", "org.apache.kafka.connect.data.Decimal"), "parameters": digits}


def text(name: str = "") -> Case:
    return (named("string", name) if name else {"type": "string"}), "'ä'", "ä"


def local(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - as timestamp_ntz is given


VARIABLE = {
    **named("struct", "io.debezium.data.VariableScaleDecimal"),
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}
POINT = {
    **named("struct", "io.debezium.data.geometry.Point"),
    "fields": [{"type": "double", "field": "x"}, {"type": "bytes", "field": "wkb", "optional": True}],
}
STRINGS = {
    "type": "map",
    "keys": {"type": "string"},
    "values": {"type": "string", "optional": True},
}
MICROS = [
    (named("int64", "io.debezium.time.Timestamp"), "-1L", local(1969, 12, 31, 23, 59, 59, 999000)),
    (named("int64", "io.debezium.time.MicroTimestamp"), "-1L", local(1969, 12, 31, 23, 59, 59, 999999)),
]
ZONED = (
    named("string", "io.debezium.time.ZonedTimestamp"),
    "'2024-02-29T12:00:00.5Z'",
    dt.datetime(2024, 2, 29, 12, 0, 0, 500000),  # noqa: DTZ001 - as Spark gives it, in UTC
)
CASES: dict[str, list[Case]] = {
    "`boolean`, `smallint`, `integer`, `bigint`": [
        ({"type": "boolean"}, "true", True),
        ({"type": "int16"}, "-3", -3),
        ({"type": "int32"}, "7", 7),
        ({"type": "int64"}, "9223372036854775807L", 2**63 - 1),
    ],
    "`real`, `double precision`": [
        ({"type": "float"}, "0.5f", 0.5),
        ({"type": "double"}, "0.1d", 0.1),
    ],
    "`numeric(p,s)` up to 38 digits": [(decimal(10, 2), "X'04D2'", Decimal("12.34"))],
    "`numeric` without a scale, or with more digits": [
        (VARIABLE, "struct(3 as scale, X'0102' as value)", "0.258"),
        (decimal(60, 2), "X'FF'", "-0.01"),
    ],
    "`date`": [(named("int32", "io.debezium.time.Date"), "-1", dt.date(1969, 12, 31))],
    "`timestamp`": [
        *MICROS,
        (named("int64", "io.debezium.time.NanoTimestamp"), "1500L", local(1970, 1, 1, 0, 0, 0, 1)),
    ],
    "`timestamptz`": [ZONED],
    "`time`": [
        (named("int32", "io.debezium.time.Time"), "1001", "00:00:01.001000"),
        (named("int64", "io.debezium.time.MicroTime"), "86400000000L", "24:00:00.000000"),
        (named("int64", "io.debezium.time.NanoTime"), "1001000L", "00:00:00.001001"),
    ],
    "`uuid`, `json`, `jsonb`, `xml`, enums, `text`, `varchar`": [
        text(f"io.debezium.data.{name}") for name in ("Uuid", "Json", "Json", "Xml", "Enum")
    ]
    + [text()],
    "`bytea`": [({"type": "bytes"}, "X'00FF'", bytearray(b"\0\xff"))],
    "arrays": [
        (
            {"type": "array", "items": {**named("int32", "io.debezium.time.Date"), "optional": True}},
            "array(0, null)",
            [dt.date(1970, 1, 1), None],
        )
    ],
    "`hstore`": [
        (STRINGS, "map('a', '1', 'b', null)", {"a": "1", "b": None}),
        (named("string", "io.debezium.data.Json"), '\'{"a":"1"}\'', '{"a":"1"}'),
    ],
    "points, geometries and other structs": [
        (POINT, "named_struct('x', 1.5d, 'wkb', X'01')", {"x": 1.5, "wkb": bytearray(b"\x01")})
    ],
    "`boolean`, `tinyint`, `smallint`, `mediumint`, `int`, `year`": [
        ({"type": "int16"}, "1", 1),
        ({"type": "int32"}, "-7", -7),
        (named("int32", "io.debezium.time.Year"), "2024", 2024),
    ],
    "`int unsigned`, `bigint`, `bigint unsigned`": [({"type": "int64"}, "-1L", -1)],
    "`float`, `double`": [({"type": "float"}, "0.5f", 0.5), ({"type": "double"}, "0.1d", 0.1)],
    "`decimal(p,s)` up to 38 digits": [(decimal(38, 0), "X'FF'", Decimal(-1))],
    "`decimal(p,s)` with more digits": [(decimal(65, 30), "X'FF'", f"-0.{'1':0>30}")],
    "`date`, in MariaDB": [(named("int32", "io.debezium.time.Date"), "0", dt.date(1970, 1, 1))],
    "`datetime`": MICROS,
    "`timestamp`, in MariaDB": [ZONED],
    "`time`, from -838 to 838 hours": [
        (named("int64", "io.debezium.time.MicroTime"), "-3020399000000L", "-838:59:59.000000"),
        (named("int64", "io.debezium.time.MicroTime"), "1L", "00:00:00.000001"),
    ],
    "`char`, `varchar`, `text`, `enum`, `set`, `json`": [
        text(),
        *[text(f"io.debezium.data.{name}") for name in ("Enum", "EnumSet", "Json")],
    ],
    "`bit(1)`": [({"type": "boolean"}, "false", False)],
    "`bit(n)`, `binary`, `varbinary`, `blob`": [
        (named("bytes", "io.debezium.data.Bits"), "X'05'", bytearray(b"\x05")),
        ({"type": "bytes"}, "X''", bytearray()),
    ],
    "geometries": [(POINT, "named_struct('x', 1.5d, 'wkb', X'01')", {"x": 1.5, "wkb": bytearray(b"\x01")})],
}
"""By the first cell of the documentation's row."""


def documented() -> Iterator[tuple[str, str]]:
    """First and last cell of each row of the tables of types."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(HEADS):
            for row in itertools.takewhile(lambda one: one.startswith("|"), lines):
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                if not cells[0].startswith("---"):
                    yield cells[0], cells[2]


def iceberg_type(session: SparkSession, data_type: st.DataType) -> str:
    jvm: Any = session.sparkContext._jvm
    schema = st.StructType([st.StructField("c", data_type)])
    made = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    name = str(jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(made).findType("c"))
    return re.sub(r"decimal\(\d+, \d+\)", "decimal(p,s)", name).partition("<")[0]


def test_every_row_of_the_tables_of_types(session: SparkSession) -> None:
    rows = list(documented())
    assert [first for first, _ in rows] == list(CASES)
    given_values, told = [], []
    expected: list[Any] = []
    for first, last in rows:
        types = []
        for schema, literal, value in CASES[first]:
            node = parse_schema(avro_of({**schema, "optional": True}))
            type_ = column_type(node)
            given_values.append(type_.apply(sf.expr(literal)).alias(f"c{len(expected)}"))
            expected.append(value)
            types.append(iceberg_type(session, type_.sql))
        told.append(
            (
                first,
                list(dict.fromkeys(re.findall(r"`([a-z(,]+\)?)`", last.partition(":")[0]))),
                list(dict.fromkeys(types)),
            )
        )
    assert [(first, types) for first, _, types in told] == [(first, words) for first, words, _ in told]
    found = session.range(1, numPartitions=1).select(*given_values).collect()[0]
    assert [one.asDict() if isinstance(one, st.Row) else one for one in found] == expected


TIMES = {
    "day": ("int", "io.debezium.time.Date", 2_146_033_979, -2_147_472_691),
    "milli": ("long", "io.debezium.time.Timestamp", 9_223_372_036_825_200_000, -9_223_372_036_832_400_000),
    "micro": ("long", "io.debezium.time.MicroTimestamp", MOST, LEAST),
    "nano": ("long", "io.debezium.time.NanoTimestamp", MOST, LEAST),
    "zoned": ("string", "io.debezium.time.ZonedTimestamp", "infinity", "-infinity"),
}
"""Kind, name, and what Debezium has for the infinities."""
ROW = Node(
    "record",
    name="Row",
    fields=tuple((name, Node(kind, logical=logical)) for name, (kind, logical, *_) in TIMES.items()),
)
TEXT_OF = {"most": "infinity", "least": "-infinity", "one": None}


def shape_of(choices: TopicChoices, naming: Naming | None = None) -> st.StructType:
    envelope = Node("record", name="Envelope", fields=(("before", ROW), ("after", ROW)))
    plan = DecodingPlan((ReaderGroup(envelope, {}),))
    log = log_schema(plan, DecodingPlan(), naming or Naming(), choices)
    found = log["after"].dataType
    assert isinstance(found, st.StructType)
    return found


@pytest.mark.parametrize("is_null", [False, True], ids=["year", "null"])
def test_infinities(session: SparkSession, *, is_null: bool) -> None:
    """Of every unit, by both engines; milliseconds of an infinity fit no microseconds."""
    choices = TopicChoices(types=TypeChoices(infinite_is_null=is_null))
    target = shape_of(choices)
    raw = {
        which: {
            name: most
            if which == "most"
            else least
            if which == "least"
            else "2024-01-01T00:00:00Z"
            if name == "zoned"
            else 1
            for name, (_, _, most, least) in TIMES.items()
        }
        for which in TEXT_OF
    }
    kinds = ", ".join(f"{name} {kind.replace('long', 'bigint')}" for name, (kind, *_) in TIMES.items())
    frame = session.createDataFrame(
        list(raw.items()),
        f"which string, r struct<{kinds.replace(' ', ':').replace(',:', ',')}>",
    )

    def told(records: Any) -> Any:
        row = shaped_row(sf.col("r"), ROW, target, choices=choices)
        rows = records.select("which", row.alias("row"))
        nulls = [sf.col("row")[name].isNull().alias(f"{name}_is_null") for name in TIMES]
        marks = [sf.col("row")[f"{name}__infinite"].alias(f"{name}_mark") for name in TIMES if is_null]
        return rows.select("which", *nulls, *marks, sf.to_json(plain(sf.col("row"), target)).alias("plain"))

    local = LocalRows(session, 100)
    here = local.collected(frame.coalesce(1))
    kept = local.plan(here, told).of(here)
    assert kept is not None
    for found in (told(frame).collect(), kept.collect()):
        assert len(found) == 3
        for row in found:
            mark = TEXT_OF[row["which"]]
            for name in TIMES:
                assert row[f"{name}_is_null"] == (is_null and mark is not None), (row["which"], name)
                if is_null:
                    assert row[f"{name}_mark"] == mark
        written = {row["which"]: row["plain"] for row in found}
        # As the logs are written for a new generation: every timestamp without a zone in microseconds.
        assert (
            written["most"]
            == f'{{"day":2146033979,"milli":{MOST},"micro":{MOST},"nano":{MOST},"zoned":"infinity"}}'
        )
        assert (
            written["least"]
            == f'{{"day":-2147472691,"milli":{LEAST},"micro":{LEAST},"nano":{LEAST},"zoned":"-infinity"}}'
        )
        assert written["one"] == '{"day":1,"milli":1000,"micro":1,"nano":0,"zoned":"2024-01-01T00:00:00Z"}'


LAST_MILLIS = (2**63 - 1) // 1000
"""Before those that are no microseconds of 64 bits."""


@settings(max_examples=8, deadline=None)
@given(values.lists(values.integers(-LAST_MILLIS, LAST_MILLIS), min_size=60, max_size=60))
def test_milliseconds_are_exact_and_the_infinite_ones_are_the_last(
    session: SparkSession, numbers: list[int]
) -> None:
    """Others that are no microseconds of 64 bits end the decoder, so that their record is put aside (`test_poison`)."""
    infinite = {9_223_372_036_825_200_000: MOST, -9_223_372_036_832_400_000: LEAST}
    edges = [0, LAST_MILLIS, -LAST_MILLIS, *infinite]
    frame = session.createDataFrame([(one,) for one in [*numbers, *edges]], "c bigint").coalesce(1)
    type_ = column_type(Node("long", logical="io.debezium.time.Timestamp"))
    found = frame.select("c", sf.unix_micros(type_.apply(sf.col("c")).cast("timestamp")).alias("m")).collect()
    assert [row["m"] for row in found] == [infinite.get(row["c"], row["c"] * 1000) for row in found]


def test_a_mark_follows_its_column(session: SparkSession) -> None:
    choices = TopicChoices(types=TypeChoices(infinite_is_null=True), keys=frozenset({"micro"}))
    naming = Naming((Rename(50, "day", "until"),), frozenset({"until"}))
    target = shape_of(choices, naming)
    assert [name for name in target.names if "infinite" in name] == [
        f"{name}__infinite" for name in ("until", "milli", "nano", "zoned")
    ]
    frame = session.sql(
        "select named_struct('day', 2146033979, 'milli', 0L, 'micro', 0L, 'nano', 0L, 'zoned', '') as r, 10L as lsn"
    )
    row = frame.select(shaped_row(sf.col("r"), ROW, target, naming, sf.col("lsn"), choices).alias("row"))
    assert row.select("row.until", "row.until__infinite").collect()[0][:] == (None, "infinity")


def test_a_column_that_is_called_as_a_mark_is_refused() -> None:
    fields = (*ROW.fields, ("day__infinite", Node("string")))
    envelope = Node("record", name="E", fields=(("after", Node("record", name="R", fields=fields)),))
    plan = DecodingPlan((ReaderGroup(envelope, {}),))
    choices = TopicChoices(types=TypeChoices(infinite_is_null=True))
    with pytest.raises(TableConflictError, match="TIDINGS_LAKEHOUSE_INFINITE: the mark of the column day"):
        log_schema(plan, DecodingPlan(), Naming(), choices)


def test_the_first_rule_that_names_a_table_says_how_infinities_are_kept() -> None:
    choices = Choices(infinite=infinite_rules(r"technical\.a=year; technical\..*=null"))
    kept = [choices.of("t", f"technical.{name}").types.infinite_is_null for name in ("a", "b")]
    assert kept == [False, True]
    for wrong in ("a", "a=", "a=never", "(=null"):
        with pytest.raises(ValueError, match="is not"):
            infinite_rules(wrong)


def test_only_times_are_infinite() -> None:
    assert infinity_of(Node("string"), sf.lit("infinity")) is None
