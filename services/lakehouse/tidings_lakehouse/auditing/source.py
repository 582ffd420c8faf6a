"""The audited database: reads ranges of a table's key, each in a statement of its own, with a time limit and a pause.

It may be a replica: nothing is written, no lock is held between statements, and no snapshot lives longer than one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidings_lakehouse.auditing.columns import AuditColumn, SourceColumn

T = TypeVar("T")
Row = tuple[Any, ...]
Key = tuple[str, ...]
"""A key's values, as they are compared."""
Sees = Callable[[int], bool]
"""Whether a transaction is in a snapshot, by the `tx_id` that the log has of it."""


class Server(Protocol):
    """One kind of database. It writes values as `lake_checksum` has them.

    Raises (everything):
        DatabaseError: it does not answer, or refuses; holds no value of a row.
    """

    @property
    def digest(self) -> str:
        """DuckDB's name of the digest that a row's checksum is of: ``md5`` or ``sha256``."""
        ...

    def columns(self, schema: str, table: str) -> Mapping[str, SourceColumn]:
        """The columns of a table; none when there is no such table that the user may read."""
        ...

    def name(self, schema: str, table: str) -> str:
        """A table, as a statement names it."""
        ...

    def literal(self, value: Any) -> str:
        """A number or a text, as a statement has it."""
        ...

    def checksum(self, columns: Sequence[AuditColumn]) -> str:
        """SQL of a row's checksum."""
        ...

    def read(self, statement: str) -> list[Row]:
        """What a statement gives."""
        ...

    def in_snapshot(self, table: str, look: Callable[[], T]) -> tuple[Sees, T, int]:
        """What is read of a table in one snapshot, the transactions that it sees, and a position not before the last of them.

        Args:
            table: as a statement names it.

        Raises:
            AuditError: the server's commits have no position.
        """
        ...


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
    """As a statement of the database names it."""
    keys: tuple[AuditColumn, ...]
    columns: tuple[AuditColumn, ...]
    skipped: tuple[str, ...]
    """Columns that are not compared."""
    digest: str
    """See `Server`."""

    @property
    def is_by_number(self) -> bool:
        """Whether its key is one whole number."""
        return len(self.keys) == 1 and self.keys[0].is_whole

    def named(self, key: Key) -> dict[str, str]:
        """A key's values by column, as the database would write them."""
        return {column.name: column.written(text) for column, text in zip(self.keys, key, strict=True)}


class Source:
    """Reads of one database.

    Args:
        pause: seconds between two statements.
    """

    def __init__(self, server: Server, *, pause: float) -> None:
        self.server = server
        self._pause = pause

    def ranges(self, table: AuditTable, size: int) -> Iterator[tuple[Range, int, int]]:
        """Ranges of about `size` rows, each with count and checksum."""
        after = None
        while True:
            up_to = self._bound(table, after, size)
            one = Range(after, up_to)
            (found,) = self._read(
                f"SELECT count(*), coalesce(sum({self.server.checksum(table.columns)}), 0) FROM {table.source}"  # noqa: S608 - quoted names and literals
                f" WHERE {self._within(table, one)}"
            )
            yield one, int(found[0]), int(found[1])
            if up_to is None:
                return
            after = up_to

    def rows_in(self, table: AuditTable, one: Range) -> dict[Key, int]:
        """Checksum by the key's text, of a range."""
        return self._rows(table, self._within(table, one))

    def look(self, table: AuditTable, keys: Sequence[Key]) -> tuple[Sees, dict[Key, int], int]:
        """What a snapshot sees, these rows in it, and a position behind it."""
        return self.server.in_snapshot(table.source, lambda: self._rows(table, self._among(table, keys)))

    def values(self, table: AuditTable, key: Key) -> tuple[str | None, ...] | None:
        """The texts of a row's values; None when there is no such row."""
        texts = ", ".join(column.source_text for column in table.columns)
        found = self._read(f"SELECT {texts} FROM {table.source} WHERE {self._among(table, [key])}")  # noqa: S608
        return tuple(found[0]) if found else None

    def _rows(self, table: AuditTable, where: str) -> dict[Key, int]:
        keys = ", ".join(column.source_text for column in table.keys)
        checksum = self.server.checksum(table.columns)
        found = self._read(f"SELECT {checksum}, {keys} FROM {table.source} WHERE {where}")  # noqa: S608
        return {tuple(row[1:]): int(row[0]) for row in found}

    def _bound(self, table: AuditTable, after: Any, size: int) -> Any:
        key = table.keys[0].ordered
        if key is None:
            return None
        found = self._read(
            f"SELECT {key} FROM {table.source} WHERE {self._within(table, Range(after, None))}"  # noqa: S608
            f" ORDER BY {key} LIMIT 1 OFFSET {size - 1}"
        )
        if not found:
            return None
        return int(found[0][0]) if table.keys[0].is_whole else found[0][0]

    def _within(self, table: AuditTable, one: Range) -> str:
        key = table.keys[0].ordered
        parts = ["true"]
        if one.after is not None:
            parts.append(f"{key} > {self.server.literal(one.after)}")
        if one.up_to is not None:
            parts.append(f"{key} <= {self.server.literal(one.up_to)}")
        return " AND ".join(parts)

    def _among(self, table: AuditTable, keys: Sequence[Key]) -> str:
        if table.is_by_number:  # so that the index is used
            return f"{table.keys[0].ordered} IN ({', '.join(str(int(key[0])) for key in keys)})"
        columns = ", ".join(column.source_text for column in table.keys)
        values = ", ".join("(" + ", ".join(map(self.server.literal, key)) + ")" for key in keys)
        return f"({columns}) IN ({values})"

    def _read(self, statement: str) -> list[Row]:
        time.sleep(self._pause)
        return self.server.read(statement)
