"""A database of each test's own on MySQL."""

from collections.abc import Iterator

import pytest
from mysql_log import LoggedDatabase

from tidings_stack.mysql import MySqlServer


@pytest.fixture
def logged(mysql: MySqlServer, unique_name: str) -> Iterator[LoggedDatabase]:
    made = LoggedDatabase(mysql, unique_name)
    yield made
    made.close()
