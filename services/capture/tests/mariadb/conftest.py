"""A database of each test's own, and a connector's options for it."""

from collections.abc import Iterator

import pytest
from mariadb_parts import Database, connector_options
from mariadb_worker import Config

from tidings_stack.mariadb import MariaDbServer


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run("SET SESSION sql_mode = ''")
    yield made
    made.close()


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return connector_options(mariadb, unique_name) | {
        "snapshot.locking.mode": "none",
        "provide.transaction.metadata": "true",
    }
