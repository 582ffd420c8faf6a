"""The audited database: reads ranges of a table's key, each in a statement of its own, with a time limit and a pause.

It may be a replica: nothing is written, no lock is held between statements, and no snapshot lives longer than one of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidings_lakehouse.auditing.columns import INTEGERS, AuditColumn, postgres_checksum
from tidings_lakehouse.database import Connection, literal, rows, sql_text

_COLUMNS = """
SELECT a.attname, t.typname, t.typtype = 'e' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_POSITION = (
    "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
    " - '0/0')::bigint"
)
_WRAP = 1 << 32
Key = tuple[str, ...]
"""A key's values, as they are compared."""


@dataclass(frozen=True)
class Visible:
    """Which transactions a snapshot sees, by `pg_current_snapshot`."""

    least: int
    next: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Visible:
        """From ``xmin:xmax:xip,...`` (PostgreSQL documentation, "pg_snapshot Components")."""
        least, following, running = text.split(":")
        return cls(int(least), int(following), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, tx_id: int) -> bool:
        """Whether a transaction is in the snapshot; `tx_id` is the lower half, as replication has it."""
        whole = self.next - self.next % _WRAP + tx_id % _WRAP
        if whole >= self.next + _WRAP // 2:
            whole -= _WRAP
        return whole < self.next and whole not in self.running


@dataclass(frozen=True)
class Range:
    """Keys behind `after`, up to and with `up_to`, by the first column of the key; None: no bound."""

    after: Any
    up_to: Any


@dataclass(frozen=True)
class AuditTable:
    """A table and how it is compared."""

    lake: str
    """``technical.orders``."""
    collection: str
    """``public.orders``."""
    source: str
    """As a statement of PostgreSQL's names it."""
    keys: tuple[AuditColumn, ...]
    columns: tuple[AuditColumn, ...]
    has_ranges: bool
    """Whether both sides order the first column of the key alike."""
    skipped: tuple[str, ...]
    """Columns that are not compared."""

    def named(self, key: Key) -> dict[str, str]:
        """A key's values by column, as the database would write them."""
        return {column.name: column.written(text) for column, text in zip(self.keys, key, strict=True)}


def columns_of(database: Connection, table: str) -> dict[str, tuple[str, bool]]:
    """Column to type and whether that is an enum; empty when there is no such table."""
    return {row[0]: (row[1], row[2]) for row in rows(database, _COLUMNS, [table])}


def orders_alike(type_: str) -> bool:
    """Whether both sides order a key of a type alike: integers, and text by its bytes."""
    return type_ in INTEGERS or type_ in {"text", "varchar", "uuid"}


class Source:
    """Reads of one database.

    Args:
        pause: seconds between two statements.
        timeout: seconds after which a statement is given up.
    """

    def __init__(self, database: Connection, *, pause: float, timeout: float) -> None:
        self._database = database
        self._pause = pause
        rows(database, "SELECT set_config('statement_timeout', %s, false)", [str(int(timeout * 1000))])
        rows(database, "SELECT set_config('TimeZone', 'UTC', false)")
        rows(database, "SELECT set_config('extra_float_digits', '1', false)")

    def ranges(self, table: AuditTable, size: int) -> Iterator[tuple[Range, int, int]]:
        """Ranges of about `size` rows, each with count and checksum."""
        after = None
        while True:
            up_to = self._bound(table, after, size) if table.has_ranges else None
            one = Range(after, up_to)
            (found,) = self._read(
                f"SELECT count(*), coalesce(sum({postgres_checksum(table.columns)}), 0) FROM {table.source}"  # noqa: S608 - quoted names and literals
                f" WHERE {_within(table, one)}"
            )
            yield one, int(found[0]), int(found[1])
            if up_to is None:
                return
            after = up_to

    def rows_in(self, table: AuditTable, one: Range) -> dict[tuple[str, ...], int]:
        """Checksum by the key's text, of a range."""
        return self._rows(table, _within(table, one))

    def look(
        self, table: AuditTable, keys: Sequence[tuple[str, ...]]
    ) -> tuple[Visible, dict[tuple[str, ...], int], int]:
        """The snapshot, these rows in it, and a position behind it."""
        with self._database.transaction():
            visible = Visible.of(rows(self._database, "SELECT pg_current_snapshot()::text")[0][0])
            found = self._rows(table, _among(table, keys))
        return visible, found, int(rows(self._database, _POSITION)[0][0])

    def values(self, table: AuditTable, key: tuple[str, ...]) -> tuple[str | None, ...] | None:
        """The texts of a row's values; None when there is no such row."""
        texts = ", ".join(column.postgres_text for column in table.columns)
        found = self._read(f"SELECT {texts} FROM {table.source} WHERE {_among(table, [key])}")  # noqa: S608
        return tuple(found[0]) if found else None

    def _rows(self, table: AuditTable, where: str) -> dict[tuple[str, ...], int]:
        keys = ", ".join(column.postgres_text for column in table.keys)
        found = self._read(
            f"SELECT {postgres_checksum(table.columns)}, {keys} FROM {table.source} WHERE {where}"  # noqa: S608
        )
        return {tuple(row[1:]): int(row[0]) for row in found}

    def _bound(self, table: AuditTable, after: Any, size: int) -> Any:
        key = _ordered(table)
        found = self._read(
            f"SELECT {key} FROM {table.source} WHERE {_within(table, Range(after, None))}"  # noqa: S608
            f" ORDER BY {key} OFFSET {size - 1} LIMIT 1"
        )
        return None if not found else found[0][0]

    def _read(self, statement: str) -> list[tuple[Any, ...]]:
        time.sleep(self._pause)
        return rows(self._database, sql_text(statement))


def _ordered(table: AuditTable) -> str:
    column = table.keys[0]
    name = '"' + column.name.replace('"', '""') + '"'
    return (
        name
        if column.postgres_text.endswith("::text") and not is_text(column)
        else f'{name}::text COLLATE "C"'
    )


def is_text(column: AuditColumn) -> bool:
    """Whether a column is text in the lake."""
    return column.lake_text == '"' + column.lake.replace('"', '""') + '"'


def _within(table: AuditTable, one: Range) -> str:
    key = _ordered(table)
    parts = ["true"]
    if one.after is not None:
        parts.append(f"{key} > {literal(one.after)}")
    if one.up_to is not None:
        parts.append(f"{key} <= {literal(one.up_to)}")
    return " AND ".join(parts)


def _among(table: AuditTable, keys: Sequence[tuple[str, ...]]) -> str:
    columns = ", ".join(column.postgres_text for column in table.keys)
    values = ", ".join("(" + ", ".join(literal(part) for part in key) + ")" for key in keys)
    if len(table.keys) == 1 and not is_text(table.keys[0]) and table.has_ranges:  # so that the index is used
        name = '"' + table.keys[0].name.replace('"', '""') + '"'
        return f"{name} IN ({', '.join(str(int(key[0])) for key in keys)})"
    return f"({columns}) IN ({values})"
