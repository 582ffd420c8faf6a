"""A database with a table of signals, and the options of a connector that reads it."""

import pytest
from mariadb_cases import NOTES
from mariadb_parts import Database, connector_options
from mariadb_worker import Config

from tidings_stack.mariadb import MariaDbServer


@pytest.fixture
def database(database: Database) -> Database:
    database.run(
        "CREATE TABLE signals (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)",
        "INSERT INTO signals VALUES ('old', 'execute-snapshot', '{}')",
    )
    return database


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return connector_options(mariadb, unique_name) | {
        "snapshot.mode": "no_data",
        "provide.transaction.metadata": "true",
        "signal.data.collection": f"{unique_name}.signals",
        "incremental.snapshot.chunk.size": "3",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTES,
    }
