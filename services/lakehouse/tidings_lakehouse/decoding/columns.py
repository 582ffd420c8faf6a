"""From Avro's and Debezium's types to columns of a table.

Debezium represents what SQL has types for by numbers and strings with a name (documentation, PostgreSQL connector,
"Data type mappings"); tables get the SQL type back:

    Date -> date, Timestamp/MicroTimestamp/NanoTimestamp -> timestamp_ntz, ZonedTimestamp -> timestamp,
    Time/MicroTime/NanoTime -> string [-]hh:mm:ss.ffffff (Spark has no such column type that Iceberg can store),
    Decimal -> decimal(p,s), VariableScaleDecimal and more than 38 digits -> string (exact), or by choice decimal(38, s),
    Json/Uuid/Enum -> string

Infinity becomes the year 294247 (and -290308) in both timestamp types, which sorts as it should, or null by choice (`infinite`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_envelope.decimals import EXACT, decimal_from_int
from tidings_envelope.toast import UNAVAILABLE, UNAVAILABLE_UUID
from tidings_lakehouse.choices import TopicChoices, TypeChoices
from tidings_lakehouse.decoding.infinite import (
    LEAST,
    LEAST_MILLIS,
    MOST,
    MOST_MILLIS,
    infinity_of,
    mark_of,
    marks,
)
from tidings_lakehouse.formats.avro_nodes import MAX_DECIMAL_PRECISION, Node, UnsupportedSchemaError
from tidings_lakehouse.formats.json_records import fitted, unscaled_decimal
from tidings_lakehouse.tables.naming import Interval, Naming
from tidings_lakehouse.tables.tables import target_name

Convert = Callable[[Column], Column]

PLACEHOLDER = UNAVAILABLE
"""Stands for an unchanged value that PostgreSQL keeps out of line (TOAST) and does not log."""
INFINITY_MICROSECONDS = 9223372036825200000
MINUS_INFINITY_MICROSECONDS = -9223372036832400000
_PLACEHOLDER_BYTES = PLACEHOLDER.encode()


@dataclass(frozen=True)
class ColumnType:
    """How a field is stored: its type in the table, and how to get there (None: as it is)."""

    sql: st.DataType
    convert: Convert | None = None

    def apply(self, column: Column) -> Column:
        """The column in its table's type."""
        return column if self.convert is None else self.convert(column)


_PRIMITIVES: dict[str, st.DataType] = {
    "boolean": st.BooleanType(),
    "int": st.IntegerType(),
    "long": st.LongType(),
    "float": st.FloatType(),
    "double": st.DoubleType(),
    "bytes": st.BinaryType(),
    "string": st.StringType(),
    "enum": st.StringType(),
    "fixed": st.BinaryType(),
}


def _micros(column: Column) -> Column:
    return sf.timestamp_micros(column).cast("timestamp_ntz")


def _millis(column: Column) -> Column:
    """An infinity's milliseconds fit no microseconds: they are the last moment there is, or the first. Others that do not fit, fail."""
    infinite = sf.when(column == MOST_MILLIS, sf.lit(MOST)).when(column == LEAST_MILLIS, sf.lit(LEAST))
    finite = sf.timestamp_millis(sf.when(infinite.isNull(), column)).cast("timestamp_ntz")
    return sf.coalesce(_micros(infinite), finite)


def _nanos(column: Column) -> Column:
    is_infinite = column.isin(MOST, LEAST)
    return _micros(sf.when(is_infinite, column).otherwise(_div(column, 1000)))


def _zoned(column: Column) -> Column:
    return (
        sf.when(column == "infinity", sf.timestamp_micros(sf.lit(INFINITY_MICROSECONDS)))
        .when(column == "-infinity", sf.timestamp_micros(sf.lit(MINUS_INFINITY_MICROSECONDS)))
        .otherwise(column.try_cast("timestamp"))
    )


def _time_of_day(column: Column, per_second: int) -> Column:
    value = column.cast("long")
    micros = (
        _div(value, per_second // 1_000_000) if per_second > 1_000_000 else value * (1_000_000 // per_second)
    )
    # MariaDB's TIME is an interval: up to 838 hours, and negative.
    size = sf.abs(micros)
    seconds = _div(size, 1_000_000)
    return sf.when(
        column.isNotNull(),
        sf.format_string(
            "%s%02d:%02d:%02d.%06d",
            sf.when(micros < 0, "-").otherwise(""),
            _div(seconds, 3600),
            _div(seconds, 60) % 60,
            seconds % 60,
            size % 1_000_000,
        ),
    )


def _div(column: Column, by: int) -> Column:
    return sf.call_function("div", column, sf.lit(by))


_LOGICAL: dict[str, tuple[st.DataType, Convert | None]] = {
    "io.debezium.time.Date": (st.DateType(), sf.date_from_unix_date),
    "io.debezium.time.Timestamp": (st.TimestampNTZType(), _millis),
    "io.debezium.time.MicroTimestamp": (st.TimestampNTZType(), _micros),
    "io.debezium.time.NanoTimestamp": (st.TimestampNTZType(), _nanos),
    "io.debezium.time.ZonedTimestamp": (st.TimestampType(), _zoned),
    "io.debezium.time.Time": (st.StringType(), lambda c: _time_of_day(c, 1000)),
    "io.debezium.time.MicroTime": (st.StringType(), lambda c: _time_of_day(c, 1_000_000)),
    "io.debezium.time.NanoTime": (st.StringType(), lambda c: _time_of_day(c, 1_000_000_000)),
    "org.apache.kafka.connect.data.Date": (st.DateType(), sf.date_from_unix_date),
    "org.apache.kafka.connect.data.Timestamp": (st.TimestampNTZType(), _millis),
    "org.apache.kafka.connect.data.Time": (st.StringType(), lambda c: _time_of_day(c, 1000)),
    # Avro's own
    "date": (st.DateType(), None),
    "timestamp-millis": (st.TimestampType(), None),
    "timestamp-micros": (st.TimestampType(), None),
    "local-timestamp-millis": (st.TimestampNTZType(), None),
    "local-timestamp-micros": (st.TimestampNTZType(), None),
    "time-millis": (st.StringType(), lambda c: _time_of_day(c, 1000)),
    "time-micros": (st.StringType(), lambda c: _time_of_day(c, 1_000_000)),
}


def chosen_type(node: Node, types: TypeChoices) -> ColumnType:
    """How a column of that type is stored, as somebody has chosen; see `column_type`."""
    number = _number(node)
    if types.infinite_is_null and infinity_of(node, sf.lit(None)) is not None:
        return _finite(node)
    if types.numeric_scale is None or number is None:
        return column_type(node)
    scale = types.numeric_scale
    return ColumnType(st.DecimalType(MAX_DECIMAL_PRECISION, scale), lambda c: fitted(*number(c), scale))


def _finite(node: Node) -> ColumnType:
    type_ = column_type(node)
    return ColumnType(
        type_.sql, lambda c: sf.when(cast(Column, infinity_of(node, c)).isNull(), type_.apply(c))
    )


def misfit(node: Node, types: TypeChoices, column: Column) -> Column | None:
    """Whether a value, still as Avro has it, does not fit the type that somebody has chosen; None: every value does."""
    number = _number(node)
    if types.numeric_scale is None or number is None:
        return None
    return column.isNotNull() & fitted(*number(column), types.numeric_scale).isNull()


def _number(node: Node) -> Callable[[Column], tuple[Column, Column]] | None:
    """The unscaled number and the scale of a value of a type that no decimal holds for sure; None: it is none of these."""
    if node.logical == "io.debezium.data.VariableScaleDecimal":
        return lambda c: (c["value"], c["scale"])
    if node.logical == "decimal" and not node.is_native_decimal:
        return lambda c: (c, sf.lit(node.scale))
    return None


def column_type(node: Node) -> ColumnType:
    """How a value of that type is stored.

    Raises:
        UnsupportedSchemaError: a type no column can hold.
    """
    if node.logical == "io.debezium.data.VariableScaleDecimal":
        return ColumnType(st.StringType(), lambda c: decimal_text(c["value"], c["scale"]))
    if node.logical == "decimal":
        return _decimal(node)
    if node.logical in _LOGICAL:
        return ColumnType(*_LOGICAL[node.logical])
    if node.kind == "record":
        return _record(node)
    if node.items is not None:
        return _collection(node, node.items)
    if node.kind not in _PRIMITIVES:
        raise UnsupportedSchemaError(f"the type {node.kind}")
    return ColumnType(_PRIMITIVES[node.kind])


def _decimal(node: Node) -> ColumnType:
    if node.is_native_decimal:
        precision, scale = node.precision, node.scale
        return ColumnType(
            st.DecimalType(precision, scale),
            (lambda c: unscaled_decimal(c, precision, scale)) if node.is_unscaled else None,
        )
    scale = node.scale
    return ColumnType(st.StringType(), lambda c: decimal_text(c, sf.lit(scale)))


def _record(node: Node) -> ColumnType:
    inner = [(name, column_type(field)) for name, field in node.fields]
    if not inner:
        raise UnsupportedSchemaError(f"the record {node.name} without fields")
    sql = st.StructType([st.StructField(name, type_.sql) for name, type_ in inner])
    if all(type_.convert is None for _, type_ in inner):
        return ColumnType(sql)

    def convert(column: Column) -> Column:
        return sf.when(
            column.isNotNull(), sf.struct(*[type_.apply(column[name]).alias(name) for name, type_ in inner])
        )

    return ColumnType(sql, convert)


def _collection(node: Node, items: Node) -> ColumnType:
    inner = column_type(items)
    if node.kind == "array":
        return ColumnType(
            st.ArrayType(inner.sql),
            None if inner.convert is None else lambda c: sf.transform(c, inner.apply),
        )
    return ColumnType(
        st.MapType(st.StringType(), inner.sql),
        None if inner.convert is None else lambda c: sf.transform_values(c, lambda _, v: inner.apply(v)),
    )


def is_placeholder(node: Node, column: Column) -> Column | None:
    """Whether an unconverted value stands for one that was not logged; None for types that are never out of line."""
    if node.kind == "string":
        return column == PLACEHOLDER
    if node.kind == "bytes" and node.logical is None:
        return column == sf.lit(_PLACEHOLDER_BYTES)
    if node.kind == "map":
        return column[PLACEHOLDER] == PLACEHOLDER
    if node.kind != "array" or node.items is None:
        return None
    if node.items.kind == "string":
        placeholder = UNAVAILABLE_UUID if node.items.logical == "io.debezium.data.Uuid" else PLACEHOLDER
        return column == sf.array(sf.lit(placeholder))
    if node.items.kind == "bytes" and not node.items.is_native_decimal:
        return column == sf.array(sf.lit(_PLACEHOLDER_BYTES))
    if node.items.kind in {"int", "long"}:
        return column == sf.array(*[sf.lit(byte).cast(node.items.kind) for byte in _PLACEHOLDER_BYTES])
    return None


def _decimal_text(value: bytes | None, scale: int | None) -> str | None:
    if value is None or scale is None:
        return None
    return format(decimal_from_int(int.from_bytes(value, "big", signed=True)).scaleb(-scale, EXACT), "f")


def decimal_text(value: Column, scale: Column) -> Column:
    """An unscaled big-endian two's complement number of any length as exact text; the only conversion in Python."""
    # Without annotations, which pyspark would import pandas to look at.
    return sf.udf(lambda *arguments: _decimal_text(*arguments), st.StringType())(value, scale)  # noqa: PLW0108


def shaped_row(
    column: Column,
    node: Node,
    target: st.StructType,
    naming: Naming | None = None,
    lsn: Column | None = None,
    choices: TopicChoices | None = None,
) -> Column:
    """A record, still as Avro has it, in the shape of a table's struct: converted, by name, cast where wider.

    One expression per field: converting the whole record first and taking it apart again would make the plan grow
    with the square of the number of fields.

    Args:
        naming: what the record's fields are called now; by the row's `lsn`.
        choices: the fields' types.
    """
    wanted = {field.name: field.dataType for field in target.fields}
    given: dict[str, list[tuple[Column, st.DataType]]] = {}
    marked = [] if choices is None else marks(node, choices.with_marks(name for name, _ in node.fields))
    for name, field in node.fields:
        type_ = column_type(field) if choices is None else chosen_type(field, choices.of(name))
        value = type_.apply(column[name])
        for called in [Interval(name)] if naming is None else naming.of(name):
            holds = None if lsn is None else called.holds(lsn)
            part = value if holds is None else sf.when(holds, value)
            given.setdefault(target_name(wanted, called.name, type_.sql), []).append((part, type_.sql))
            if name in marked:
                mark = cast(Column, infinity_of(field, column[name]))
                mark = mark if holds is None else sf.when(holds, mark)
                given.setdefault(mark_of(called.name), []).append((mark, st.StringType()))
    parts = []
    for name, data_type in wanted.items():
        found = [shaped_value(part, sql, data_type) for part, sql in given.get(name, ())]
        if not found:
            found = [sf.lit(None).cast(data_type)]
        parts.append((found[0] if len(found) == 1 else sf.coalesce(*found)).alias(name))
    return sf.when(column.isNotNull(), sf.struct(*parts))


def shaped_value(column: Column, source: st.DataType, target: st.DataType) -> Column:
    """A converted value in a table's type."""
    if source == target:
        return column
    if isinstance(source, st.StructType) and isinstance(target, st.StructType):
        have = {field.name: field.dataType for field in source.fields}
        parts = [
            (
                shaped_value(column[f.name], have[f.name], f.dataType)
                if f.name in have
                else sf.lit(None).cast(f.dataType)
            ).alias(f.name)
            for f in target.fields
        ]
        return sf.when(column.isNotNull(), sf.struct(*parts))
    return column.cast(target)
