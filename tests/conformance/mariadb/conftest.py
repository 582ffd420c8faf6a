"""A database of MariaDB of a test's own, and both connectors that read it."""

from collections.abc import Iterator

import pytest
from binlog.options import Compared
from mariadb_parts import Database

from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run("SET SESSION sql_mode = ''")
    yield made
    made.close()


@pytest.fixture
def compared(
    database: Database, mariadb: MariaDbServer, plugins: ConnectServer, kafka_bootstrap: str, unique_name: str
) -> Compared:
    return Compared(database.run, mariadb, plugins, kafka_bootstrap, unique_name)
