"""Tables: PostgreSQL, MariaDB, MySQL, SQLite and DuckDB. Each as a copy of the source, and as a log that is inserted into."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql

from sinklab.target import PLACED, TABLES, Claim, FileTarget, RecordPlace, Rows, Target
from tidings_connect.testing.sink_contract import SINK_POINTS
from tidings_stack.mariadb import MariaDbServer, MySqlLikeServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.postgres import PostgresServer
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

Ask = Callable[[str], list[tuple[Any, ...]]]
_CLASS = {"connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "schema.evolution": "basic"}
UPSERT = {"insert.mode": "upsert", "delete.enabled": "true", "primary.key.mode": "record_key"}
INSERT = {"insert.mode": "insert", "primary.key.mode": "none", **PLACED}


def table_rows(ask: Ask, there: set[str], prefix: str = "") -> Rows:
    """The rows of those tables that are there."""
    return {table: ask(f"SELECT id, n FROM {prefix}{table}") for table in TABLES if prefix + table in there}


def log_places(ask: Ask, there: set[str], log: str = "log") -> Sequence[RecordPlace]:
    """The rows of a log."""
    if log not in there:
        return []
    return [RecordPlace(*row) for row in ask(f"SELECT at_topic, at_partition, at_offset FROM {log}")]


class PostgresTarget(Target):
    """Whole transactions in another PostgreSQL."""

    def __init__(self, place: Place) -> None:
        self._pg = PostgresServer(place, name="target")
        self.serve(self._pg, self._pg.port)

    @property
    def url(self) -> str:
        """Of its database, past the proxy."""
        return self._pg.url

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {
            **_CLASS,
            **UPSERT,
            **self._connection(),
            "collection.name.format": f"{run}_${{source.table}}",
            "tidings.transactions": "source",
            "tidings.transactions.topic": f"{run}.transaction",
        }

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        return table_rows(self._ask, self._tables(), f"{run}_")

    def _connection(self) -> dict[str, str]:
        assert self.proxy is not None
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self.proxy.port}/postgres",
            "connection.username": "postgres",
            "connection.password": self._pg.password,
        }

    def _tables(self) -> set[str]:
        return {name for (name,) in self._ask("SELECT tablename::text FROM pg_tables")}

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._pg.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


class PostgresRows(PostgresTarget):
    """Rows as they come in PostgreSQL, each as its last change leaves it."""

    wires = ("avro",)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **UPSERT, **self._connection(), "use.reduction.buffer": "true"}

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        return table_rows(self._ask, self._tables(), f"{run}_public_")


class PostgresLog(PostgresTarget):
    """Each record as a row, in PostgreSQL."""

    claim = Claim.ONCE

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **INSERT, **self._connection(), "collection.name.format": f"{run}_log"}

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        return log_places(self._ask, self._tables(), f"{run}_log")


class MariaDbTarget(Target):
    """Rows as they come in MariaDB."""

    kind: type[MySqlLikeServer] = MariaDbServer

    def __init__(self, place: Place) -> None:
        self._mariadb = self.kind(place)
        self.serve(self._mariadb, self._mariadb.port)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **UPSERT, **self._connection(run), "collection.name.format": "${source.table}"}

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        return table_rows(self._asking(run), self._tables(run))

    def _connection(self, run: str) -> dict[str, str]:
        assert self.proxy is not None
        self._asking(None)(f"CREATE DATABASE IF NOT EXISTS {run}")
        return {
            "connection.url": f"jdbc:{self.kind.name}://127.0.0.1:{self.proxy.port}/{run}",
            "connection.username": "admin",
            "connection.password": self._mariadb.password,
        }

    def _tables(self, run: str) -> set[str]:
        return {name for (name,) in self._asking(run)("SHOW TABLES")}

    def _asking(self, database: str | None) -> Ask:
        def ask(statement: str) -> list[tuple[Any, ...]]:
            with closing(
                pymysql.connect(
                    host="127.0.0.1", port=self._mariadb.port, user="admin", password=self._mariadb.password,
                    database=database, autocommit=True,
                )
            ) as connection:  # fmt: skip
                cursor = connection.cursor()
                cursor.execute(statement)
                return list(cursor.fetchall())

        return ask


class MariaDbLog(MariaDbTarget):
    """Each record as a row, in MariaDB."""

    claim = Claim.ONCE

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **INSERT, **self._connection(run), "collection.name.format": "log"}

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        return log_places(self._asking(run), self._tables(run))


class MySqlTarget(MariaDbTarget):
    """Rows as they come in MySQL."""

    kind = MySqlServer


class MySqlLog(MariaDbLog):
    """Each record as a row, in MySQL."""

    kind = MySqlServer


class AnyTarget(MariaDbTarget):
    """Rows as they come in MariaDB, by what SQLAlchemy knows of all databases."""

    def _connection(self, run: str) -> dict[str, str]:
        return _by_sqlalchemy(super()._connection(run))


class AnyLog(MariaDbLog):
    """Each record as a row, by the same way."""

    def _connection(self, run: str) -> dict[str, str]:
        return _by_sqlalchemy(super()._connection(run))


def _by_sqlalchemy(given: dict[str, str]) -> dict[str, str]:
    return {
        **given,
        "connection.url": given["connection.url"].replace("jdbc:mariadb:", "sqlalchemy:mysql+pymysql:"),
    }


class SqliteTarget(FileTarget):
    """Rows as they come in a file of SQLite, in which another program writes, too."""

    def __init__(self, place: Place) -> None:
        self._directory = place.directory

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **UPSERT, **self._connection(run), "collection.name.format": "${source.table}"}

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        return table_rows(self._asking(run), self._tables(run))

    @contextlib.contextmanager
    def occupied(self, run: str) -> Iterator[None]:
        """See `FileTarget.occupied`."""
        with closing(sqlite3.connect(self._file(run), timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def _connection(self, run: str) -> dict[str, str]:
        return {"connection.url": f"jdbc:sqlite:{self._file(run)}"}

    def _file(self, run: str) -> Path:
        return self._directory / f"{run}.sqlite"

    def _tables(self, run: str) -> set[str]:
        return {name for (name,) in self._asking(run)("SELECT name FROM sqlite_master")}

    def _asking(self, run: str) -> Ask:
        def ask(statement: str) -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(self._file(run), timeout=30)) as connection:
                return connection.execute(statement).fetchall()

        return ask


class SqliteLog(SqliteTarget):
    """Each record as a row, in SQLite."""

    claim = Claim.ONCE

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**_CLASS, **INSERT, **self._connection(run), "collection.name.format": "log"}

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        return log_places(self._asking(run), self._tables(run))


class WarehouseTarget(FileTarget):
    """Batches merged into a file of DuckDB, which another program has open at times."""

    points = (*SINK_POINTS, "warehouse.staged", "warehouse.merged", "warehouse.committed")

    def __init__(self, place: Place) -> None:
        self._directory = place.directory

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**self._own(run), **UPSERT, "table.name.format": "${source.table}"}

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        with self._open(run) as ask:
            return table_rows(ask, _duck_tables(ask))

    @contextlib.contextmanager
    def occupied(self, run: str) -> Iterator[None]:
        """See `FileTarget.occupied`."""
        with self._open(run):
            yield

    def _own(self, run: str) -> dict[str, str]:
        return {
            "connector.class": "tidings.WarehouseSinkConnector",
            "connection.url": f"jdbc:duckdb:{self._file(run)}",
            "schema.evolution": "basic",
            "flush.interval.ms": "200",
            "batch.size": "100",
            "flush.max.retries": "2",
            "flush.retry.delay.ms": "100",
        }

    def _file(self, run: str) -> Path:
        return self._directory / f"{run}.duckdb"

    @contextlib.contextmanager
    def _open(self, run: str) -> Iterator[Ask]:
        """Between two merges, once there is a file."""
        found: list[duckdb.DuckDBPyConnection] = []

        def opened() -> bool:
            with contextlib.suppress(duckdb.IOException):  # a merge runs, or there is no file yet
                found.append(duckdb.connect(str(self._file(run)), read_only=True))
            return bool(found)

        wait_for("the warehouse to be free", opened, 30)
        with found[0] as connection:
            yield lambda statement: connection.execute(statement).fetchall()


def _duck_tables(ask: Ask) -> set[str]:
    return {name for (name,) in ask("SELECT table_name FROM information_schema.tables")}


class WarehouseLog(WarehouseTarget):
    """Each record as a row, in DuckDB."""

    claim = Claim.ONCE

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**self._own(run), **INSERT, "table.name.format": "log"}

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        with self._open(run) as ask:
            return log_places(ask, _duck_tables(ask))
