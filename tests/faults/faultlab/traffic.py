"""Traffic: transactions of all kinds, some of them beside each other, through crashes of the server.

Seeded. Every change writes a value that no change has written before, larger than those before it of the same row.
"""

import itertools
import random
from typing import Any

import psycopg

from faultlab.history import ADDED
from faultlab.writers import THREADS, Writers

KEYS = 400
_ALTERS = 0.03
"""How many transactions begin with one, where some do."""


class Traffic(Writers):
    """Writes to the tables a, b and elsewhere until its `with` ends.

    Args:
        alters: some transactions alter a table before they write rows.
    """

    def __init__(self, url: str, seed: int, *, pause: float = 0.02, alters: bool = False) -> None:
        super().__init__(url, seed, pause=pause)
        self._alters = alters
        self._versions = itertools.count(1)

    def transaction(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        if self._alters and chance.random() < _ALTERS:
            self._alter(connection, chance)
        kind = chance.random()
        if kind < 0.01:
            self._many(connection, number, chance)
        else:
            for _ in range(chance.randint(1, 8)):
                self._change(connection, number, chance)
            if kind < 0.05:
                self._stop.wait(0.05)  # others are committed within it
                self._change(connection, number, chance)
            elif kind < 0.10:
                with connection.transaction(force_rollback=True):
                    self._change(connection, number, chance)
                self._change(connection, number, chance)
        if 0.10 < kind < 0.13:
            connection.rollback()
        else:
            connection.commit()

    def _change(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        table = chance.choice(("a", "a", "b", "b", "elsewhere"))
        key = chance.randrange(KEYS) * THREADS + number
        kind, version = chance.random(), next(self._versions)
        if kind < 0.2:
            connection.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
        elif kind < 0.25:
            # To the other half of the keys and back again, each of which is this thread's alone.
            other = key + KEYS * THREADS
            connection.execute(f"DELETE FROM {table} WHERE id = %s", (other,))
            connection.execute(f"UPDATE {table} SET id = %s, v = %s WHERE id = %s", (other, version, key))
        else:
            connection.execute(
                f"INSERT INTO {table} VALUES (%(k)s, %(v)s, %(p)s)"
                " ON CONFLICT (id) DO UPDATE SET v = %(v)s, pad = %(p)s",
                {"k": key, "v": version, "p": "x" * chance.randint(0, 300)},
            )

    def _alter(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        """A column of numbers that nobody writes to comes, goes, or gets another name or type: its default tells it."""
        table, number = chance.choice(("a", "b")), next(self._versions)
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attname LIKE %s AND attnum > 0 AND NOT attisdropped",
            (table, f"{ADDED}%"),
        ).fetchall()
        column = chance.choice(found)[0] if found else None
        what = chance.choice(("ADD", "ADD", "DROP", "RENAME", "TYPE", "IDENTITY"))
        if what == "IDENTITY" and table == "a":
            change = f"REPLICA IDENTITY {chance.choice(('FULL', 'DEFAULT'))}"
        elif column is None or what in {"ADD", "IDENTITY"}:
            change = f"ADD {ADDED}{number} int {chance.choice(('', 'NOT NULL '))}DEFAULT {number}"
        elif what == "DROP":
            change = f"DROP {column}"
        elif what == "RENAME":
            change = f"RENAME {column} TO {ADDED}{number}"
        else:
            kind = chance.choice(("bigint", "text"))
            same = f"ALTER {column}"
            change = f"{same} DROP DEFAULT, {same} DROP NOT NULL, {same} TYPE {kind} USING {column}::{kind}"
        connection.execute(f"ALTER TABLE {table} {change}")

    def _many(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        rows = chance.randint(300, 2000)
        first = next(self._versions)
        for _ in range(rows):
            next(self._versions)  # none of them is given to anybody else
        connection.execute(
            f"INSERT INTO {chance.choice(('a', 'b'))}"
            f" SELECT 10000 + i * {THREADS} + {number}, {first} + i, 'many' FROM generate_series(1, {rows}) i"
            " ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        )
