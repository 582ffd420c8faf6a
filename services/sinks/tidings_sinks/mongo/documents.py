"""Connect's values as documents. Pure.

Dates are BSON's, which count milliseconds; Decimal128 keeps digits and scale up to 34 digits. What `Values.CONNECT` makes of
Debezium's own types is what MongoDB's connector makes of them: the numbers that they are stored as.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from struct import Struct
from typing import Any, Final

import msgspec

from tidings_connect.data.schemas import PerSchema, default_of
from tidings_envelope.decimals import CONNECT_DECIMAL, VARIABLE_SCALE_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.times import iso_clock
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.civil import iso_date, iso_timestamp
from tidings_sinks.errors import RowError
from tidings_sinks.mongo.bson_types import DatetimeMS, Int64, decimal_of, document_of_bson, document_of_text
from tidings_sinks.mongo.settings import Values

Convert = Callable[[Any], Any]
Document = dict[str, Any]

_CONNECT: Final = "org.apache.kafka.connect.data."
_DAY_MS: Final = 86_400_000
_LONGS: Final = (-(2**63), 2**63 - 1)
_MISFITS: Final = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError)
_INFINITE_DAYS: Final = {2_146_033_979: "infinity", -2_147_472_691: "-infinity"}
_INFINITE_MS: Final = {9_223_372_036_825_200_000: "infinity", -9_223_372_036_832_400_000: "-infinity"}
_INFINITE_US: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}
"""How Debezium writes PostgreSQL's infinities; they stay text."""


def _days(value: int) -> Any:
    return _INFINITE_DAYS.get(value) or DatetimeMS(value * _DAY_MS)


def _millis(value: int) -> Any:
    return _INFINITE_MS.get(value) or DatetimeMS(value)


def _micros(value: int) -> Any:
    return _INFINITE_US.get(value) or DatetimeMS(value // 1000)


def _micros_text(value: int) -> str:
    return _INFINITE_US.get(value) or iso_timestamp(value).replace(" ", "T", 1)


def _millis_text(value: int) -> str:
    return _INFINITE_MS.get(value) or iso_timestamp(value * 1000).replace(" ", "T", 1)


def _nanos_text(value: int) -> str:
    return f"{iso_timestamp(value // 1000).replace(' ', 'T', 1)}{value % 1000:03d}"


def _zoned(value: str) -> Any:
    """ISO 8601 text, as a date; what Python's calendar has not stays text."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return DatetimeMS(moment)


def _iso_date(value: str) -> Any:
    try:
        day = datetime.fromisoformat(value.removeprefix("+").removesuffix("Z"))
    except ValueError:
        return value
    return DatetimeMS(day.replace(tzinfo=UTC))


def _variable(value: Mapping[str, Any]) -> Any:
    return decimal_of(decimal_from_bytes(value["value"], value["scale"]))


def _json(value: str) -> Any:
    if value == UNAVAILABLE:
        return value
    return plain(msgspec.json.decode(value))


_NO_TIMES: Final[Mapping[str, Convert]] = {
    f"{_CONNECT}Date": lambda value: DatetimeMS(value * _DAY_MS),
    f"{_CONNECT}Time": DatetimeMS,
    f"{_CONNECT}Timestamp": DatetimeMS,
    CONNECT_DECIMAL: decimal_of,
}
_SHARED: Final[Mapping[str, Convert | None]] = {
    **_NO_TIMES,
    "io.debezium.time.Date": _days,
    "io.debezium.time.Time": lambda value: iso_clock(value * 1000),
    "io.debezium.time.MicroTime": iso_clock,
    "io.debezium.time.NanoTime": lambda value: f"{iso_clock(value // 1000)}{value % 1000:03d}",
    "io.debezium.time.IsoDate": _iso_date,
    "io.debezium.time.IsoTime": lambda value: value.removesuffix("Z"),
    "io.debezium.data.Json": _json,
    VARIABLE_SCALE_DECIMAL: _variable,
}
_SEMANTIC: Final[Mapping[Values, Mapping[str, Convert | None]]] = {
    Values.CONNECT: _NO_TIMES,
    Values.BSON: {
        **_SHARED,
        "io.debezium.time.Timestamp": _millis,
        "io.debezium.time.MicroTimestamp": _micros,
        "io.debezium.time.NanoTimestamp": lambda value: DatetimeMS(value // 1_000_000),
        "io.debezium.time.IsoTimestamp": _iso_date,
        "io.debezium.time.ZonedTimestamp": _zoned,
    },
    Values.TEXT: {
        **_SHARED,
        "io.debezium.time.Date": lambda value: _INFINITE_DAYS.get(value) or iso_date(value),
        "io.debezium.time.IsoDate": lambda value: value.removeprefix("+").removesuffix("Z"),
        "io.debezium.time.Timestamp": _millis_text,
        "io.debezium.time.MicroTimestamp": _micros_text,
        "io.debezium.time.NanoTimestamp": _nanos_text,
        "io.debezium.time.IsoTimestamp": lambda value: value.removeprefix("+").removesuffix("Z"),
    },
}


def _float32(value: float) -> float:
    """What 32 bits hold of a number that JSON has with more digits, as from Avro."""
    return float(_FLOAT.unpack(_FLOAT.pack(value))[0])


_FLOAT: Final = Struct("<f")
_PLAIN: Final[Mapping[ConnectType, Convert]] = {ConnectType.INT64: Int64, ConnectType.FLOAT32: _float32}


def plain(value: Any) -> Any:
    """A value that has no schema: JSON's, with whole numbers as 64 bit integers as Kafka Connect has them."""
    kind = type(value)
    if kind is int:
        if not _LONGS[0] <= value <= _LONGS[1]:
            return decimal_of(Decimal(value))
        return Int64(value)
    if kind is dict:
        return {name: plain(item) for name, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    return decimal_of(value) if kind is Decimal else value


class Documents:
    """Makes documents of keys and values."""

    def __init__(self, values: Values) -> None:
        self._semantic = _SEMANTIC[values]
        self._convert = PerSchema(lambda schema: self._of(schema) or _same)

    def __call__(self, schema: ConnectSchema | None, value: Any, side: str) -> Document:
        """The document of a struct, a map, text in JSON or bytes in BSON. It is the caller's own.

        Args:
            side: what it is, for messages: ``key`` or ``value``.

        Raises:
            RowError: it is none of these, or does not fit its schema.
        """
        if type(value) is dict or isinstance(value, Mapping):  # the former is much faster
            if schema is None:
                return {name: plain(item) for name, item in value.items()}
            found = self._fitting(schema, value, side)
            if isinstance(found, dict):
                return found
        elif isinstance(value, str):
            read = document_of_text(value)
            if read is not None:
                return read
        elif isinstance(value, bytes):
            read = document_of_bson(value)
            if read is not None:
                return read
        raise RowError(f"the {side} is not a struct, a map, JSON's text or BSON's bytes")

    def single(self, schema: ConnectSchema | None, value: Any, side: str) -> Any:
        """A value that is no document, such as a key of text.

        Raises:
            RowError: it does not fit its schema.
        """
        return plain(value) if schema is None else self._fitting(schema, value, side)

    def _fitting(self, schema: ConnectSchema, value: Any, side: str) -> Any:
        try:
            return self._convert(schema)(value)
        except _MISFITS as error:
            raise RowError(f"the {side} does not fit its schema ({type(error).__name__})") from None

    def _of(self, schema: ConnectSchema) -> Convert | None:
        """What converts values that are not null; None: they are as they are to be."""
        if schema.name is not None and schema.name in self._semantic:
            return self._semantic[schema.name]
        if schema.type is ConnectType.STRUCT:
            return self._struct(schema)
        if schema.type is ConnectType.ARRAY:
            assert schema.items is not None
            return _each(self._of(schema.items))
        if schema.type is ConnectType.MAP:
            return self._map(schema)
        return _PLAIN.get(schema.type)

    def _struct(self, schema: ConnectSchema) -> Convert:
        converts: list[tuple[str, Convert]] = []
        defaults: list[tuple[str, Any]] = []
        for field in schema.fields:
            convert, default = self._of(field.schema), default_of(field.schema)
            if convert is not None:
                converts.append((field.name, convert))
            if default is not None:
                defaults.append((field.name, default))
        names = tuple(field.name for field in schema.fields)
        count = len(names)

        def converted(value: Mapping[str, Any]) -> Document:
            found = dict(value) if len(value) == count else {name: value.get(name) for name in names}
            for name, default in defaults:
                if found[name] is None:
                    found[name] = default
            name = ""
            try:
                for name, convert in converts:
                    item = found[name]
                    if item is not None:
                        found[name] = convert(item)
            except RowError as error:
                raise RowError(f"field {name}: {error}") from None
            except _MISFITS as error:
                raise RowError(f"field {name} does not fit its schema ({type(error).__name__})") from None
            return found

        return converted

    def _map(self, schema: ConnectSchema) -> Convert:
        assert schema.keys is not None
        assert schema.items is not None
        item = self._of(schema.items) or _same
        if schema.keys.type is ConnectType.STRING:
            return lambda value: {name: None if each is None else item(each) for name, each in value.items()}
        key = self._of(schema.keys) or _same
        return lambda value: [
            {"key": key(name), "value": None if each is None else item(each)} for name, each in value.items()
        ]


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]
