"""Values as PostgreSQL's input functions read them; what needs no change is taken as it is."""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from tidings_sinks.civil import NoTimeOfDayError, wall_clock
from tidings_sinks.jdbc.database import Encode
from tidings_sinks.jdbc.json_text import bytes_of_base64, json_text
from tidings_sinks.jdbc.kinds import Base, Kind

TYPES: Final = {
    Base.SMALLINT: "smallint",
    Base.INTEGER: "integer",
    Base.BIGINT: "bigint",
    Base.REAL: "real",
    Base.DOUBLE: "double precision",
    Base.BOOLEAN: "boolean",
    Base.TEXT: "text",
    Base.BYTES: "bytea",
    Base.DATE: "date",
    Base.TIME: "time(6)",
    Base.TIMETZ: "time(6) with time zone",
    Base.TIMESTAMP: "timestamp(6)",
    Base.TIMESTAMPTZ: "timestamp(6) with time zone",
    Base.INTERVAL: "interval",
    Base.JSON: "json",
    Base.UUID: "uuid",
    Base.XML: "xml",
    Base.POINT: "point",
    Base.TSVECTOR: "tsvector",
    Base.STRUCTURE: "json",
}
_JSON: Final = frozenset({"json", "jsonb"})
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint", "numeric"})
_BITS_64: Final = 1 << 63
_OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):|24:00:00(\.0*)?$")
"""How a time begins that a day has."""


def type_of(kind: Kind) -> str:
    """The type of a column that is made for a kind."""
    match kind.base:
        case Base.ARRAY:
            assert kind.items is not None
            return f"{type_of(kind.items)}[]"
        case Base.DECIMAL:
            return "numeric" if kind.length is None else f"numeric({kind.length},{kind.scale or 0})"
        case Base.BITS:
            return "bit varying" if kind.length is None else f"bit({kind.length})"
        case base:
            return TYPES[base]


def encoder(kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:
    """See `Database.encoder`."""
    match kind.base:
        case Base.BOOLEAN if column in _INTEGERS:
            return int
        case Base.ARRAY:
            return json_text if column in _JSON else array_text
        case Base.STRUCTURE:
            return _hstore if column is not None and column.endswith("hstore") else json_text
        case Base.TIME if column is not None and column.startswith("time "):
            return _time_of_day
        case Base.TIMESTAMPTZ if column == "timestamp without time zone":
            return lambda value: wall_clock(value, zone)
        case base:
            return _PLAIN.get(base)


def untyped_encoder(column: str) -> Encode:
    """See `Database.untyped_encoder`."""

    def encode(value: Any) -> Any:
        if isinstance(value, list) and column.endswith("[]"):
            return array_text(value)
        if isinstance(value, dict | list):
            return json_text(value)
        if isinstance(value, str) and column == "bytea":
            return _bytes(bytes_of_base64(value))
        if isinstance(value, int) and not -_BITS_64 <= value < _BITS_64:
            return str(value)
        return value

    return encode


def _time_of_day(value: str) -> str:
    """PostgreSQL itself would not name the column."""
    if _OF_DAY.match(value) is None:
        raise NoTimeOfDayError
    return value


def _bytes(value: bytes) -> str:
    return "\\x" + value.hex()


def _float(value: float) -> Any:
    return value if math.isfinite(value) else repr(value).replace("inf", "Infinity").replace("nan", "NaN")


_PLAIN: Final[Mapping[Base, Encode]] = {
    Base.BYTES: _bytes,
    Base.DECIMAL: str,
    Base.REAL: _float,
    Base.DOUBLE: _float,
}
"""Whatever the column is."""


def array_text(values: Sequence[Any]) -> str:
    """An array's literal."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return str(_float(value))
    if isinstance(value, bytes):
        return _quoted(_bytes(value))
    return _quoted(value if isinstance(value, str) else json_text(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _hstore(value: Mapping[str, Any]) -> str:
    pairs = (
        f"{_quoted(key)}=>{'NULL' if item is None else _quoted(str(item))}" for key, item in value.items()
    )
    return ",".join(pairs)
