"""Keys as a signal names them: the cell of a text, and SQL that finds the row. Pure.

Texts are as the server writes them, in UTC; bytes are in hexadecimal, and a BIT is a whole number.
"""

import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, TypeVar

from tidings_capture.mysql.encoding.selected import (
    BYTES,
    GEOMETRIES,
    TEXTS,
    WHOLE,
    date_of_text,
    datetime_of_text,
    quoted,
    time_of_text,
)
from tidings_capture.mysql.incremental.chunk_query import text_literal
from tidings_capture.mysql.schemas.catalog import Column

_N = TypeVar("_N", float, Decimal)
_EXACT: Final = Context(prec=65, traps=[Inexact, InvalidOperation])
"""A DECIMAL has 65 digits at most."""
_SINGLE: Final = struct.Struct("<f")
_TIMES: Final[dict[str, Callable[[str], Any]]] = {
    "date": date_of_text,
    "datetime": datetime_of_text,
    "timestamp": datetime_of_text,
    "time": time_of_text,
}
_NOWHERE: Final = bytes(4) + struct.pack("<BI2d", 1, 1, 0.0, 0.0)
"""POINT(0 0)."""


def key_cell(column: Column, text: str) -> Any:
    """The cell of a key's text.

    Raises:
        LookupError: the text is not a value of the column; without the text.
    """
    try:
        return _cell(column, text)
    except (ValueError, ArithmeticError, struct.error):
        raise LookupError(f"a key of the signal has no {column.declared} for {column.name}") from None


def _cell(column: Column, text: str) -> Any:
    kind = column.type
    if kind in _TIMES:
        return _TIMES[kind](text)
    if kind in WHOLE or kind == "bit":
        return int(text)
    if kind == "decimal":
        return _finite(Decimal(text)).quantize(Decimal(1).scaleb(-(column.scale or 0)), context=_EXACT)
    if kind == "float" and "(" not in column.declared:
        (single,) = _SINGLE.unpack(_SINGLE.pack(_finite(float(text))))
        return single
    if kind in {"float", "double"}:
        return _finite(float(text))
    if kind in BYTES:
        return bytes.fromhex(text)
    if kind in TEXTS | {"json"}:
        return text
    raise ValueError("no key is of that type")


def _finite(number: _N) -> _N:
    if not math.isfinite(number):
        raise ValueError("MariaDB has no such number")
    return number


def equals(column: Column, text: str) -> str:
    """The condition that the column has the value of a key's text; it may hold for values that only compare as equal.

    Raises:
        LookupError: as of `key_cell`.
    """
    name, kind = quoted(column.name), column.type
    cell = key_cell(column, text)
    if kind in _TIMES:
        # A date that no calendar has is told as 1970-01-01 where the column takes no null.
        zero = f" OR {name} = 0" if kind != "time" and cell == 0 else ""
        return f"({name} = {text_literal(text)}{zero})"
    if kind in {"float", "double"}:
        shown = repr(cell)
        return f"{name} = {shown if 'e' in shown else f'{shown}e0'}"
    if kind in BYTES:
        return f"{name} = x'{cell.hex()}'"
    if kind in TEXTS | {"json"}:
        return f"{name} = {text_literal(cell)}"
    return f"{name} = {cell:f}" if kind == "decimal" else f"{name} = {cell}"


def absent_cell(column: Column) -> Any:
    """What stands in a deleted row for a value that nobody knows: null, or what Debezium has for a null that may not be one."""
    kind = column.type
    if column.nullable:
        return None
    if kind in _TIMES or kind in WHOLE or kind == "bit":
        return 0
    if kind in {"float", "double"}:
        return 0.0
    if kind == "decimal":
        return Decimal(0)
    if kind in GEOMETRIES:
        return _NOWHERE
    return b"" if kind in BYTES | {"vector"} else ""
