"""What really happened in a database, told by somebody else than capture.

PostgreSQL's own plugin test_decoding, on a slot of its own that nobody reads before the end, gives every committed change in
commit order. Events are what Debezium makes of a change: one, or a delete and a create when the key changes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from faultlab.omissions import NONE, Omissions

TABLES = ("a", "b")
"""The captured tables; `elsewhere` is not captured."""
SIGNALS = "signals"
"""Captured where a connector has it as ``signal.data.collection``; its own marks of a window are in it, too."""
ADDED = "x"
"""What the names of columns begin with that come and go."""
_CHANGE = re.compile(r"table public\.(\w+): (INSERT|UPDATE|DELETE): (.*)", re.DOTALL)
_CELL = re.compile(r"(\w+)\[[^\]]+\]:('(?:[^']|'')*'|\S+)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event that has to be on a table's topic."""

    table: str
    txid: str
    total_order: int
    table_order: int
    op: str
    key: int
    version: int | None
    """Column v after the change; None for a delete. No two changes write the same."""
    end_lsn: int
    """Where its transaction's commit record ends."""
    left_out: str = ""
    """``filtered`` or ``failed``: it is counted, and is not there."""
    added: dict[str, str | None] = field(default_factory=dict)
    """After the change: the columns that come and go, as they were called then, with their values as text."""
    spoils: tuple[int, ...] = ()
    """Keys whose rows a reader of the topic does not know any more."""


@dataclass(slots=True)
class Transaction:
    """A committed transaction that changed a captured table, or the signal table: then it has no events here."""

    txid: str
    end_lsn: int = 0
    events: list[Event] = field(default_factory=list)


def added_columns(row: Mapping[str, Any] | None) -> dict[str, str | None]:
    """What a row has in the columns that come and go, as text."""
    return {n: None if v is None else str(v) for n, v in (row or {}).items() if n.startswith(ADDED)}


def create_tables(url: str, slot: str, rows: int, omissions: Omissions = NONE) -> None:
    """Make the tables, `rows` of them in a, and from then on remember what happens."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in (*TABLES, "elsewhere"):
            connection.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL, pad text NOT NULL DEFAULT '')"
            )
        connection.execute("CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32), data text)")
        connection.execute("ALTER TABLE b REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO a SELECT i, 0 FROM generate_series(1000001, 1000000 + %s) i", (rows,))
        for statement in omissions.statements(TABLES):
            connection.execute(statement)
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (slot,))


def read_history(url: str, slot: str, omissions: Omissions = NONE) -> list[Transaction]:
    """All transactions since `create_tables`, in commit order."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT (lsn - '0/0')::int8, data FROM"
            " pg_logical_slot_peek_changes(%s, NULL, NULL, 'include-xids', '1', 'skip-empty-xacts', '1')",
            (slot,),
        ).fetchall()
    return parse_history(rows, omissions)


def parse_history(rows: list[tuple[int, str]], omissions: Omissions = NONE) -> list[Transaction]:
    """Transactions from test_decoding's lines, each with its LSN."""
    found: list[Transaction] = []
    current, counts = Transaction(""), dict.fromkeys(TABLES, 0)
    changes: list[tuple[str, str, str]] = []
    for lsn, line in rows:
        if line.startswith("BEGIN"):
            current, changes = Transaction(line.split()[1]), []
        elif line.startswith("COMMIT"):
            current.end_lsn = lsn
            signals = any(table == SIGNALS for table, _, _ in changes)
            counts = dict.fromkeys(TABLES, 0)
            for change in changes:
                if change[0] in TABLES:
                    _add(current, counts, omissions, *change)
            if current.events or signals:
                found.append(current)
        elif (match := _CHANGE.match(line)) and match[1] in (*TABLES, SIGNALS):
            changes.append((match[1], match[2], match[3]))
    return found


def _add(
    transaction: Transaction,
    counts: dict[str, int],
    omissions: Omissions,
    table: str,
    kind: str,
    cells: str,
) -> None:
    old, _, new = cells.rpartition("new-tuple: ")
    after = dict(_CELL.findall(new))
    before = dict(_CELL.findall(old)) or after
    key, former = int(after["id"]), int(before["id"])
    has_old = "v" in (after if kind == "DELETE" else dict(_CELL.findall(old)))
    added = {n: None if v == "null" else v.strip("'") for n, v in after.items() if n.startswith(ADDED)}

    def event(op: str, key: int, version: int | None, *, converted: bool = True) -> None:
        counts[table] += 1
        transaction.events.append(
            Event(
                table,
                transaction.txid,
                len(transaction.events) + 1,
                counts[table],
                op,
                key,
                version,
                transaction.end_lsn,
                omissions.by_transform(key) if converted else "failed",
                added if version is not None else {},
                () if converted else (key, former),
            )
        )

    if omissions.unconvertible(kind, key, former, has_old=has_old):
        event("?", key, None, converted=False)
        return
    match kind:
        case "DELETE":
            event("d", key, None)
        case "UPDATE" if key != former:
            event("d", former, None)
            event("c", key, int(after["v"]))
        case _:
            event("c" if kind == "INSERT" else "u", key, int(after["v"]))


def final_rows(url: str) -> dict[str, dict[int, int]]:
    """The tables as they are: key to v."""
    with psycopg.connect(url) as connection:
        return {
            table: dict(connection.execute(f"SELECT id, v FROM {table}").fetchall())  # type: ignore[arg-type]
            for table in TABLES
        }


def confirmed_lsn(url: str, slot: str) -> int:
    """Up to where a slot has been confirmed; 0 without the slot."""
    with psycopg.connect(url) as connection:
        row: Any = connection.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = %s",
            (slot,),
        ).fetchone()
    return row[0] or 0 if row else 0
