"""Random tables, changes, definitions and options, through MariaDB's connector and Debezium's: every record is the same."""

import os
from collections.abc import Iterator

import pytest
from binlog_cases import Case, differences_of
from compared_options import Compared
from mariadb_parts import Database
from nameless_log import metadata

from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer

FIRST, COUNT = (int(part) for part in os.environ.get("TIDINGS_MARIADB_CASES", "1:4").split(":"))
"""By hand, for others: ``TIDINGS_MARIADB_CASES=100:50``."""

METADATA = ("FULL", "MINIMAL", "FULL", "NO_LOG")
"""What the log says of columns (`binlog_row_metadata`), by the seed: without their names the history knows them."""


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run("SET SESSION sql_mode = ''")
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_record_is_debeziums(
    seed: int,
    database: Database,
    mariadb: MariaDbServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
) -> None:
    compared = Compared(database.run, mariadb, plugins, kafka_bootstrap, unique_name)
    with metadata(database, METADATA[seed % len(METADATA)]):
        found = differences_of(Case(seed), compared, database.run, unique_name)
    assert not found, "\n".join(found)
