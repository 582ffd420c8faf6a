"""Connect's schemas as types of staged Parquet and of DuckDB's columns, and how values become theirs. Pure.

What Parquet has no type for is staged as text, which DuckDB casts to the column's own type when it merges. DuckDB's infinite
dates and timestamps are the greatest number of their type, and its negative.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.times import iso_clock
from tidings_sinks.arrow_columns import time_of_day, type_of
from tidings_sinks.civil import DAY_US, days_of
from tidings_sinks.jdbc.database import Column
from tidings_sinks.jdbc.json_text import json_text
from tidings_sinks.jdbc.kinds import INFINITE_DAYS, INFINITE_MS, INFINITE_US, Base, Kind, kind_of

Convert = Callable[[Any], Any]
_MOST_DIGITS: Final = 38
_INFINITE_DAY: Final = 2**31 - 1
_INFINITE: Final = 2**63 - 1
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ISO: Final = re.compile(
    r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?"
)
_US: Final = pa.timestamp("us")
_ZONED: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Staged:
    """How the values of a field are staged, and which column they make."""

    arrow: pa.DataType
    column: str
    """DuckDB's type."""
    convert: Convert | None = None
    """From a value that is not null to one of `arrow`; None where it is the same."""


@dataclass(frozen=True, slots=True)
class StagedColumn(Column):
    """A column, and how the values for it are staged."""

    arrow: pa.DataType = field(default_factory=pa.string)


def staged(schema: ConnectSchema | None, kind: Kind | None) -> Staged:
    """Of a schema; of one that has none, of the kind that its value seems to be.

    Raises:
        RowError: no column can hold it.
    """
    if schema is None:
        return _GUESSED.get(kind.base, _TEXT) if kind is not None else _TEXT
    if schema.name in _SEMANTIC:
        return _SEMANTIC[schema.name]
    if schema.name == "io.debezium.data.Bits":
        return Staged(pa.string(), "BIT", kind_of(schema)[1])
    if _is_wide(schema):
        return Staged(pa.string(), "VARCHAR", lambda value: format(value, "f"))
    if schema.type is ConnectType.STRUCT and not schema.fields:
        return Staged(pa.string(), "JSON", json_text)
    arrow, convert = type_of(schema)
    if _holds_wide(arrow):
        return Staged(pa.string(), "JSON", json_text)
    return Staged(arrow, duck_type(arrow), convert)


def duck_type(arrow: pa.DataType) -> str:
    """The column that holds all values of a type."""
    plain = _COLUMNS.get(arrow)
    if plain is not None:
        return plain
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        fields = (f"{quoted(field.name)} {duck_type(field.type)}" for field in arrow)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_map(arrow):
        return f"MAP({duck_type(arrow.key_type)}, {duck_type(arrow.item_type)})"
    assert pa.types.is_list(arrow), arrow
    return f"{duck_type(arrow.value_type)}[]"


def quoted(name: str) -> str:
    """An identifier."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _digits(schema: ConnectSchema) -> tuple[int, int]:
    """Of a decimal that says how many it has; and its scale."""
    scale = int(schema.parameters.get("scale", "0"))
    return int(schema.parameters.get("connect.decimal.precision", "0")), scale


def _is_wide(schema: ConnectSchema) -> bool:
    """Whether a decimal has more digits than DuckDB's, or a scale that those have not."""
    if schema.name != "org.apache.kafka.connect.data.Decimal":
        return False
    digits, scale = _digits(schema)
    return digits > _MOST_DIGITS or not 0 <= scale <= (digits or _MOST_DIGITS)


def _holds_wide(arrow: pa.DataType) -> bool:
    if pa.types.is_decimal(arrow):
        return bool(arrow.precision > _MOST_DIGITS or arrow.scale < 0)
    if pa.types.is_map(arrow):
        return _holds_wide(arrow.key_type) or _holds_wide(arrow.item_type)
    return any(_holds_wide(arrow.field(place).type) for place in range(arrow.num_fields))


# Times


def _infinite(text: str, most: int) -> int:
    return most if text == "infinity" else -most


def _days(value: int) -> int:
    return _infinite(INFINITE_DAYS[value], _INFINITE_DAY) if value in INFINITE_DAYS else value


def _of_ms(value: int) -> int:
    return _infinite(INFINITE_MS[value], _INFINITE) if value in INFINITE_MS else value * 1000


def _of_us(value: int) -> int:
    return _infinite(INFINITE_US[value], _INFINITE) if value in INFINITE_US else value


def _moment(value: str) -> int:
    """Microseconds since the epoch of an ISO text with a zone; also beyond Python's years, and infinite."""
    try:
        read = datetime.fromisoformat(value) - _EPOCH
        return (read.days * 86_400 + read.seconds) * 1_000_000 + read.microseconds
    except (ValueError, TypeError):
        return _beyond(value)


def _beyond(value: str) -> int:
    if value in ("infinity", "-infinity"):
        return _INFINITE if value == "infinity" else -_INFINITE
    match = _ISO.fullmatch(value)
    if match is None:
        raise ValueError("no ISO 8601 text")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    return days_of(year, month, day) * DAY_US + clock - _zone_us(match[8] or "Z")


def _zone_us(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if text[0] == "-" else minutes) * 60_000_000


def _iso_day(value: str) -> int:
    return _beyond(value.removesuffix("Z")) // DAY_US


def _iso_local(value: str) -> int:
    return _moment(f"{value.removesuffix('Z')}Z")


def _zoned_time(value: str) -> str:
    """DuckDB knows no Z."""
    return f"{value[:-1]}+00" if value.endswith("Z") else value


_TEXT: Final = Staged(pa.string(), "VARCHAR")
_JSON: Final = Staged(pa.string(), "JSON")
_DATE: Final = Staged(pa.date32(), "DATE", _days)
_TIMESTAMP_MS: Final = Staged(_US, "TIMESTAMP", _of_ms)
_SEMANTIC: Final[Mapping[str | None, Staged]] = {
    "io.debezium.time.Date": _DATE,
    "org.apache.kafka.connect.data.Date": _DATE,
    "io.debezium.time.IsoDate": Staged(pa.date32(), "DATE", _iso_day),
    "io.debezium.time.Timestamp": _TIMESTAMP_MS,
    "org.apache.kafka.connect.data.Timestamp": Staged(_ZONED, "TIMESTAMP WITH TIME ZONE", _of_ms),
    "io.debezium.time.MicroTimestamp": Staged(_US, "TIMESTAMP", _of_us),
    "io.debezium.time.IsoTimestamp": Staged(_US, "TIMESTAMP", _iso_local),
    "io.debezium.time.ZonedTimestamp": Staged(_ZONED, "TIMESTAMP WITH TIME ZONE", _moment),
    "io.debezium.time.ZonedTime": Staged(pa.string(), "TIME WITH TIME ZONE", _zoned_time),
    "io.debezium.time.IsoTime": Staged(pa.string(), "TIME", lambda value: value.removesuffix("Z")),
    "io.debezium.time.NanoTime": Staged(pa.time64("us"), "TIME", time_of_day(DAY_US * 1000, divisor=1000)),
    "io.debezium.time.MicroDuration": Staged(pa.string(), "INTERVAL", iso_clock),
    "io.debezium.time.NanoDuration": Staged(pa.string(), "INTERVAL", lambda value: iso_clock(value // 1000)),
    "io.debezium.data.Json": _JSON,
    "io.debezium.data.Uuid": Staged(pa.string(), "UUID"),
}
_GUESSED: Final = {
    Base.BOOLEAN: Staged(pa.bool_(), "BOOLEAN"),
    Base.BIGINT: Staged(pa.int64(), "BIGINT"),
    Base.INTEGER: Staged(pa.int32(), "INTEGER"),
    Base.DOUBLE: Staged(pa.float64(), "DOUBLE"),
    Base.BYTES: Staged(pa.binary(), "BLOB"),
    Base.STRUCTURE: Staged(pa.string(), "JSON", json_text),
    Base.TEXT: _TEXT,
}
"""Of values without schemas, and of a record's place."""
_COLUMNS: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time32("ms"): "TIME",
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME",
    pa.timestamp("ms"): "TIMESTAMP",
    _US: "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.timestamp("ms", "UTC"): "TIMESTAMP WITH TIME ZONE",
    _ZONED: "TIMESTAMP WITH TIME ZONE",
}


def column_of(arrow: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Values as an array.

    Raises:
        ValueError: one of them does not fit; the words hold no value.
    """
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"a value does not fit {duck_type(arrow)} ({type(error).__name__})") from None
