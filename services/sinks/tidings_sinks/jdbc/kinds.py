"""What the values of a Connect schema are, whatever the database: a `Kind`, and a function that reads them.

Read values are Python's: int, float, bool, str, bytes and Decimal; dates and times are ISO 8601 text; an array is a list of
these; JSON is text; a struct or a map is a dict. Semantic types: ``io.debezium.time.*``, ``io.debezium.data.*`` and
``org.apache.kafka.connect.data.*``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from tidings_envelope.decimals import CONNECT_DECIMAL, VARIABLE_SCALE_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.times import iso_clock
from tidings_sinks.civil import iso_date, iso_timestamp, iso_timestamps, wall_clock

Read = Callable[[Any], Any]


class Base(StrEnum):
    """The kinds of columns."""

    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    REAL = "real"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMETZ = "timetz"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"
    JSON = "json"
    UUID = "uuid"
    XML = "xml"
    BITS = "bits"
    POINT = "point"
    TSVECTOR = "tsvector"
    ARRAY = "array"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a column that a field of a record needs."""

    base: Base
    length: int | None = None
    """Of BITS; the precision of DECIMAL, None where it is not bound."""
    scale: int | None = None
    """Of DECIMAL; None: each value has its own."""
    items: "Kind | None" = None
    """Of ARRAY."""


INFINITE_DAYS: Final = {2_146_033_979: "infinity", -2_147_472_691: "-infinity"}
INFINITE_MS: Final = {9_223_372_036_825_200_000: "infinity", -9_223_372_036_832_400_000: "-infinity"}
INFINITE_US: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}
"""How Debezium writes PostgreSQL's infinities."""


def _date(value: int) -> str:
    return INFINITE_DAYS.get(value) or iso_date(value)


class _Timestamps:
    """Reads timestamps.

    Args:
        factor: how many microseconds a unit has, or 1.
        divisor: how many units a microsecond has, or 1.
        infinite: what values stand for infinities.
    """

    def __init__(self, factor: int, divisor: int, infinite: Mapping[int, str]) -> None:
        self._factor, self._divisor, self._infinite = factor, divisor, infinite

    def __call__(self, value: int) -> str:
        return self._infinite.get(value) or iso_timestamp(value * self._factor // self._divisor)

    def many(self, values: Sequence[int]) -> list[str]:
        """The same of each."""
        if not self._infinite.keys().isdisjoint(values):
            return [self(value) for value in values]
        factor, divisor = self._factor, self._divisor
        if factor != 1 or divisor != 1:
            values = [value * factor // divisor for value in values]
        return iso_timestamps(values)


def read_many(read: Read, values: Sequence[Any]) -> list[Any]:
    """What a function makes of each value that is not null, and null of null; timestamps are read together."""
    if isinstance(read, _Timestamps) and None not in values:
        return read.many(values)
    return [None if value is None else read(value) for value in values]


def _clock_of(factor: int, divisor: int) -> Read:
    return lambda value: iso_clock(value * factor // divisor)


def _bits(value: bytes) -> str:
    """Debezium's Bits are little-endian bytes."""
    return f"{int.from_bytes(value, 'little'):b}"


def _variable_decimal(value: Mapping[str, Any]) -> Any:
    return decimal_from_bytes(value["value"], value["scale"])


def _point(value: Mapping[str, Any]) -> str:
    return f"({value['x']!r},{value['y']!r})"


def _duration(value: int) -> str:
    return iso_clock(value)


def _iso_text(value: str) -> str:
    """Java's years of more than four digits have a plus."""
    return value.removeprefix("+")


_CONNECT_TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
_NO: Final[Mapping[int, str]] = {}
_SEMANTIC: Final[Mapping[str, tuple[Kind, Read | None]]] = {
    "io.debezium.time.Date": (Kind(Base.DATE), _date),
    "org.apache.kafka.connect.data.Date": (Kind(Base.DATE), _date),
    "io.debezium.time.Time": (Kind(Base.TIME), _clock_of(1000, 1)),
    "org.apache.kafka.connect.data.Time": (Kind(Base.TIME), _clock_of(1000, 1)),
    "io.debezium.time.MicroTime": (Kind(Base.TIME), _clock_of(1, 1)),
    "io.debezium.time.NanoTime": (Kind(Base.TIME), _clock_of(1, 1000)),
    "io.debezium.time.Timestamp": (Kind(Base.TIMESTAMP), _Timestamps(1000, 1, INFINITE_MS)),
    _CONNECT_TIMESTAMP: (Kind(Base.TIMESTAMP), _Timestamps(1000, 1, INFINITE_MS)),
    "io.debezium.time.MicroTimestamp": (Kind(Base.TIMESTAMP), _Timestamps(1, 1, INFINITE_US)),
    "io.debezium.time.NanoTimestamp": (Kind(Base.TIMESTAMP), _Timestamps(1, 1000, _NO)),
    "io.debezium.time.IsoDate": (Kind(Base.DATE), lambda value: _iso_text(value).removesuffix("Z")),
    "io.debezium.time.IsoTime": (Kind(Base.TIME), lambda value: value.removesuffix("Z")),
    "io.debezium.time.IsoTimestamp": (Kind(Base.TIMESTAMP), lambda value: _iso_text(value).removesuffix("Z")),
    "io.debezium.time.ZonedTime": (Kind(Base.TIMETZ), None),
    "io.debezium.time.ZonedTimestamp": (Kind(Base.TIMESTAMPTZ), _iso_text),
    "io.debezium.time.MicroDuration": (Kind(Base.INTERVAL), _duration),
    "io.debezium.time.NanoDuration": (Kind(Base.INTERVAL), lambda value: iso_clock(value // 1000)),
    "io.debezium.time.Interval": (Kind(Base.INTERVAL), None),
    "io.debezium.data.Json": (Kind(Base.JSON), None),
    "io.debezium.data.Uuid": (Kind(Base.UUID), None),
    "io.debezium.data.Xml": (Kind(Base.XML), None),
    "io.debezium.data.Tsvector": (Kind(Base.TSVECTOR), None),
    VARIABLE_SCALE_DECIMAL: (Kind(Base.DECIMAL), _variable_decimal),
    "io.debezium.data.geometry.Point": (Kind(Base.POINT), _point),
}
_PLAIN: Final = {
    ConnectType.INT8: Kind(Base.SMALLINT),
    ConnectType.INT16: Kind(Base.SMALLINT),
    ConnectType.INT32: Kind(Base.INTEGER),
    ConnectType.INT64: Kind(Base.BIGINT),
    ConnectType.FLOAT32: Kind(Base.REAL),
    ConnectType.FLOAT64: Kind(Base.DOUBLE),
    ConnectType.BOOLEAN: Kind(Base.BOOLEAN),
    ConnectType.STRING: Kind(Base.TEXT),
    ConnectType.BYTES: Kind(Base.BYTES),
    ConnectType.MAP: Kind(Base.STRUCTURE),
    ConnectType.STRUCT: Kind(Base.STRUCTURE),
}
_UNBOUND: Final = 2**31 - 1
_MOST_PRECISION: Final = 1000


def kind_of(schema: ConnectSchema) -> tuple[Kind, Read | None]:
    """The kind of a schema's values, and what reads one that is not null; None where it is as it is read."""
    if schema.name is not None and schema.name in _SEMANTIC:
        return _SEMANTIC[schema.name]
    if schema.name == CONNECT_DECIMAL:
        precision = schema.parameters.get("connect.decimal.precision")
        length = int(precision) if precision is not None and int(precision) <= _MOST_PRECISION else None
        return Kind(Base.DECIMAL, length, int(schema.parameters.get("scale", "0"))), None
    if schema.name == "io.debezium.data.Bits":
        length = int(schema.parameters.get("length", _UNBOUND))
        width = None if length == _UNBOUND else length
        return Kind(Base.BITS, width), lambda value: _bits(value).zfill(width or 0)
    if schema.type is ConnectType.ARRAY:
        assert schema.items is not None
        kind, read = kind_of(schema.items)
        return Kind(Base.ARRAY, items=kind), None if read is None else _each(read)
    return _PLAIN[schema.type], None


def is_moment(schema: ConnectSchema | None) -> bool:
    """Whether values are Connect's Timestamp, which to Kafka Connect is a moment."""
    return schema is not None and schema.name == _CONNECT_TIMESTAMP


def moment_in(zone: ZoneInfo) -> Read:
    """What reads one as the clock of a zone shows it."""
    return lambda value: wall_clock(f"{iso_timestamp(value * 1000)}+00:00", zone)


def _each(read: Read) -> Read:
    return lambda values: [None if value is None else read(value) for value in values]


_GUESSES: Final = {
    bool: Kind(Base.BOOLEAN),
    int: Kind(Base.BIGINT),
    float: Kind(Base.DOUBLE),
    bytes: Kind(Base.BYTES),
}


def kind_of_value(value: Any) -> Kind | None:
    """The kind of a value that has no schema (JSON); None of null, which may become anything."""
    if value is None:
        return None
    if isinstance(value, dict | list):
        return Kind(Base.STRUCTURE)
    return _GUESSES.get(type(value), Kind(Base.TEXT))
