"""Targets, and sinks on a worker in memory that write to them."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from diagnosing import diagnose  # noqa: F401 - a fixture
from graph_parts import Graph
from mongo_parts import Documents
from search_parts import Search
from sink_targets import Sink, ask_mariadb, connection_options, mariadb_options

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.graph.connector import Neo4jSink
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_sinks.mongo.connector import MongoSink
from tidings_sinks.search.connector import OpenSearchSink
from tidings_sinks.warehouse.connector import WarehouseSink
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.mongo import FerretServer, MongoServer
from tidings_stack.neo4j import Neo4jServer
from tidings_stack.opensearch import SearchServer
from tidings_stack.postgres import create_database, drop_database

RETRIES: Final = {"errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "100"}


@pytest.fixture
def target(pg_database: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Runs statements on the target: `target("SELECT ...")`."""
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def run(statement: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def copy(pg_url: str) -> Iterator[str]:
    """Another database of the same server."""
    name = f"copy_{secrets.token_hex(5)}"
    yield create_database(pg_url, name)
    drop_database(pg_url, name)


@pytest.fixture
def sink(pg_database: str) -> Iterator[Sink]:
    """A sink for the target, on a worker in memory."""
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Sink(
            worker,
            {
                **connection_options(pg_database),
                "errors.retry.delay.initial.ms": "20",
                "errors.retry.delay.max.ms": "100",
            },
        )


@contextmanager
def database_on(server: MySqlLikeServer) -> Iterator[str]:
    """A database of a test's own on MariaDB or MySQL."""
    name = f"t_{secrets.token_hex(4)}"
    ask_mariadb(server, None, f"CREATE DATABASE {name}")
    yield name
    ask_mariadb(server, None, f"DROP DATABASE {name}")


@pytest.fixture
def database_of_both() -> Iterator[Callable[[MySqlLikeServer], str]]:
    """Makes a database on MariaDB or MySQL."""
    with ExitStack() as made:
        yield lambda server: made.enter_context(database_on(server))


@pytest.fixture
def mariadb_server(request: pytest.FixtureRequest) -> MySqlLikeServer:
    """The stack's MariaDB, or the MySQL that a test's parameter names."""
    server: MySqlLikeServer = request.getfixturevalue(getattr(request, "param", "mariadb"))
    return server


@pytest.fixture
def mariadb_database(mariadb_server: MySqlLikeServer) -> Iterator[str]:
    """A database on it."""
    with database_on(mariadb_server) as name:
        yield name


@pytest.fixture
def in_mariadb(
    mariadb_server: MySqlLikeServer, mariadb_database: str
) -> Callable[..., list[tuple[Any, ...]]]:
    """Runs statements on the target in it."""
    return lambda statement: ask_mariadb(mariadb_server, mariadb_database, statement)


@pytest.fixture
def mariadb_sink(mariadb_server: MySqlLikeServer, mariadb_database: str) -> Iterator[Sink]:
    """A sink for a database of it."""
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Sink(worker, mariadb_options(mariadb_server, mariadb_database) | RETRIES)


@pytest.fixture
def mysql_pair(mysql: MySqlLikeServer) -> Iterator[tuple[Sink, Callable[..., list[tuple[Any, ...]]]]]:
    """A sink for a database of MySQL, and what runs statements there."""
    with database_on(mysql) as name, MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        sink = Sink(worker, mariadb_options(mysql, name) | RETRIES)
        yield sink, lambda statement: ask_mariadb(mysql, name, statement)


@pytest.fixture
def sqlite_sink(tmp_path: Path) -> Iterator[tuple[Sink, Path]]:
    """The same for a file of SQLite."""
    file = tmp_path / "target.db"
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Sink(worker, {"connection.url": f"jdbc:sqlite:{file}"}), file


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[tuple[Sink, Path]]:
    """A sink for a warehouse of its own, which is the path."""
    file = tmp_path / "warehouse.duckdb"
    with MemoryWorker(WarehouseSink(), "sink") as worker:
        worker.flush_ms = 60_000
        options = {
            "connection.url": f"jdbc:duckdb:{file}",
            "flush.interval.ms": "100",
            "errors.retry.delay.initial.ms": "20",
            "errors.retry.delay.max.ms": "100",
        }
        yield Sink(worker, options), file


@pytest.fixture
def search(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Search]:
    """A sink for an index of its own; on the server that the test's parameter names, or `TIDINGS_SEARCH`, or OpenSearch."""
    name = getattr(request, "param", os.environ.get("TIDINGS_SEARCH", "opensearch"))
    server: SearchServer = request.getfixturevalue(name)
    with MemoryWorker(OpenSearchSink(), "sink") as worker:
        yield Search(worker, server.url, unique_name)


@pytest.fixture
def documents(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Documents]:
    """A MongoDB sink for a database of its own, on mongo-java-server, or on the server that the test names."""
    server: MongoServer | FerretServer = request.getfixturevalue(getattr(request, "param", "mongo"))
    with MemoryWorker(MongoSink(), "sink") as worker, Documents(worker, server.url, unique_name) as documents:
        yield documents


@pytest.fixture
def graph(neo4j: Neo4jServer) -> Iterator[Graph]:
    """A sink for an empty graph."""
    with MemoryWorker(Neo4jSink(), "sink") as worker, Graph(worker, neo4j.url) as graph:
        yield graph
