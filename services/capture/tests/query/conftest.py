"""A query source on a real PostgreSQL, in a worker in memory."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tidings_capture.query.connector import JdbcSource
from tidings_connect.testing.memory_worker import MemoryWorker


@pytest.fixture
def worker() -> Iterator[MemoryWorker]:
    with MemoryWorker(JdbcSource(), "query") as worker:
        yield worker


@pytest.fixture
def run(pg_database: str) -> Iterator[Callable[..., None]]:
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def execute(*statements: str) -> None:
            for statement in statements:
                connection.execute(statement.encode())

        yield execute


@pytest.fixture
def begin(worker: MemoryWorker, pg_database: str) -> Callable[..., None]:
    def start(**options: str) -> None:
        given = psycopg.conninfo.conninfo_to_dict(pg_database)
        url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"
        worker.put(
            {
                "connection.url": url,
                "connection.user": str(given["user"]),
                "connection.password": str(given.get("password") or "unused"),
                "topic.prefix": "q-",
                "poll.interval.ms": "20",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )

    return start
