"""Random writers of a query source's tables, also such as every mode overlooks: late commits, changes without a new timestamp,
deletes, rows that come back, keys that become others."""

import contextlib
from typing import Any

from faultlab.traffic_thread import TrafficThread

from querylab.database import GONE, TABLES, Database


class Traffic(TrafficThread):
    """Transactions over the tables, in a thread of its own; a server that is away is tried again."""

    def __init__(self, database: Database, name: str, seed: int) -> None:
        super().__init__(f"traffic {seed}", GONE)
        self._database, self._name = database, name
        self._late: list[Any] = []

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        while self._late:
            self._commit_late()

    def connect(self) -> Any:
        return self._database.connect(self._name)

    def write(self, connection: Any) -> None:
        cursor = connection.cursor()
        chance, table = self._random, self._random.choice(TABLES)
        n = self.transactions + 1
        kind = chance.choice(self._database.writes)
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
