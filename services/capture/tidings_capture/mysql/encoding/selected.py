"""How a snapshot selects a column, and what makes the cells of it that the log would have (`cells`). Pure."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tidings_capture.mysql.binlog.cells import DAY_MICROS, MICROS, ZERO, Zero, days_of
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.schemas.catalog import Column

Read = Callable[[Any], Any]
WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
TEXTS: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "uuid", "inet6", "inet4"}
)
BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES: Final = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
     "geometrycollection", "geomcollection"}
)  # fmt: skip
_OF_TEXT: Final = frozenset({"decimal", "date", "datetime", "timestamp", "time"})
"""What `reader` wants as `str`."""
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def expression(column: Column) -> str:
    """What is selected for a column."""
    name = quoted(column.name)
    # As a text a FLOAT has six digits; the driver does not know VECTOR, and takes it for a text.
    casts = {"float": f"CAST({name} AS DOUBLE)", "vector": f"CAST({name} AS BINARY)"}
    return casts.get(column.type, name)


def reader(column: Column) -> Read:
    """What makes a cell of what the server sends for it; never called for NULL.

    Raises:
        UnsupportedError: for a type that is not read.
    """
    kind = column.type
    if kind in WHOLE:
        return int
    if kind in {"float", "double"}:
        return float
    if kind in TEXTS | {"json"}:
        return _text
    if kind in BYTES | GEOMETRIES | {"vector"}:
        return _bytes
    known: dict[str, Read] = {
        "decimal": Decimal,
        "bit": lambda value: int.from_bytes(value, "big"),
        "date": date_of_text,
        "datetime": datetime_of_text,
        "timestamp": datetime_of_text,
        "time": time_of_text,
    }
    if kind not in known:
        raise UnsupportedError(
            f"column {column.name!r} is of type {column.type}, which is not read",
            hint="leave its table out with table.exclude.list",
        )
    return known[kind]


def sent(column: Column) -> Read:
    """The same, of the bytes that the server sends (`client.Result`)."""
    read = reader(column)
    return (lambda data: read(data.decode())) if column.type in _OF_TEXT else read


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def date_of_text(text: str) -> int | Zero:
    """Days since 1970-01-01."""
    match = _DATE.fullmatch(text[:10])
    if match is None:
        raise ValueError("a date is written YYYY-MM-DD")
    return days_of(*map(int, match.groups()))


def datetime_of_text(text: str) -> int | Zero:
    """Microseconds since 1970-01-01 00:00."""
    days, clock = date_of_text(text), time_of_text(text[11:])
    return ZERO if isinstance(days, Zero) else days * DAY_MICROS + clock


def time_of_text(text: str) -> int:
    """Microseconds; may be negative, and longer than a day."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("a time is written HH:MM:SS")
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * MICROS
    micros = whole + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros
