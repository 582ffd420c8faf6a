"""Types and values as MariaDB and MySQL take them. What it has no type for is text: decimals without bounds with all of their digits,
intervals, times with a zone."""

from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

from tidings_sinks.civil import wall_clock
from tidings_sinks.jdbc.database import Encode
from tidings_sinks.jdbc.json_text import bytes_of_base64, json_text
from tidings_sinks.jdbc.kinds import Base, Kind

_TYPES: Final = {
    Base.SMALLINT: "smallint",
    Base.INTEGER: "int",
    Base.BIGINT: "bigint",
    Base.REAL: "float",
    Base.DOUBLE: "double",
    Base.BOOLEAN: "boolean",
    Base.BYTES: "longblob",
    Base.DATE: "date",
    Base.TIME: "time(6)",
    Base.TIMETZ: "varchar(32)",
    Base.TIMESTAMP: "datetime(6)",
    Base.TIMESTAMPTZ: "datetime(6)",
    Base.INTERVAL: "varchar(64)",
    Base.JSON: "json",
    Base.UUID: "uuid",
    Base.ARRAY: "json",
    Base.STRUCTURE: "json",
}
_OF_KEYS: Final = {"longtext": "varchar(255)", "longblob": "varbinary(255)"}
"""A key's columns have a length."""
_MOST_DIGITS: Final = 65
_MOST_SCALE: Final = 38
_MOST_BITS: Final = 64
_BINARY: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_UTC: Final = ZoneInfo("UTC")


def type_of(kind: Kind, *, of_key: bool) -> str:
    """The type of a column that is made for a kind."""
    made = _TYPES.get(kind.base, "longtext")
    if kind.base is Base.DECIMAL and kind.length is not None:
        scale = kind.scale or 0
        if kind.length <= _MOST_DIGITS and 0 <= scale <= min(_MOST_SCALE, kind.length):
            made = f"decimal({kind.length},{scale})"
    elif kind.base is Base.BITS and kind.length is not None and kind.length <= _MOST_BITS:
        made = f"bit({kind.length})"
    return _OF_KEYS.get(made, made) if of_key else made


def encoder(kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:
    """See `Database.encoder`."""
    match kind.base:
        case Base.DECIMAL:
            return str
        case Base.ARRAY | Base.STRUCTURE:
            return json_text
        case Base.BITS if column == "bit":
            return _number_of_bits
        case Base.TIMESTAMPTZ if column == "timestamp":
            return _in(_UTC)
        case Base.TIMESTAMPTZ if column in {"datetime", None}:
            return _in(zone)
        case _:
            return None


def untyped_encoder(column: str) -> Encode:
    """See `Database.untyped_encoder`."""

    def encode(value: Any) -> Any:
        if isinstance(value, dict | list):
            return json_text(value)
        if isinstance(value, str) and column in _BINARY:
            return bytes_of_base64(value)
        return value

    return encode


def _in(zone: ZoneInfo) -> Callable[[str], str]:
    return lambda value: wall_clock(value, zone)


def _number_of_bits(value: str) -> int:
    return int(value, 2)
