"""Connect's values as Neo4j's: those of parameters, which may hold objects, and those of properties, which may not.

Dates and times are Neo4j's temporal types where its calendar and ours have them (years 1 to 9999, times within a day), and
ISO 8601 text otherwise: infinity, years before Christ, 24:00:00.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import orjson

from tidings_envelope.decimals import CONNECT_DECIMAL, VARIABLE_SCALE_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.times import iso_clock
from tidings_sinks.civil import iso_timestamp
from tidings_sinks.converting import Convert, each, items, members
from tidings_sinks.documents import encoded, field_of
from tidings_sinks.errors import RowError
from tidings_sinks.graph.client import nano_datetime, nano_time, point, zoned_time

_EPOCH: Final = datetime.fromisoformat("1970-01-01")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Of the years 1 to 9999."""
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_800_000_000
_DAY_US: Final = 86_400_000_000
_NESTED: Final = frozenset((ConnectType.STRUCT, ConnectType.MAP))
_LOGICAL: Final = "org.apache.kafka.connect.data."
_POINT: Final = "io.debezium.data.geometry.Point"


def _text(schema_name: str) -> Convert:
    """What has no temporal value, as the search sink has it."""
    _, convert = field_of(ConnectSchema(ConnectType.INT64, name=schema_name), compact=True)
    assert convert is not None
    return convert


def _date_of(name: str) -> Convert:
    text = _text(name)
    return lambda days: date.fromordinal(days + 719_163) if _FIRST_DAY <= days <= _LAST_DAY else text(days)


def _moment_of(name: str, microseconds: int) -> Convert:
    text = _text(name)

    def convert(value: int) -> Any:
        found = value * microseconds
        return _EPOCH + timedelta(0, 0, found) if _FIRST_US <= found < _LAST_US else text(value)

    return convert


def _nano_moment(value: int) -> Any:
    micros, nanos = divmod(value, 1000)
    if not _FIRST_US <= micros < _LAST_US:
        return iso_timestamp(micros).replace(" ", "T", 1)
    moment = _EPOCH + timedelta(microseconds=micros)
    return nano_datetime(moment, nanos) if nanos else moment


def _clock(micros: int) -> Any:
    return (_EPOCH + timedelta(microseconds=micros)).time() if 0 <= micros < _DAY_US else iso_clock(micros)


def _nano_clock(value: int) -> Any:
    micros, nanos = divmod(value, 1000)
    found = _clock(micros)
    return nano_time(found, nanos) if nanos and isinstance(found, time) else found


def _iso(parse: Callable[[str], Any]) -> Convert:
    def convert(value: str) -> Any:
        try:
            return parse(value)
        except ValueError:  # what the calendar has not
            return value

    return convert


def _bare(parse: Callable[[str], Any]) -> Convert:
    """Debezium writes a Z after what has no zone."""
    found = _iso(parse)
    return lambda value: found(value.removeprefix("+").removesuffix("Z"))


def _variable(value: Mapping[str, Any]) -> Decimal:
    return decimal_from_bytes(value["value"], value["scale"])


def _bits(value: bytes) -> str:
    return f"{int.from_bytes(value, 'little'):b}"


def _point(value: Mapping[str, Any]) -> Any:
    return point(value["x"], value["y"], value.get("srid"))


_CONNECT: Final[Mapping[str, Convert]] = {
    f"{_LOGICAL}Date": _date_of(f"{_LOGICAL}Date"),
    f"{_LOGICAL}Time": lambda value: _clock(value * 1000),
    f"{_LOGICAL}Timestamp": _moment_of(f"{_LOGICAL}Timestamp", 1000),
}
_DEBEZIUM: Final[Mapping[str, Convert]] = {
    "io.debezium.time.Date": _date_of("io.debezium.time.Date"),
    "io.debezium.time.Time": lambda value: _clock(value * 1000),
    "io.debezium.time.MicroTime": _clock,
    "io.debezium.time.NanoTime": _nano_clock,
    "io.debezium.time.Timestamp": _moment_of("io.debezium.time.Timestamp", 1000),
    "io.debezium.time.MicroTimestamp": _moment_of("io.debezium.time.MicroTimestamp", 1),
    "io.debezium.time.NanoTimestamp": _nano_moment,
    "io.debezium.time.IsoDate": _bare(date.fromisoformat),
    "io.debezium.time.IsoTime": _bare(time.fromisoformat),
    "io.debezium.time.IsoTimestamp": _bare(datetime.fromisoformat),
    "io.debezium.time.ZonedTime": _iso(lambda value: zoned_time(time.fromisoformat(value))),
    "io.debezium.time.ZonedTimestamp": _iso(datetime.fromisoformat),
    "io.debezium.data.Bits": _bits,
    _POINT: _point,
}


class Values:
    """Converts values.

    Args:
        semantic: whether Debezium's types are Neo4j's; otherwise Connect's own are, and the others stay as they are encoded.
        as_float: whether decimals are floating point numbers; otherwise text with all their digits.
        flattens: whether objects may stand in properties, because somebody takes them apart; otherwise they are JSON.
    """

    def __init__(self, *, semantic: bool, as_float: bool, flattens: bool = True) -> None:
        self._semantic, self._flattens = semantic, flattens
        self._decimal: Convert = float if as_float else lambda value: format(value, "f")

    def parameter(self, schema: ConnectSchema | None) -> Convert | None:
        """What converts the values of a schema that are not null; None where they stay as they are."""
        if schema is None:
            return self.plain
        named = self._named(schema)
        if named is not None:
            return named
        match schema.type:
            case ConnectType.STRUCT:
                parts = [(field.name, self.parameter(field.schema)) for field in schema.fields]
                changing = [(name, convert) for name, convert in parts if convert is not None]
                return members(changing) if changing else None
            case ConnectType.ARRAY:
                convert = self.parameter(schema.items)
                return None if convert is None else each(convert)
            case ConnectType.MAP:
                return self._map(schema)
            case _:
                return None

    def _named(self, schema: ConnectSchema) -> Convert | None:
        name = schema.name
        if name is None:
            return None
        if name == CONNECT_DECIMAL:
            return self._decimal
        if name in _CONNECT:
            return _CONNECT[name]
        if not self._semantic:
            return None
        if name == VARIABLE_SCALE_DECIMAL:
            decimal = self._decimal
            return lambda value: decimal(_variable(value))
        if name == "io.debezium.data.Json" and self._flattens:
            return lambda value: self.plain(orjson.loads(value))
        return _DEBEZIUM.get(name)

    def _map(self, schema: ConnectSchema) -> Convert | None:
        if schema.keys is None or schema.keys.type is not ConnectType.STRING:
            raise RowError("a map has keys that are no text")
        convert = self.parameter(schema.items)
        return None if convert is None else items(convert)

    def plain(self, value: Any) -> Any:
        """A value without a schema.

        Raises:
            RowError: Neo4j has no number of its size.
        """
        match value:
            case bool():
                return value
            case int() if not -(2**63) <= value < 2**63:
                raise RowError("a number is too large: Neo4j's have 64 bits")
            case Decimal():
                return self._decimal(value)
            case list():
                return [self.plain(item) for item in value]
            case dict():
                return {str(name): self.plain(item) for name, item in value.items()}
            case _:
                return value

    # Properties

    def property(self, schema: ConnectSchema | None) -> Convert | None:
        """What makes a property of a schema's values that are not null; a dict where it takes objects apart.

        A list whose elements are not all of one type, or null, is JSON: no property holds it.
        """
        if schema is None:
            return self._plain_property
        if schema.name not in {_POINT, VARIABLE_SCALE_DECIMAL} and schema.type in _NESTED:
            return self.parameter(schema) if self._flattens else _json_of(schema)
        if schema.type is not ConnectType.ARRAY:
            return self.parameter(schema)
        convert, as_json = self.parameter(schema), _json_of(schema)

        def array(value: list[Any]) -> Any:
            found = value if convert is None else convert(value)
            return found if _is_property(found) else as_json(value)

        return array

    def _plain_property(self, value: Any) -> Any:
        if isinstance(value, list) and not _is_property(value):
            return encoded(value).decode()
        if isinstance(value, dict) and not self._flattens:
            return encoded(value).decode()
        return self.plain(value)


def _is_property(items: list[Any]) -> bool:
    kinds = set(map(type, items))
    return len(kinds) <= 1 and not kinds & {dict, list, bytes, type(None)}


def _json_of(schema: ConnectSchema) -> Convert:
    _, convert = field_of(schema, compact=True)
    return lambda value: encoded(value if convert is None else convert(value)).decode()


def flattened(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Objects taken apart: a member's name is the path to it, with dots."""
    found: dict[str, Any] = {}
    for name, item in value.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(item, dict):
            found |= flattened(item, path)
        else:
            found[path] = item
    return found
