"""Connect's values as documents, and Connect's schemas as mappings. Pure.

A document holds a value as it is, with all its digits; a mapping says what the server makes of it for searches. Dates and
times are ISO 8601 text. A value without a schema is JSON already, and its mapping is the server's.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import orjson

from tidings_envelope.decimals import CONNECT_DECIMAL, VARIABLE_SCALE_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.times import iso_clock
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.civil import iso_date, iso_timestamp
from tidings_sinks.converting import Convert, each, items, members
from tidings_sinks.errors import RowError

Mapped = dict[str, Any]
"""A field's mapping, in the server's words."""

_DATE: Final = {"type": "date", "ignore_malformed": True}
"""What the server knows no day for (infinity, years beyond 9999) stays in the document and is not searched."""
_KEYWORD: Final = {"type": "keyword"}
_TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
_DOUBLE: Final = {"type": "double"}
_LONG: Final = {"type": "long"}
_BREAK: Final = re.compile(r"[\r\n]")
_EPOCH: Final = datetime.fromisoformat("1970-01-01")
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Of the years 1 to 9999, which Python's calendar has."""
_INFINITE_DAYS: Final = {2_146_033_979: "infinity", -2_147_472_691: "-infinity"}
_INFINITE_MS: Final = {9_223_372_036_825_200_000: "infinity", -9_223_372_036_832_400_000: "-infinity"}
_INFINITE_US: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}
"""How Debezium writes PostgreSQL's infinities."""


def _date(value: int) -> str:
    return _INFINITE_DAYS.get(value) or iso_date(value)


def _micros(value: int) -> str:
    if _FIRST_US <= value < _LAST_US:
        return (_EPOCH + timedelta(microseconds=value)).isoformat("T", "microseconds")
    return iso_timestamp(value).replace(" ", "T", 1)


def _of_micros(value: int) -> str:
    return _INFINITE_US.get(value) or _micros(value)


def _of_millis(value: int) -> str:
    return _INFINITE_MS.get(value) or _micros(value * 1000)


def _of_nanos(value: int) -> str:
    return f"{_micros(value // 1000)}{value % 1000:03d}"


def _without_z(value: str) -> str:
    return value.removeprefix("+").removesuffix("Z")


def _finite(value: float) -> float:
    if value - value != 0:  # NaN or infinite
        raise RowError("a number is not finite, which JSON has no form for")
    return value


def _json(value: str) -> Any:
    """JSON as it is, but for line breaks, which between its parts mean nothing and would part the request's lines."""
    if value == UNAVAILABLE:
        return value
    orjson.loads(value)
    return orjson.Fragment(_BREAK.sub(" ", value))


def _variable(value: Mapping[str, Any]) -> Decimal:
    return decimal_from_bytes(value["value"], value["scale"])


def _bits(value: bytes) -> str:
    return f"{int.from_bytes(value, 'little'):b}"


_SEMANTIC: Final[Mapping[str, tuple[Mapped | None, Convert | None]]] = {
    "org.apache.kafka.connect.data.Date": (_DATE, _date),
    "org.apache.kafka.connect.data.Time": (_KEYWORD, lambda value: iso_clock(value * 1000)),
    "org.apache.kafka.connect.data.Timestamp": (_DATE, lambda value: f"{_micros(value * 1000)}Z"),
    "io.debezium.time.Date": (_DATE, _date),
    "io.debezium.time.Time": (_KEYWORD, lambda value: iso_clock(value * 1000)),
    "io.debezium.time.MicroTime": (_KEYWORD, iso_clock),
    "io.debezium.time.NanoTime": (_KEYWORD, lambda value: f"{iso_clock(value // 1000)}{value % 1000:03d}"),
    "io.debezium.time.Timestamp": (_DATE, _of_millis),
    "io.debezium.time.MicroTimestamp": (_DATE, _of_micros),
    "io.debezium.time.NanoTimestamp": (_DATE, _of_nanos),
    "io.debezium.time.IsoDate": (_DATE, _without_z),
    "io.debezium.time.IsoTime": (_KEYWORD, _without_z),
    "io.debezium.time.IsoTimestamp": (_DATE, _without_z),
    "io.debezium.time.ZonedTime": (_KEYWORD, None),
    "io.debezium.time.ZonedTimestamp": (_DATE, None),
    "io.debezium.time.Interval": (_KEYWORD, None),
    "io.debezium.data.Json": (None, _json),
    "io.debezium.data.Uuid": (_KEYWORD, None),
    "io.debezium.data.Enum": (_KEYWORD, None),
    "io.debezium.data.EnumSet": (_KEYWORD, None),
    "io.debezium.data.Bits": (_KEYWORD, _bits),
    VARIABLE_SCALE_DECIMAL: (_DOUBLE, _variable),
    CONNECT_DECIMAL: (_DOUBLE, None),
}
_PLAIN: Final[Mapping[ConnectType, Mapped]] = {
    ConnectType.INT8: {"type": "byte"},
    ConnectType.INT16: {"type": "short"},
    ConnectType.INT32: {"type": "integer"},
    ConnectType.INT64: _LONG,
    ConnectType.FLOAT32: {"type": "float"},
    ConnectType.FLOAT64: _DOUBLE,
    ConnectType.BOOLEAN: {"type": "boolean"},
    ConnectType.STRING: _TEXT,
    ConnectType.BYTES: {"type": "binary"},
}
_FLOATS: Final = frozenset((ConnectType.FLOAT32, ConnectType.FLOAT64))


def field_of(schema: ConnectSchema, *, compact: bool) -> tuple[Mapped | None, Convert | None]:
    """The mapping of a schema's values, None where the server decides; and what converts one that is not null, None where it
    stays as it is.

    Args:
        compact: whether maps with keys of text are objects.
    """
    if schema.name is not None and schema.name in _SEMANTIC:
        return _SEMANTIC[schema.name]
    if schema.type is ConnectType.STRUCT:
        return _struct(schema, compact=compact)
    if schema.type is ConnectType.ARRAY:
        assert schema.items is not None
        mapped, convert = field_of(schema.items, compact=compact)
        return mapped, None if convert is None else each(convert)
    if schema.type is ConnectType.MAP:
        return _map(schema, compact=compact)
    return _PLAIN[schema.type], _finite if schema.type in _FLOATS else None


def _struct(schema: ConnectSchema, *, compact: bool) -> tuple[Mapped, Convert | None]:
    properties: dict[str, Mapped] = {}
    converts: list[tuple[str, Convert]] = []
    for field in schema.fields:
        mapped, convert = field_of(field.schema, compact=compact)
        if mapped is not None and _can_be_mapped(field.name):
            properties[field.name] = mapped
        if convert is not None:
            converts.append((field.name, convert))
    return {"properties": properties}, members(converts) if converts else None


def _can_be_mapped(name: str) -> bool:
    """Whether the server takes a mapping for a field of this name; otherwise it decides by the documents."""
    return name.strip() != "" and not name.startswith("_") and all(part.strip() for part in name.split("."))


def _map(schema: ConnectSchema, *, compact: bool) -> tuple[Mapped, Convert | None]:
    assert schema.keys is not None
    assert schema.items is not None
    key, convert_key = field_of(schema.keys, compact=compact)
    item, convert_item = field_of(schema.items, compact=compact)
    if compact and schema.keys.type is ConnectType.STRING:
        return {"type": "object"}, None if convert_item is None else items(convert_item)
    properties = {name: mapped for name, mapped in (("key", key), ("value", item)) if mapped is not None}
    return {"properties": properties}, _pairs(convert_key, convert_item)


def _pairs(key: Convert | None, item: Convert | None) -> Convert:
    def one(convert: Convert | None, value: Any) -> Any:
        return value if value is None or convert is None else convert(value)

    return lambda value: [{"key": one(key, k), "value": one(item, v)} for k, v in value.items()]


def _otherwise(value: Any) -> Any:
    """What orjson has no form for."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise RowError("a number is not finite, which JSON has no form for")
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError


def encoded(document: Any) -> bytes:
    """A converted document, or a part of one, as JSON on one line.

    Raises:
        RowError: a value has no form in it.
    """
    try:
        return orjson.dumps(document, default=_otherwise)
    except TypeError as error:  # orjson's own
        if isinstance(error.__cause__, RowError):
            raise error.__cause__ from None
        raise RowError("a value has no form in JSON") from None
