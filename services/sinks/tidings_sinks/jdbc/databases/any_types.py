"""Types and values of databases that SQLAlchemy speaks: what kinds make, and what columns that are there take."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import sqlalchemy as sa

from tidings_sinks.jdbc.database import Encode
from tidings_sinks.jdbc.json_text import json_text
from tidings_sinks.jdbc.kinds import Base, Kind

KEY_CHARACTERS: Final = 255
"""Of a text in a key, which few databases let be longer."""
_TYPES: Final[Mapping[Base, Callable[[Kind], sa.types.TypeEngine[Any]]]] = {
    Base.SMALLINT: lambda _: sa.SmallInteger(),
    Base.INTEGER: lambda _: sa.Integer(),
    Base.BIGINT: lambda _: sa.BigInteger(),
    Base.REAL: lambda _: sa.Float(24),
    Base.DOUBLE: lambda _: sa.Double(),
    Base.BOOLEAN: lambda _: sa.Boolean(),
    Base.BYTES: lambda _: sa.LargeBinary(),
    Base.DATE: lambda _: sa.Date(),
    Base.TIMESTAMP: lambda _: sa.DateTime(),
    Base.DECIMAL: lambda kind: sa.Text() if kind.length is None else sa.Numeric(kind.length, kind.scale or 0),
}
"""What a kind makes; others are text: their ISO form, all digits, or JSON."""
_WORDS: Final[tuple[tuple[type[sa.types.TypeEngine[Any]], str], ...]] = (
    (sa.Boolean, "boolean"),
    (sa.Integer, "integer"),
    (sa.Float, "float"),
    (sa.Numeric, "numeric"),
    (sa.DateTime, "datetime"),
    (sa.Date, "date"),
    (sa.Time, "time"),
    (sa.types._Binary, "bytes"),  # noqa: SLF001 - BLOB, BINARY and VARBINARY have no other class in common
)
"""What a column's type is to the encoders, the first that fits; all others take text as it is."""
TEXT: Final = "text"


def _moment(value: str, *, zoned: bool) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if zoned or moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return str(json_text(value))
    return value if isinstance(value, str) else str(value)


ENCODERS: Final[Mapping[str, Encode]] = {
    "boolean": bool,
    "integer": int,
    "float": float,
    "numeric": _decimal,
    "datetime": lambda value: _moment(value, zoned=False),
    "datetime with zone": lambda value: _moment(value, zoned=True),
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bytes": _bytes,
    TEXT: _text,
}


def word_of(type_of: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> str:
    """What a type is to the encoders."""
    word = next((word for of, word in _WORDS if isinstance(type_of, of)), TEXT)
    if word == "numeric" and not dialect.supports_native_decimal:
        return TEXT  # it would be a float on its way
    return f"{word} with zone" if word == "datetime" and getattr(type_of, "timezone", False) else word


def type_of(kind: Kind, dialect: sa.Dialect, *, in_key: bool) -> sa.types.TypeEngine[Any]:
    """The type of a new column."""
    make = _TYPES.get(kind.base)
    if kind.base is Base.DECIMAL and not dialect.supports_native_decimal:
        make = None
    made = sa.Text() if make is None else make(kind)
    return sa.String(KEY_CHARACTERS) if in_key and isinstance(made, sa.Text) else made
