"""``toString`` of the Java objects that Connect values are: what ``FileStreamSinkConnector`` writes.

Specified by ``org.apache.kafka.connect.data.Struct``, ``java.util.HashMap``, ``java.util.Date`` and their like. Two things are
said otherwise: bytes are base64, since Java prints an address for them; and moments are in UTC, whatever zone the machine is in.
"""

import base64
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from tidings_connect.data.schemas import get
from tidings_connect.data.text import DAY_MS, UNIT_MS, number_text
from tidings_connect.java.hash import string_hash
from tidings_envelope.schema import ConnectSchema, ConnectType

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH: Final = 2_440_588
"""The Julian day number of the first day of 1970."""
_GREGORIAN: Final = 2_299_161
"""That of 15 October 1582, before which Java's dates are of the Julian calendar."""
_LEAST_TABLE: Final = 16


def java_text(schema: ConnectSchema | None, value: Any) -> str:  # noqa: PLR0911 - one per type
    """A value as ``String.valueOf`` has it."""
    if value is None:
        return "null"
    if schema is not None and schema.name in UNIT_MS:
        return _moment(value * UNIT_MS[schema.name])
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(schema, value)
        case int() | Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            items = schema.items if schema is not None else None
            return "[" + ", ".join(java_text(items, item) for item in value) + "]"
        case dict() if schema is not None and schema.type is ConnectType.STRUCT:
            found = ((field, get(value, field)) for field in schema.fields)
            parts = (f"{f.name}={java_text(f.schema, item)}" for f, item in found if item is not None)
            return "Struct{" + ",".join(parts) + "}"
        case dict():
            return "{" + ", ".join(_entries(schema, value)) + "}"
        case _:
            return str(value)


def _entries(schema: ConnectSchema | None, value: dict[Any, Any]) -> list[str]:
    keys, items = (None, None) if schema is None else (schema.keys, schema.items)
    by_text = {java_text(keys, key): item for key, item in value.items()}
    return [f"{key}={java_text(items, by_text[key])}" for key in in_hash_order(by_text)]


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """Texts in the order of a ``HashMap`` that they were put into one by one."""
    names = list(keys)
    size = _LEAST_TABLE
    while len(names) * 4 > size * 3:
        size *= 2

    def bucket(name: str) -> int:
        code = string_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (size - 1)

    return sorted(names, key=bucket)


def _moment(milliseconds: int) -> str:
    """``Date.toString``."""
    days, rest = divmod(milliseconds, DAY_MS)
    number = days + _EPOCH
    year, month, day = _civil(number)
    seconds = rest // 1000
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{_DAYS[number % 7]} {_MONTHS[month - 1]} {day:02d} {clock} UTC {year}"


def _civil(number: int) -> tuple[int, int, int]:
    """Year, month and day of a Julian day number (Richards's algorithm)."""
    f = number + 1401
    if number >= _GREGORIAN:
        f += (4 * number + 274_277) // 146_097 * 3 // 4 - 38
    e = 4 * f + 3
    h = 5 * (e % 1461 // 4) + 2
    month = (h // 153 + 2) % 12 + 1
    return e // 1461 - 4716 + (14 - month) // 12, month, h % 153 // 5 + 1
