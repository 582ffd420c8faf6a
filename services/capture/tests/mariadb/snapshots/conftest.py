"""A database with a table of signals, and the options of a connector that reads it."""

from collections.abc import Iterator

import pytest
from mariadb_cases import NOTES
from mariadb_parts import Database
from mariadb_worker import Config

from tidings_stack.mariadb import MariaDbServer


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE signals (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)",
        "INSERT INTO signals VALUES ('old', 'execute-snapshot', '{}')",
    )
    yield made
    made.close()


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "admin",
        "database.password": mariadb.password,
        "database.include.list": unique_name,
        "topic.prefix": "p",
        "include.schema.changes": "false",
        "snapshot.mode": "no_data",
        "provide.transaction.metadata": "true",
        "signal.data.collection": f"{unique_name}.signals",
        "incremental.snapshot.chunk.size": "3",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTES,
    }
