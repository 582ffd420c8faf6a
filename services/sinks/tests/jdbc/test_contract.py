"""The JDBC sink keeps the contract of sinks on each of its databases, and its effects are exactly once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sink_targets import ask_mariadb, connection_options, mariadb_options

from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_stack.mariadb import MySqlLikeServer

OPTIONS = {"collection.name.format": "things"}


class TestPostgres(SinkContract):
    @pytest.fixture
    def case(self, pg_database: str) -> SinkCase:
        with psycopg.connect(pg_database, autocommit=True) as connection:
            connection.execute("CREATE TABLE things (place bigserial, number integer NOT NULL)")

        def numbers() -> list[int]:
            with psycopg.connect(pg_database, autocommit=True) as connection:
                found = connection.execute("SELECT number FROM things ORDER BY place").fetchall()
            return [number for (number,) in found]

        return SinkCase(
            connector=JdbcSinkConnector(),
            config={**connection_options(pg_database), **OPTIONS},
            numbers=numbers,
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("insert.mode", "replace"),
        )


class TestSqlite(SinkContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SinkCase:
        file = tmp_path / "target.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(
                "CREATE TABLE things (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER)"
            )

        def numbers() -> list[int]:
            with closing(sqlite3.connect(file)) as connection:
                found = connection.execute("SELECT number FROM things ORDER BY place").fetchall()
            return [number for (number,) in found]

        return SinkCase(
            connector=JdbcSinkConnector(),
            config={"connection.url": f"jdbc:sqlite:{file}", **OPTIONS},
            numbers=numbers,
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("delete.enabled", "perhaps"),
        )


@pytest.mark.parametrize("mariadb_server", ["mariadb", "mysql"], indirect=True)
class TestMariaDb(SinkContract):
    @pytest.fixture
    def case(self, mariadb_server: MySqlLikeServer, mariadb_database: str) -> SinkCase:
        columns = "place bigint AUTO_INCREMENT PRIMARY KEY, number int NOT NULL"
        ask_mariadb(mariadb_server, mariadb_database, f"CREATE TABLE things ({columns})")

        def numbers() -> list[int]:
            found = ask_mariadb(mariadb_server, mariadb_database, "SELECT number FROM things ORDER BY place")
            return [number for (number,) in found]

        return SinkCase(
            connector=JdbcSinkConnector(),
            config={**mariadb_options(mariadb_server, mariadb_database), **OPTIONS},
            numbers=numbers,
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("primary.key.mode", "some"),
        )
