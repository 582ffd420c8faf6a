"""Targets, and sinks on a worker in memory that write to them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sink_targets import Sink, connection_options

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.jdbc.connector import JdbcSinkConnector


@pytest.fixture
def target(pg_database: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Runs statements on the target: `target("SELECT ...")`."""
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def run(statement: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


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


@pytest.fixture
def sqlite_sink(tmp_path: Path) -> Iterator[tuple[Sink, Path]]:
    """The same for a file of SQLite."""
    file = tmp_path / "target.db"
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Sink(worker, {"connection.url": f"jdbc:sqlite:{file}"}), file
