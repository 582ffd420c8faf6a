"""What a column's values become: Connect's types, as the well-known JDBC source connectors have them, and exactly. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from tidings_capture.query.config import QueryConfig
from tidings_capture.query.options import LOGICAL
from tidings_connect.errors import RecordError
from tidings_envelope.decimals import decimal_to_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.semantic import (
    CONNECT_DATE,
    CONNECT_TIME,
    CONNECT_TIMESTAMP,
    VARIABLE_SCALE_DECIMAL,
    decimal,
)

Convert = Callable[[Any], Any]
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MOST_LONG: Final = (1 << 63) - 1
_BEST_DIGITS: Final = 18
"""With more a number fits no INT64."""
_WHOLE: Final[tuple[tuple[int, ConnectType], ...]] = (
    (2, ConnectType.INT8),
    (4, ConnectType.INT16),
    (9, ConnectType.INT32),
    (_BEST_DIGITS, ConnectType.INT64),
)
_SIMPLE: Final[Mapping[str, ConnectType]] = {
    "int8": ConnectType.INT8,
    "int16": ConnectType.INT16,
    "int32": ConnectType.INT32,
    "int64": ConnectType.INT64,
    "float32": ConnectType.FLOAT32,
    "float64": ConnectType.FLOAT64,
    "boolean": ConnectType.BOOLEAN,
    "string": ConnectType.STRING,
    "bytes": ConnectType.BYTES,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result."""

    name: str
    kind: str
    """Of `_SIMPLE`, or ``numeric``, ``date``, ``time``, ``timestamp``, ``timestamptz``."""
    precision: int | None = None
    scale: int | None = None
    array: bool = False
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A column's field in records."""

    schema: ConnectSchema
    convert: Convert


def field_of(column: Column, config: QueryConfig) -> Field:
    """What becomes of a column."""
    made = _item(column, config)
    if column.array:
        item = made.convert
        schema = ConnectSchema(ConnectType.ARRAY, items=made.schema.as_optional())
        made = Field(schema, lambda values: [None if value is None else item(value) for value in values])
    return Field(made.schema.as_optional() if column.nullable else made.schema, made.convert)


def _item(column: Column, config: QueryConfig) -> Field:
    simple = _SIMPLE.get(column.kind)
    if simple is not None:
        return Field(ConnectSchema(simple), _CONVERTS.get(simple, _same))
    if column.kind == "date":
        return Field(CONNECT_DATE, _days)
    if column.kind == "time":
        return Field(CONNECT_TIME, _millis_of_day)
    if column.kind in {"timestamp", "timestamptz"}:
        return _moment(config)
    return _number(column, config.numeric_mapping)


def _moment(config: QueryConfig) -> Field:
    """What a timestamp becomes: nothing here knows more than microseconds."""
    zone = config.zone
    if config.granularity == LOGICAL:
        return Field(CONNECT_TIMESTAMP, lambda value: _millis(value, zone))
    unit, _, form = config.granularity.partition("_")
    more = "000" if unit == "nanos" else ""
    if form == "iso_datetime_string":
        return Field(ConnectSchema(ConnectType.STRING), lambda value: _iso(value, zone) + more)
    factor = 1000 if more else 1
    if form == "string":
        return Field(ConnectSchema(ConnectType.STRING), lambda value: str(_micros(value, zone) * factor))
    return Field(ConnectSchema(ConnectType.INT64), lambda value: _long_of(_micros(value, zone) * factor))


def _number(column: Column, mapping: str) -> Field:
    precision, scale = column.precision, column.scale
    if precision is None or scale is None:
        return Field(VARIABLE_SCALE_DECIMAL, _variable)
    if mapping != "none" and precision <= _BEST_DIGITS:
        if scale == 0:
            kind = next(kind for digits, kind in _WHOLE if precision <= digits)
            return Field(ConnectSchema(kind), int)
        if mapping == "best_fit" and scale > 0:
            return Field(ConnectSchema(ConnectType.FLOAT64), float)
    if mapping == "best_fit_eager_double" and scale > 0:
        return Field(ConnectSchema(ConnectType.FLOAT64), float)
    quantum = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        number = _finite(value)
        return number if number.as_tuple().exponent == -scale else number.quantize(quantum)

    return Field(decimal(scale), convert)


def _same(value: Any) -> Any:
    return value


def _bytes(value: Any) -> bytes:
    return bytes(value)


def _long(value: Any) -> Any:
    if isinstance(value, int) and value > _MOST_LONG:
        raise RecordError("an unsigned number is greater than an INT64 can hold")
    return value


_CONVERTS: Final[Mapping[ConnectType, Convert]] = {ConnectType.BYTES: _bytes, ConnectType.INT64: _long}


def _finite(value: Any) -> Decimal:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise RecordError("a Decimal cannot hold NaN or infinity")
    return number


def _variable(value: Any) -> dict[str, Any]:
    number = _finite(value)
    scale = -int(number.as_tuple().exponent)
    return {"scale": scale, "value": decimal_to_bytes(number, scale)}


def read_date(value: str) -> date:
    """A date, from a database's text.

    Raises:
        ValueError: it is none of the years 1 to 9999.
    """
    return datetime.fromisoformat(value).date()


def read_moment(value: Any, zone: tzinfo) -> datetime:
    """A moment with its zone, from a database's text; `zone` is that of texts without one.

    Raises:
        ValueError: it is none of the years 1 to 9999, such as ``infinity``.
    """
    if isinstance(value, int):
        return datetime.fromtimestamp(0, zone) + timedelta(milliseconds=value)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def _days(value: Any) -> int:
    return read_date(value).toordinal() - _EPOCH_DAY


def _millis(value: Any, zone: tzinfo) -> int:
    return (read_moment(value, zone) - _ZERO) // timedelta(milliseconds=1)


def _micros(value: Any, zone: tzinfo) -> int:
    return (read_moment(value, zone) - _ZERO) // timedelta(microseconds=1)


def _iso(value: Any, zone: tzinfo) -> str:
    """In that zone, without saying so, as the well-known connector writes it."""
    return read_moment(value, zone).astimezone(zone).replace(tzinfo=None).isoformat(timespec="microseconds")


def _long_of(number: int) -> int:
    if not -_MOST_LONG - 1 <= number <= _MOST_LONG:
        raise RecordError("a timestamp in nanoseconds is greater than an INT64 can hold")
    return number


_ZERO: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_DAY_MILLIS: Final = 86_400_000


def _millis_of_day(value: Any) -> int:
    if value == "24:00:00":
        return _DAY_MILLIS
    moment = value if isinstance(value, time) else time.fromisoformat(value)
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000
