"""Which tables and columns a connector captures: Debezium's include and exclude lists.

A list is separated by commas (``\\,`` is a comma in an expression); each entry is a regular expression that must match
the whole name, ``schema.table`` or ``schema.table.column``, in any case. The expressions are Java's. Pure.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tidings_connect.java.regex import JavaPattern, compile_java

_SEPARATOR: Final = re.compile(r"(?<!\\),")
_LITERAL: Final = re.compile(r"(?:\w|\\?\.|\\?\$|-)+")
_KEY_ENTRY: Final = re.compile(r"\s*([^:]+):([^:,]+(?:,[^:,]+)*)\s*")
_SYSTEM_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema", "pg_toast"})


def compile_list(text: str) -> tuple[JavaPattern, ...]:
    """The patterns of a list.

    Raises:
        ValueError: an entry is not a regular expression.
    """
    entries = [entry.strip().replace("\\,", ",") for entry in _SEPARATOR.split(text)]
    try:
        return tuple(compile_java(entry, re.IGNORECASE) for entry in entries if entry)
    except ValueError as error:
        raise ValueError(f"not a regular expression: {error}") from error


def matches(patterns: Iterable[JavaPattern], name: str) -> bool:
    """Whether any pattern matches the whole name."""
    return any(pattern.matches(name) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class TableFilter:
    """The four lists that choose tables; the same list never includes and excludes."""

    schema_include: tuple[JavaPattern, ...] = ()
    schema_exclude: tuple[JavaPattern, ...] = ()
    table_include: tuple[JavaPattern, ...] = ()
    table_exclude: tuple[JavaPattern, ...] = ()
    signal_table: tuple[str, str] | None = None
    """``signal.data.collection``, which is captured whatever the lists say."""

    def captures(self, schema: str, table: str) -> bool:
        """Whether changes of a table are captured."""
        name = f"{schema}.{table}"
        if (schema, table) == self.signal_table:
            return True
        if not self.captures_schema(schema):
            return False
        if self.table_include:
            return matches(self.table_include, name)
        return not matches(self.table_exclude, name)

    def captures_schema(self, schema: str) -> bool:
        """Whether tables of a schema, or a database where tables have no schemas, may be captured."""
        if schema in _SYSTEM_SCHEMAS or schema.startswith("pg_temp"):
            return False
        if self.schema_include and not matches(self.schema_include, schema):
            return False
        return not (self.schema_exclude and matches(self.schema_exclude, schema))

    def is_open(self) -> bool:
        """Whether no list is set at all."""
        return not (self.schema_include or self.schema_exclude or self.table_include or self.table_exclude)

    def order(self, tables: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Tables in the order of a snapshot: as ``table.include.list`` names them, else by name."""

        def rank(table: tuple[str, str]) -> tuple[int, str, str]:
            name = f"{table[0]}.{table[1]}"
            place = next((i for i, p in enumerate(self.table_include) if p.matches(name)), 0)
            return place, *table

        return sorted(tables, key=rank)

    def missing(self, tables: Iterable[tuple[str, str]]) -> list[str]:
        """Entries of ``table.include.list`` that are plain names and name none of `tables`."""
        names = [f"{schema}.{table}" for schema, table in tables]
        return [
            pattern.pattern.replace("\\", "")
            for pattern in self.table_include
            if _LITERAL.fullmatch(pattern.pattern) and not any(pattern.matches(name) for name in names)
        ]


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """``message.prefix.include.list`` and ``message.prefix.exclude.list``: which logical messages are captured."""

    include: tuple[JavaPattern, ...] = ()
    exclude: tuple[JavaPattern, ...] = ()

    def captures(self, prefix: str) -> bool:
        """Whether messages of a prefix are captured."""
        return matches(self.include, prefix) if self.include else not matches(self.exclude, prefix)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """``message.key.columns``: the columns that make the keys of tables, instead of the primary key's."""

    columns: tuple[JavaPattern, ...] = ()
    """Each matches columns as ``schema.table.column``; a key has them in this order."""

    def key(self, schema: str, table: str, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns of a table's key; empty where the option does not speak of the table."""
        names = tuple(columns) if self.columns else ()
        found = [name for p in self.columns for name in names if p.matches(f"{schema}.{table}.{name}")]
        return tuple(dict.fromkeys(found))


def compile_keys(text: str) -> KeyColumns:
    """``message.key.columns``: ``table:column,column;table:column``, tables and columns being regular expressions.

    Raises:
        ValueError: the text is not of this form.
    """
    entries = [entry for entry in text.split(";") if entry.strip()]
    found: list[JavaPattern] = []
    for entry in entries:
        if (match := _KEY_ENTRY.fullmatch(entry)) is None:
            raise ValueError("not of the form <table>:<column>,<column>;<table>:<column>")
        for column in match[2].split(","):
            found += compile_list(f"{match[1]}.{column.strip()}")
    return KeyColumns(tuple(found))


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """``column.include.list`` and ``column.exclude.list``."""

    include: tuple[JavaPattern, ...] = ()
    exclude: tuple[JavaPattern, ...] = ()

    def excluded(self, schema: str, table: str, columns: Iterable[str]) -> frozenset[str]:
        """The columns that are left out of values."""
        if not (self.include or self.exclude):
            return frozenset()
        drop: Callable[[str], bool]
        if self.include:
            drop = lambda name: not matches(self.include, name)  # noqa: E731 - two halves of one choice
        else:
            drop = lambda name: matches(self.exclude, name)  # noqa: E731
        return frozenset(column for column in columns if drop(f"{schema}.{table}.{column}"))
