"""What the tests of comparisons share: a connector with comparisons, its table on PostgreSQL or MariaDB, and random writers."""

import json
import random
from collections import Counter
from typing import Any, Protocol

import psycopg
from mariadb_parts import Database

from tidings_capture.mysql.client import Session
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer

MODES: dict[str, dict[str, str]] = {
    "incrementing": {"incrementing.column.name": "id"},
    "timestamp": {"timestamp.column.name": "updated"},
    "timestamp+incrementing": {"timestamp.column.name": "updated", "incrementing.column.name": "id"},
}


class LateWriter(Protocol):
    """A transaction that has inserted a row and has not committed."""

    def commit(self) -> None:
        """Commit, and be done."""
        ...


class TableOfDatabase(Protocol):
    """The table ``ev`` (id, updated, note) of a database."""

    definition: str
    numbers: str
    """What gives the numbers ``n`` from 1 to {}."""

    def run(self, statement: str) -> None:
        """One that gives no rows."""
        ...

    def rows(self) -> dict[str, Any]:
        """Note by key."""
        ...

    def connection(self) -> dict[str, str]:
        """The connector's options for it."""
        ...

    def late(self, note: str) -> LateWriter:
        """Begin a transaction with a row."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class PostgresTable:
    """See `TableOfDatabase`."""

    definition = (
        "CREATE TABLE ev (id bigserial PRIMARY KEY, updated timestamptz NOT NULL DEFAULT now(), note text)"
    )
    numbers = "generate_series(1, {}) n"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._late: list[psycopg.Connection[Any]] = []

    def run(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def rows(self) -> dict[str, Any]:
        return {str(key): note for key, note in self._connection.execute("SELECT id, note FROM ev")}

    def connection(self) -> dict[str, str]:
        given = psycopg.conninfo.conninfo_to_dict(self._dsn)
        return {
            "connection.url": f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}",
            "connection.user": str(given["user"]),
            "connection.password": str(given.get("password") or "unused"),
        }

    def late(self, note: str) -> LateWriter:
        made = psycopg.connect(self._dsn)
        self._late.append(made)
        made.execute(f"INSERT INTO ev (note) VALUES ('{note}')".encode())
        return _PostgresLate(made)

    def close(self) -> None:
        for connection in (self._connection, *self._late):
            connection.close()


class _PostgresLate:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def commit(self) -> None:
        self._connection.commit()
        self._connection.close()


class MariaDbTable:
    """See `TableOfDatabase`."""

    definition = (
        "CREATE TABLE ev (id BIGINT AUTO_INCREMENT PRIMARY KEY, updated TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
        " note VARCHAR(20))"
    )
    numbers = "(SELECT seq AS n FROM seq_1_to_{}) AS numbers"

    def __init__(self, server: MariaDbServer, name: str) -> None:
        self._server = server
        self._database = Database(server, name)

    def run(self, statement: str) -> None:
        self._database.run(statement)

    def rows(self) -> dict[str, Any]:
        return dict(self._database.run("SELECT id, note FROM ev"))

    def connection(self) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:mariadb://127.0.0.1:{self._server.port}/{self._database.name}",
            "connection.user": "admin",
            "connection.password": self._server.password,
        }

    def late(self, note: str) -> LateWriter:
        session = Session(self._database.endpoint)
        session.rows("BEGIN")
        session.rows(f"INSERT INTO {self._database.name}.ev (note) VALUES ('{note}')")
        return _MariaDbLate(session)

    def close(self) -> None:
        self._database.close()


class _MariaDbLate:
    def __init__(self, session: Session) -> None:
        self._session = session

    def commit(self) -> None:
        self._session.rows("COMMIT")
        self._session.close()


class Source:
    """A connector with comparisons, and its table."""

    def __init__(self, worker: MemoryWorker, table: TableOfDatabase, *, exactly_once: bool) -> None:
        self.worker, self.table, self.exactly_once = worker, table, exactly_once
        self.run, self.rows = table.run, table.rows

    def begin(self, mode: str, **options: str) -> None:
        self.worker.put(
            {
                **self.table.connection(),
                "topic.prefix": "q-",
                "mode": mode,
                **MODES[mode],
                "table.whitelist": "ev",
                "poll.interval.ms": "20",
                "tidings.record.key": "primary.key",
                "tidings.reconciliation.interval.ms": "50",
                "tidings.reconciliation.rows.per.second": "100000",
                "tidings.reconciliation.range.rows": "4",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )

    def records(self) -> list[tuple[str, Any, str | None]]:
        """Key, note or None, and what the header says."""
        found = []
        for key, value, headers in self.worker.kafka.topics.get("q-ev", []):
            kind = dict(headers or []).get("tidings.reconciliation")
            note = None if value is None else [json.loads(value)["note"]]
            found.append((str(json.loads(key)["id"]), note, None if kind is None else kind.decode()))
        return found

    def last(self) -> dict[str, Any]:
        state = {}
        for key, note, _kind in self.records():
            state[key] = note
        return {key: note[0] for key, note in state.items() if note is not None}

    def kinds(self) -> Counter[str | None]:
        return Counter(kind for _key, _note, kind in self.records())

    def await_equal(self) -> None:
        rows = self.rows()

        def wrong() -> dict[str, Any]:
            last = self.last()
            return {
                key: (last.get(key), rows.get(key))
                for key in {*last, *rows}
                if last.get(key, 0) != rows.get(key, 0)
            }

        try:
            self.worker.wait_for(lambda: not wrong(), "the topic is the table")
        except AssertionError as error:
            raise AssertionError(f"{error}: {wrong()}") from error


def write(source: Source, chance: random.Random, late: list[LateWriter]) -> None:
    """An insert, an update in the same tick, a delete, a late commit, or a row that comes back."""
    rows = list(source.rows())
    kind = chance.choice(["insert", "insert", "update", "delete", "late", "commit", "back", "bulk"])
    note = f"n{chance.randrange(10**6)}"
    if kind == "insert" or not rows:
        source.run(f"INSERT INTO ev (note) VALUES ('{note}')")
    elif kind == "bulk":
        source.run(
            f"INSERT INTO ev (note) SELECT '{note}' FROM {source.table.numbers.format(chance.randint(1, 12))}"
        )
    elif kind == "update":
        source.run(f"UPDATE ev SET note = '{note}' WHERE id = {chance.choice(rows)}")
    elif kind == "delete":
        source.run(f"DELETE FROM ev WHERE id IN ({', '.join(chance.sample(rows, min(len(rows), 3)))})")
    elif kind == "back":
        key = chance.choice(rows)
        source.run(f"DELETE FROM ev WHERE id = {key}")
        source.run(f"INSERT INTO ev (id, note) VALUES ({key}, '{note}')")
    elif kind == "late":
        late.append(source.table.late(note))
    elif late:
        late.pop(0).commit()


def wait_a_little(source: Source, chance: random.Random) -> None:
    """Until some more records are there, or the task is dead, or nothing comes."""
    before = len(source.records())
    wanted = chance.randint(1, 10)
    turns = iter(range(chance.randint(1, 30)))
    source.worker.wait_for(
        lambda: (
            len(source.records()) >= before + wanted
            or source.worker.state == "FAILED"
            or next(turns, None) is None
        ),
        "something",
    )
