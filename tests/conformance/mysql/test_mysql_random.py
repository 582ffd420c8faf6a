"""Random tables, changes, definitions and options, through MySQL's connector and Debezium's: every record is the same."""

import os
from collections.abc import Iterator

import pytest
from binlog_cases import Case, differences_of
from compared_options import Compared
from mysql_parts import MySqlDatabase
from nameless_log import metadata

from tidings_stack.connect import ConnectServer
from tidings_stack.mysql import MySqlServer

FIRST, COUNT = (int(part) for part in os.environ.get("TIDINGS_MYSQL_CASES", "1:4").split(":"))
"""By hand, for others: ``TIDINGS_MYSQL_CASES=100:50``."""

OWN = {"schema.history.internal.store.only.captured.databases.ddl": "true"}
"""The server is not these tests' alone."""

METADATA = ("FULL", "MINIMAL", "FULL")
"""What the log says of columns (`binlog_row_metadata`), by the seed: without their names the history knows them."""


@pytest.fixture
def database(mysql: MySqlServer, unique_name: str) -> Iterator[MySqlDatabase]:
    made = MySqlDatabase(mysql, unique_name)
    made.run("SET SESSION sql_mode = ''")
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_record_is_debeziums(
    seed: int,
    database: MySqlDatabase,
    mysql: MySqlServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
) -> None:
    compared = Compared(database.run, mysql, plugins, kafka_bootstrap, unique_name)
    case = Case(seed)
    case.options |= OWN
    with metadata(database, METADATA[seed % len(METADATA)]):
        found = differences_of(case, compared, database.run, unique_name)
    assert not found, "\n".join(found)
