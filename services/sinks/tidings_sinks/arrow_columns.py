"""Connect's schemas as Arrow's: what a Parquet file's columns are, and how a record's values become theirs. Pure."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from tidings_envelope.decimals import CONNECT_DECIMAL, VARIABLE_SCALE_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.civil import DAY_US, NoTimeOfDayError
from tidings_sinks.errors import RowError

Convert = Callable[[Any], Any]
_MOST_DIGITS: Final = 76
"""Of Arrow's widest decimal."""
_NARROW_DIGITS: Final = 38
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_PLAIN: Final = {
    ConnectType.INT8: pa.int8(),
    ConnectType.INT16: pa.int16(),
    ConnectType.INT32: pa.int32(),
    ConnectType.INT64: pa.int64(),
    ConnectType.FLOAT32: pa.float32(),
    ConnectType.FLOAT64: pa.float64(),
    ConnectType.BOOLEAN: pa.bool_(),
    ConnectType.STRING: pa.string(),
    ConnectType.BYTES: pa.binary(),
}


def _moment(value: str) -> int:
    read = datetime.fromisoformat(value)
    return (read - _EPOCH) // timedelta(microseconds=1)


def _day(value: str) -> int:
    return (date.fromisoformat(value.removesuffix("Z")) - _EPOCH.date()).days


def _local(value: str) -> int:
    return _moment(f"{value.removesuffix('Z')}+00:00")


def time_of_day(units: int, divisor: int = 1) -> Convert:
    """Checks a time, of which a day has so many units, and divides it: Arrow takes any number, and whoever reads it fails."""

    def convert(value: int) -> int:
        if not 0 <= value <= units:
            raise NoTimeOfDayError
        return value // divisor

    return convert


def _variable(value: Mapping[str, Any]) -> str:
    return format(decimal_from_bytes(value["value"], value["scale"]), "f")


_SEMANTIC: Final[Mapping[str, tuple[pa.DataType, Convert | None]]] = {
    "org.apache.kafka.connect.data.Date": (pa.date32(), None),
    "org.apache.kafka.connect.data.Time": (pa.time32("ms"), time_of_day(DAY_US // 1000)),
    "org.apache.kafka.connect.data.Timestamp": (pa.timestamp("ms", "UTC"), None),
    "io.debezium.time.Date": (pa.date32(), None),
    "io.debezium.time.Time": (pa.time32("ms"), time_of_day(DAY_US // 1000)),
    "io.debezium.time.MicroTime": (pa.time64("us"), time_of_day(DAY_US)),
    "io.debezium.time.NanoTime": (pa.time64("ns"), time_of_day(DAY_US * 1000)),
    "io.debezium.time.Timestamp": (pa.timestamp("ms"), None),
    "io.debezium.time.MicroTimestamp": (pa.timestamp("us"), None),
    "io.debezium.time.NanoTimestamp": (pa.timestamp("ns"), None),
    "io.debezium.time.ZonedTimestamp": (pa.timestamp("us", "UTC"), _moment),
    "io.debezium.time.IsoTimestamp": (pa.timestamp("us"), _local),
    "io.debezium.time.IsoDate": (pa.date32(), _day),
    VARIABLE_SCALE_DECIMAL: (pa.string(), _variable),
}


def type_of(schema: ConnectSchema) -> tuple[pa.DataType, Convert | None]:
    """The type of a schema's values, and what converts one that is not null; None where it is taken as it is.

    Raises:
        RowError: Parquet has no such type.
    """
    if schema.name is not None and schema.name in _SEMANTIC:
        return _SEMANTIC[schema.name]
    if schema.name == CONNECT_DECIMAL:
        return _decimal(schema), None
    if schema.type is ConnectType.STRUCT:
        return _struct(schema)
    if schema.type is ConnectType.ARRAY:
        assert schema.items is not None
        item, convert = type_of(schema.items)
        return pa.list_(pa.field("element", item, nullable=schema.items.optional)), _each(convert)
    if schema.type is ConnectType.MAP:
        assert schema.keys is not None
        assert schema.items is not None
        key, convert_key = type_of(schema.keys)
        item, convert_item = type_of(schema.items)
        return pa.map_(key, pa.field("value", item, nullable=schema.items.optional)), _pairs(
            convert_key, convert_item
        )
    return _PLAIN[schema.type], None


def _decimal(schema: ConnectSchema) -> pa.DataType:
    scale = int(schema.parameters.get("scale", "0"))
    said = schema.parameters.get("connect.decimal.precision")
    precision = _NARROW_DIGITS if said is None else int(said)
    if not 0 < precision <= _MOST_DIGITS or abs(scale) > precision:
        raise RowError(f"a decimal with {precision} digits, {scale} of them behind the point, fits no column")
    narrow = precision <= _NARROW_DIGITS
    return pa.decimal128(precision, scale) if narrow else pa.decimal256(precision, scale)


def _struct(schema: ConnectSchema) -> tuple[pa.DataType, Convert | None]:
    if not schema.fields:
        raise RowError("a struct without fields fits no column")
    fields, converts = [], {}
    for field in schema.fields:
        kind, convert = type_of(field.schema)
        fields.append(pa.field(field.name, kind, nullable=field.schema.optional))
        if convert is not None:
            converts[field.name] = convert
    return pa.struct(fields), _members(converts) if converts else None


def _members(converts: Mapping[str, Convert]) -> Convert:
    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, change in converts.items():
            if found.get(name) is not None:
                found[name] = change(found[name])
        return found

    return convert


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _pairs(key: Convert | None, item: Convert | None) -> Convert:
    def one(convert: Convert | None, value: Any) -> Any:
        return value if value is None or convert is None else convert(value)

    return lambda value: [(one(key, k), one(item, v)) for k, v in value.items()]
