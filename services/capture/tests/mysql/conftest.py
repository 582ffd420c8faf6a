"""A database of each test's own on a MySQL, and a connector's options for it."""

from collections.abc import Iterator

import pytest
from mariadb_parts import connector_options
from mysql_parts import MySqlDatabase

from tidings_jvm import SilentProgress
from tidings_stack.errors import PackagesUnavailableError
from tidings_stack.mysql import MySqlServer
from tidings_stack.stack import Stack


@pytest.fixture(scope="session")
def mysql_by_files() -> Iterator[MySqlServer]:
    """A MySQL without GTIDs: places of its log are bytes of files."""
    settings = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
    with Stack(members=(), progress=SilentProgress()) as stack:
        try:
            yield stack.add(lambda place: MySqlServer(place, settings=settings))
        except PackagesUnavailableError as error:
            pytest.skip(f"there is no MySQL: {error}")


@pytest.fixture
def database(mysql: MySqlServer, unique_name: str) -> Iterator[MySqlDatabase]:
    made = MySqlDatabase(mysql, unique_name)
    yield made
    made.close()


@pytest.fixture
def config(mysql: MySqlServer, unique_name: str) -> dict[str, str]:
    return connector_options(mysql, unique_name) | {"provide.transaction.metadata": "true"}
