"""SQL of an incremental snapshot's chunks: the next rows by key, and a table's largest key. Pure.

A key's columns come as text that the server has written, bytes in hexadecimal and labels by their numbers, since that is what
they are ordered by; they go back as literals of their type: a number that is compared with a text would lose digits.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.incremental.state import Key
from tidings_capture.mysql.encoding.selected import BYTES, WHOLE, expression, quoted
from tidings_capture.mysql.schemas.catalog import Column, Table

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_FLOAT: Final = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_HEX: Final = re.compile(r"([0-9A-F]{2})*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that chunks go by."""

    compared: str
    """SQL by which rows are ordered and compared."""
    shown: str
    """SQL of its text."""
    literal: Callable[[str], str]
    """SQL of a text that `shown` gave; raises ValueError for others."""
    nullable: bool


def key_column(column: Column) -> KeyColumn:
    """How a column is ordered, read and compared."""
    name = quoted(column.name)
    if column.type in {"enum", "set", "bit"}:
        number = f"({name} + 0)"
        return KeyColumn(number, number, _checked(_NUMBER, "{}"), column.nullable)
    if column.type in WHOLE | {"decimal"}:
        return KeyColumn(name, name, _checked(_NUMBER, "{}"), column.nullable)
    if column.type in {"float", "double"}:
        return KeyColumn(name, expression(column), _floating, column.nullable)
    if column.type in BYTES:
        return KeyColumn(name, f"HEX({name})", _checked(_HEX, "x'{}'"), column.nullable)
    return KeyColumn(name, name, text_literal, column.nullable)


def _checked(pattern: re.Pattern[str], form: str) -> Callable[[str], str]:
    def literal(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError("a stored key is not of its column's type")
        return form.format(text)

    return literal


def _floating(text: str) -> str:
    if not _FLOAT.fullmatch(text):
        raise ValueError("a stored key is not of its column's type")
    return text if "e" in text.lower() else f"{text}e0"


def text_literal(text: str) -> str:
    """SQL of a text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def chunk_query(
    table: Table, columns: Sequence[Column], condition: str, after: Key | None, maximum: Key | None, rows: int
) -> str:
    """The next rows, at most `rows`: the cells of all columns, and behind them the key's texts."""
    keys = [key_column(column) for column in columns]
    conditions = [f"({condition})"] if condition else []
    if after is not None:
        conditions.append(_beyond(keys, after))
        if maximum is not None:
            conditions.append(_at_most(keys, maximum))
    selected = ", ".join([*(expression(column) for column in table.columns), *(key.shown for key in keys)])
    order = ", ".join(key.compared for key in keys)
    return f"SELECT {selected} FROM {_name(table)}{_where(conditions)} ORDER BY {order} LIMIT {rows}"  # noqa: S608


def maximum_query(table: Table, columns: Sequence[Column], condition: str) -> str:
    """The largest key: one row, none for an empty table."""
    keys = [key_column(column) for column in columns]
    selected = ", ".join(key.shown for key in keys)
    order = ", ".join(f"{key.compared} DESC" for key in keys)
    where = _where([f"({condition})"] if condition else [])
    return f"SELECT {selected} FROM {_name(table)}{where} ORDER BY {order} LIMIT 1"  # noqa: S608


def _beyond(keys: Sequence[KeyColumn], values: Key) -> str:
    """Rows whose key is larger; nulls are smaller than everything, as ORDER BY has them."""
    alternatives = []
    for place, (key, value) in enumerate(zip(keys, values, strict=True)):
        larger = f"{key.compared} IS NOT NULL" if value is None else f"{key.compared} > {key.literal(value)}"
        alternatives.append(_and([*_equal(keys[:place], values[:place]), larger]))
    beyond = " OR ".join(alternatives)
    first, value = keys[0], values[0]
    if len(keys) > 1 and value is not None:  # so that an index is searched, and not read from its beginning
        return f"({first.compared} >= {first.literal(value)} AND ({beyond}))"
    return f"({beyond})"


def _at_most(keys: Sequence[KeyColumn], values: Key) -> str:
    """Rows whose key is not larger."""
    alternatives = [_and(_equal(keys, values))]
    for place, (key, value) in enumerate(zip(keys, values, strict=True)):
        if value is None:
            continue  # nothing is smaller than null
        smaller = f"{key.compared} < {key.literal(value)}"
        if key.nullable:
            smaller = f"({smaller} OR {key.compared} IS NULL)"
        alternatives.append(_and([*_equal(keys[:place], values[:place]), smaller]))
    return f"({' OR '.join(alternatives)})"


def _equal(keys: Sequence[KeyColumn], values: Key) -> list[str]:
    return [
        f"{key.compared} IS NULL" if value is None else f"{key.compared} = {key.literal(value)}"
        for key, value in zip(keys, values, strict=True)
    ]


def _and(terms: Sequence[str]) -> str:
    return f"({' AND '.join(terms)})"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _name(table: Table) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def look_up_query(table: Table, condition: str) -> str:
    """The cells of all columns of the rows that a condition holds for."""
    selected = ", ".join(expression(column) for column in table.columns)
    return f"SELECT {selected} FROM {_name(table)} WHERE {condition}"  # noqa: S608
