"""Which rows an erasure is about: tables and values as a person names them, turned into conditions on the tables' columns. No I/O.

A value is compared in every place of a log that has the column: the key, the row before and the row after. A column whose type
has changed has several columns in a table (``id``, ``id__string``); all of them are compared.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import types as st

from tidings_lakehouse.decoding.fills import literal
from tidings_lakehouse.decoding.text_records import KEY_TEXT, VALUE_TEXT
from tidings_lakehouse.errors import ErasureError
from tidings_lakehouse.tables.tables import ddl, quoted, safe_name, target_name

LOG_PARTS = ("key", "before", "after")
_PLACES_IN_TEXT = ((KEY_TEXT, "$"), (VALUE_TEXT, "$"), (VALUE_TEXT, "$.before"), (VALUE_TEXT, "$.after"))
"""Where a record that is kept as text may have a row's columns."""
_COMPARED = (
    st.BooleanType,
    st.ByteType,
    st.ShortType,
    st.IntegerType,
    st.LongType,
    st.DecimalType,
    st.StringType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)


@dataclass(frozen=True)
class Condition:
    """A column, or a field of one (``customer.id``), and its value as text."""

    column: str
    value: str
    is_key: bool = False
    """It is named as a part of the table's key."""

    @classmethod
    def of(cls, text: str, *, is_key: bool = False) -> Condition:
        """From ``column=value``.

        Raises:
            ErasureError: it is not.
        """
        column, equals, value = text.partition("=")
        if not equals or not column:
            option = "--key" if is_key else "--where"
            raise ErasureError(f"{option}: not column=value", hint=f"such as {option} customer_id=7")
        return cls(column, value, is_key)


@dataclass(frozen=True)
class Selection:
    """Rows of a table for which all conditions hold."""

    table: str
    """The current state's, or that of business events."""
    conditions: tuple[Condition, ...]

    @property
    def columns(self) -> str:
        """The columns that it names."""
        return ", ".join(one.column for one in self.conditions)

    def digest(self, salt: str) -> str:
        """SHA-256 of the salt, the table, the columns and their values: tells whose rows they were to who knows the values."""
        text = json.dumps([salt, self.table, sorted([one.column, one.value] for one in self.conditions)])
        return hashlib.sha256(text.encode()).hexdigest()


def check_key(selection: Selection, key: Iterable[str]) -> None:
    """See that conditions that are said to be the key are all of it.

    Raises:
        ErasureError: a column of the key is missing, or one is named that is not of the key.
    """
    named = {one.column for one in selection.conditions if one.is_key}
    columns = list(key)
    if named and named != set(columns):
        have = f"its key is {', '.join(columns)}" if columns else "it has no key"
        raise ErasureError(
            f"--key: {', '.join(sorted(named))} is not the key of {selection.table}",
            hint=f"{have}; name all columns of the key, or name any column with --where",
        )


def condition_on_log(selection: Selection, log: st.StructType) -> str:
    """The condition on rows of a log.

    Raises:
        ErasureError: it has no such column, or one that cannot be compared.
    """
    fields = {field.name: field.dataType for field in log.fields}
    parts = {part: type_ for part in LOG_PARTS if isinstance(type_ := fields.get(part), st.StructType)}
    found = [_all(selection.conditions, type_, (part,)) for part, type_ in parts.items()]
    wanted = [text for text in found if text is not None]
    if VALUE_TEXT in fields:
        wanted += [_all_in_text(selection.conditions, *place) for place in _PLACES_IN_TEXT]
    if not wanted:
        raise _no_column(selection, [name for type_ in parts.values() for name in type_.names])
    return " OR ".join(f"({text})" for text in wanted)


def condition_on_rows(selection: Selection, table: st.StructType) -> str:
    """The condition on rows of a current state, or of business events.

    Raises:
        ErasureError: it has no such column, or one that cannot be compared.
    """
    found = _all(selection.conditions, table, ())
    if found is None:
        raise _no_column(selection, table.names)
    return found


def _no_column(selection: Selection, names: Sequence[str]) -> ErasureError:
    return ErasureError(
        f"{selection.table} has no columns {selection.columns}",
        hint=f"its columns: {', '.join(sorted(set(names)))}",
    )


def _all(conditions: Iterable[Condition], struct: st.StructType, path: tuple[str, ...]) -> str | None:
    """That all conditions hold in a struct; None when it lacks a column."""
    found = []
    for one in conditions:
        columns = columns_of(struct, one.column, is_top=not path)
        if not columns:
            return None
        if not any(_can_be(one.value, type_) for _, type_ in columns):
            raise ErasureError(
                f"the value given for the column {one.column} is not a {columns[0][1].simpleString()}",
                hint="give it as SQL shows it",
            )
        found.append(" OR ".join(_equal((*path, *names), type_, one) for names, type_ in columns))
    return " AND ".join(f"({text})" for text in found)


def columns_of(
    struct: st.StructType, column: str, *, is_top: bool
) -> list[tuple[tuple[str, ...], st.DataType]]:
    """Where a struct has a column, with its types: several when its type has changed, none when it lacks it.

    Args:
        column: its name, or a path with dots into structs.
        is_top: the struct is the table itself, see `safe_name`.
    """
    fields = {field.name: field.dataType for field in struct.fields}
    name = safe_name(column) if is_top else column
    if name in fields:
        return [
            ((other,), type_)
            for other, type_ in fields.items()
            if other == name
            or (other.startswith(f"{name}__") and target_name({name: fields[name]}, name, type_) == other)
        ]
    outer, dot, inner = column.partition(".")
    type_of_outer = fields.get(outer)
    if dot and isinstance(type_of_outer, st.StructType):
        return [((outer, *path), type_) for path, type_ in columns_of(type_of_outer, inner, is_top=False)]
    return []


def _can_be(value: str, data_type: st.DataType) -> bool:
    try:
        if isinstance(data_type, st.IntegralType):
            int(value)
        elif isinstance(data_type, st.DecimalType):
            Decimal(value)
        elif isinstance(data_type, st.DateType | st.TimestampType | st.TimestampNTZType):
            dt.datetime.fromisoformat(value)
        elif isinstance(data_type, st.BooleanType):
            return value.lower() in {"true", "false"}
    except (ValueError, ArithmeticError):
        return False
    return True


def _all_in_text(conditions: Iterable[Condition], column: str, part: str) -> str:
    """That all conditions hold in a part of JSON that is kept as text; numbers are compared by their text."""
    tests = []
    for one in conditions:
        paths = {f"{part}['{name}']" for name in (one.column, "']['".join(one.column.split(".")))}
        value = literal(one.value, "string")
        tests.append(
            " OR ".join(
                f"get_json_object({column}, {literal(path, 'string')}) = {value}" for path in sorted(paths)
            )
        )
    return " AND ".join(f"({test})" for test in tests)


def _equal(path: Sequence[str], data_type: st.DataType, condition: Condition) -> str:
    if not isinstance(data_type, _COMPARED):
        raise ErasureError(
            f"the column {condition.column} is of the type {data_type.simpleString()}, which is not compared",
            hint="name a column with a number, a text, a date or a time",
        )
    name = ".".join(quoted(part) for part in path)
    return f"{name} = try_cast({literal(condition.value, 'string')} AS {ddl(data_type)})"
