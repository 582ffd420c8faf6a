"""The databases that query sources read here, each past the proxy for who checks and behind it for the connector."""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from binloglab.traffic import connect
from faultlab.proxy import Proxy
from faultlab.servers import Lab

from tidings_stack.mariadb import MariaDbServer, MySqlLikeServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

TABLES = ("ev", "log")
COLUMNS = ("id", "updated", "n", "note")
LOCK_SECONDS = 1
"""Whoever alters a table waits for late writers, who wait for nobody: without an end the writers would wait for it, too. On
MariaDB and MySQL a statement that reads the whole of a small table to find a row waits for late writers as well."""
GONE = (psycopg.Error, pymysql.Error, sqlite3.Error, OSError)
"""What a statement raises while the server is away."""


class Database:
    """A database with the tables of `TABLES`: id, updated, n, note."""

    definition = ""
    now = "CURRENT_TIMESTAMP(6)"
    late_writers = True
    writes: Sequence[str] = (
        *("insert", "insert", "several", "update", "quiet"),
        *("delete", "back", "late", "commit"),
    )
    """What its writers do."""
    modes: Sequence[str] = ("incrementing", "timestamp", "timestamp+incrementing", "bulk")
    compared = True
    """Whether what was sent can be compared with it, which finds what a mode overlooks."""
    proxy: Proxy | None = None

    def start(self) -> None:
        """Start the server, where there is one."""

    def heal(self) -> None:
        """It runs, and the link is as it should be."""
        if self.proxy is not None:
            self.proxy.heal()
        self.start()

    def restart(self) -> None:
        """Stop the server and start it."""
        raise NotImplementedError

    def kill(self) -> None:
        """It crashes, and recovers."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop it."""

    def create(self, name: str) -> None:
        """Make a database of that name, and its tables."""
        raise NotImplementedError

    def drop(self, name: str) -> None:
        """Remove it."""
        raise NotImplementedError

    def options(self, name: str) -> dict[str, str]:
        """How the connector finds it."""
        raise NotImplementedError

    def connect(self, name: str) -> Any:
        """A connection in which each statement is a transaction, but between BEGIN and COMMIT."""
        raise NotImplementedError

    def run(self, name: str, *statements: str) -> Sequence[Sequence[Any]]:
        """The last one's rows."""
        with contextlib.closing(self.connect(name)) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if statements[-1].startswith("SELECT") else []

    def rows(self, name: str, table: str) -> dict[int, tuple[Any, Any]]:
        """`n` and `note` by key."""
        return {key: (n, note) for key, n, note in self.run(name, f"SELECT id, n, note FROM {table}")}


class Postgres(Database):
    """The lab's PostgreSQL."""

    definition = "CREATE TABLE {} (id bigserial PRIMARY KEY, updated timestamptz NOT NULL DEFAULT clock_timestamp(), n int, note text)"
    now = "clock_timestamp()"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.proxy = lab.pg_proxy

    def start(self) -> None:
        self._lab.pg.start()

    def restart(self) -> None:
        self._lab.pg.stop()
        self._lab.pg.start()

    def kill(self) -> None:
        self._lab.crash_postgres()
        self._lab.pg.start()

    def create(self, name: str) -> None:
        create_database(self._lab.pg.url, name)
        self.run(name, *(self.definition.format(table) for table in TABLES))

    def drop(self, name: str) -> None:
        drop_database(self._lab.pg.url, name)

    def options(self, name: str) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._lab.pg_proxy.port}/{name}",
            "connection.user": "postgres",
            "connection.password": self._lab.pg.password,
        }

    def connect(self, name: str) -> Any:
        url = self._lab.pg.url.rpartition("/")[0] + f"/{name}"
        return psycopg.connect(url, autocommit=True, options=f"-c lock_timeout={LOCK_SECONDS}s")


class AnyPostgres(Postgres):
    """The same by SQLAlchemy, which compares nothing: its writers do only what a mode finds."""

    writes = ("insert", "insert", "several", "update")
    modes = ("timestamp+incrementing", "bulk")
    compared = False

    def options(self, name: str) -> dict[str, str]:
        given = super().options(name)
        url = given["connection.url"].replace("jdbc:postgresql:", "sqlalchemy:postgresql+psycopg:")
        return {**given, "connection.url": url, "timestamp.delay.interval.ms": "1000"}


class MariaDb(Database):
    """A server of its own."""

    definition = (
        "CREATE TABLE {} (id BIGINT AUTO_INCREMENT PRIMARY KEY, updated TIMESTAMP(6) NOT NULL DEFAULT (SYSDATE(6)), n INT,"
        " note VARCHAR(40))"
    )
    now = "SYSDATE(6)"
    scheme = "mariadb"

    def __init__(self, lab: Lab) -> None:
        self._server = self.make(lab.place)
        self.proxy = Proxy(self._server.port)

    def make(self, place: Place) -> MySqlLikeServer:
        """The server."""
        return MariaDbServer(place)

    def start(self) -> None:
        self._server.start()

    def restart(self) -> None:
        self._server.stop()
        self._server.start()

    def kill(self) -> None:
        pid = self._server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(f"{self._server.title} to be gone", lambda: not self._server.running)
        self._server.start()

    def close(self) -> None:
        self._server.close()
        assert self.proxy is not None
        self.proxy.close()

    def create(self, name: str) -> None:
        self.run("mysql", f"CREATE DATABASE {name}")
        self.run(name, *(self.definition.format(table) for table in TABLES))

    def drop(self, name: str) -> None:
        self.run("mysql", f"DROP DATABASE {name}")

    def options(self, name: str) -> dict[str, str]:
        assert self.proxy is not None
        return {
            "connection.url": f"jdbc:{self.scheme}://127.0.0.1:{self.proxy.port}/{name}",
            "connection.user": "admin",
            "connection.password": self._server.password,
        }

    def connect(self, name: str) -> Any:
        waits = f"SET lock_wait_timeout = {LOCK_SECONDS}, innodb_lock_wait_timeout = {LOCK_SECONDS}"
        return connect(self._server, database=name, init_command=waits)


class MySql(MariaDb):
    """A server of its own, of MySQL."""

    scheme = "mysql"

    def make(self, place: Place) -> MySqlServer:
        return MySqlServer(place, settings={"innodb_flush_log_at_trx_commit": "1"})


class Sqlite(Database):
    """A file; one writes at a time, so that nobody commits late."""

    definition = (
        "CREATE TABLE {} (id INTEGER PRIMARY KEY AUTOINCREMENT, updated TIMESTAMP NOT NULL DEFAULT"
        " (strftime('%Y-%m-%d %H:%M:%f', 'now')), n INTEGER, note TEXT)"
    )
    now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    late_writers = False

    def __init__(self, lab: Lab) -> None:
        self._directory = lab.directory

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.db"

    def create(self, name: str) -> None:
        self.run(name, "PRAGMA journal_mode=WAL", *(self.definition.format(table) for table in TABLES))

    def drop(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def options(self, name: str) -> dict[str, str]:
        return {"connection.url": f"jdbc:sqlite:{self._file(name)}"}

    def connect(self, name: str) -> Any:
        return sqlite3.connect(self._file(name), isolation_level=None, timeout=20)


DATABASES: dict[str, Callable[[Lab], Database]] = {
    "postgresql": Postgres,
    "mariadb": MariaDb,
    "mysql": MySql,
    "sqlite": Sqlite,
    "sqlalchemy": AnyPostgres,
}
