"""A database of MySQL of a test's own, and both connectors that read it."""

from collections.abc import Iterator

import pytest
from binlog.options import Compared
from mysql_parts import MySqlDatabase

from tidings_stack.connect import ConnectServer
from tidings_stack.mysql import MySqlServer


@pytest.fixture
def database(mysql: MySqlServer, unique_name: str) -> Iterator[MySqlDatabase]:
    made = MySqlDatabase(mysql, unique_name)
    made.run("SET SESSION sql_mode = ''")
    yield made
    made.close()


@pytest.fixture
def compared(
    database: MySqlDatabase,
    mysql: MySqlServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
) -> Compared:
    return Compared(database.run, mysql, plugins, kafka_bootstrap, unique_name)
