"""Random writers of a query source's tables, also such as every mode overlooks: late commits, changes without a new timestamp,
deletes, rows that come back, keys that become others."""

import contextlib
import random
import threading
from typing import Any, Self

from querylab.database import GONE, TABLES, Database


class Traffic:
    """Transactions over the tables, in a thread of its own; a server that is away is tried again."""

    def __init__(self, database: Database, name: str, seed: int) -> None:
        self._database, self._name, self._random = database, name, random.Random(f"traffic {seed}")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._late: list[Any] = []
        self._connection: Any = None
        self.transactions = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        while self._late:
            self._commit_late()
        self._disconnect()

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            try:
                if self._connection is None:
                    self._connection = self._database.connect(self._name)
                self._write(self._connection.cursor())
                self.transactions += 1
            except GONE:
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*GONE):
                connection.close()

    def _write(self, cursor: Any) -> None:
        chance, table = self._random, self._random.choice(TABLES)
        n = self.transactions + 1
        kind = chance.choice(
            ("insert", "insert", "several", "update", "quiet", "delete", "back", "late", "commit")
        )
        cursor.execute(f"SELECT id FROM {table}")
        keys = [key for (key,) in cursor.fetchall()]
        key = chance.choice(keys or [0])
        if kind == "late" and self._database.late_writers and len(self._late) < 3:
            self._begin_late(table, n)
        elif kind == "commit" and self._late:
            self._commit_late()
        elif kind == "update":
            cursor.execute(f"UPDATE {table} SET n = {n}, updated = {self._database.now} WHERE id = {key}")
        elif kind == "quiet":
            cursor.execute(f"UPDATE {table} SET n = {n} WHERE id = {key}")
        elif kind == "delete" and len(keys) > 5:
            chosen = ", ".join(map(str, chance.sample(keys, 3)))
            cursor.execute(f"DELETE FROM {table} WHERE id IN ({chosen})")
        elif kind == "back" and keys:
            cursor.execute(f"DELETE FROM {table} WHERE id = {key}")
            cursor.execute(f"INSERT INTO {table} (id, n, note) VALUES ({key}, {n}, 'back')")
        else:
            rows = ", ".join([f"({n}, '{kind}')"] * (chance.randint(1, 12) if kind == "several" else 1))
            cursor.execute(f"INSERT INTO {table} (n, note) VALUES {rows}")

    def _begin_late(self, table: str, n: int) -> None:
        made = self._database.connect(self._name)
        cursor = made.cursor()
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {table} (n, note) VALUES ({n}, 'late')")
        self._late.append(made)

    def _commit_late(self) -> None:
        with contextlib.suppress(*GONE), contextlib.closing(self._late.pop(0)) as late:
            late.cursor().execute("COMMIT")
