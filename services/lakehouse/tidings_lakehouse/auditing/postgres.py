"""PostgreSQL, as an audit reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidings_lakehouse.auditing.columns import AuditColumn
from tidings_lakehouse.auditing.postgres_columns import PostgresColumn, postgres_checksum
from tidings_lakehouse.auditing.source import Row, Sees, T
from tidings_lakehouse.database import Connection, hold, identifier, literal, rows, sql_text

_COLUMNS = """
SELECT a.attname, t.typname, t.typtype = 'e' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_POSITION = (
    "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
    " - '0/0')::bigint"
)
_WRAP = 1 << 32


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


class PostgresServer:
    """See `Server`."""

    digest = "md5"

    def __init__(self, database: Connection, *, timeout: float) -> None:
        self._database = database
        rows(database, "SELECT set_config('statement_timeout', %s, false)", [str(int(timeout * 1000))])
        rows(database, "SELECT set_config('TimeZone', 'UTC', false)")
        rows(database, "SELECT set_config('extra_float_digits', '1', false)")

    def columns(self, schema: str, table: str) -> dict[str, PostgresColumn]:
        """See `Server`."""
        found = rows(self._database, _COLUMNS, [self.name(schema, table)])
        return {name: PostgresColumn(name, type_, is_enum) for name, type_, is_enum in found}

    def name(self, schema: str, table: str) -> str:
        """See `Server`."""
        return f"{identifier(schema)}.{identifier(table)}"

    def literal(self, value: Any) -> str:
        """See `Server`."""
        return literal(value)

    def checksum(self, columns: Sequence[AuditColumn]) -> str:
        """See `Server`."""
        return postgres_checksum(columns)

    def read(self, statement: str) -> list[Row]:
        """See `Server`."""
        return rows(self._database, sql_text(statement))

    def in_snapshot(self, table: str, look: Callable[[], T]) -> tuple[Sees, T, int]:
        """See `Server`."""
        with self._database.transaction():
            # Before the snapshot: to an older one, a table that ALTER TABLE has written anew looks empty.
            hold(self._database, table)
            visible = Visible.of(rows(self._database, "SELECT pg_current_snapshot()::text")[0][0])
            found = look()
        return visible.sees, found, int(rows(self._database, _POSITION)[0][0])
