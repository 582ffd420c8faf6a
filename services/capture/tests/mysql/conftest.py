"""A database of each test's own on a MySQL, and a connector's options for it."""

from collections.abc import Iterator

import pytest
from mariadb_parts import connector_options
from mysql_parts import MySqlDatabase

from tidings_stack.mysql import MySqlServer


@pytest.fixture
def database(mysql: MySqlServer, unique_name: str) -> Iterator[MySqlDatabase]:
    made = MySqlDatabase(mysql, unique_name)
    yield made
    made.close()


@pytest.fixture
def config(mysql: MySqlServer, unique_name: str) -> dict[str, str]:
    return connector_options(mysql, unique_name) | {"provide.transaction.metadata": "true"}
