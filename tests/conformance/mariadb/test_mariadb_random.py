"""Random tables, changes, definitions and options, through MariaDB's connector and Debezium's: every record is the same."""

import os

import pytest
from binlog.cases import Case, differences_of
from binlog.options import Compared
from mariadb_parts import Database
from nameless_log import metadata

FIRST, COUNT = (int(part) for part in os.environ.get("TIDINGS_MARIADB_CASES", "1:4").split(":"))
"""By hand, for others: ``TIDINGS_MARIADB_CASES=100:50``."""

METADATA = ("FULL", "MINIMAL", "FULL", "NO_LOG")
"""What the log says of columns (`binlog_row_metadata`), by the seed: without their names the history knows them."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_record_is_debeziums(
    seed: int, database: Database, compared: Compared, unique_name: str
) -> None:
    case = Case(seed)
    with metadata(database, METADATA[seed % len(METADATA)]):
        found = differences_of(case, compared, database.run, unique_name)
    assert not found, "\n".join(found)
