"""Random tables, changes, definitions and options, through MySQL's connector and Debezium's: every record is the same."""

import os

import pytest
from binlog.cases import Case, differences_of
from binlog.options import Compared
from binlog.sides import ALONE
from mysql_parts import MySqlDatabase
from nameless_log import metadata

FIRST, COUNT = (int(part) for part in os.environ.get("TIDINGS_MYSQL_CASES", "1:4").split(":"))
"""By hand, for others: ``TIDINGS_MYSQL_CASES=100:50``."""

METADATA = ("FULL", "MINIMAL", "FULL")
"""What the log says of columns (`binlog_row_metadata`), by the seed: without their names the history knows them."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_record_is_debeziums(
    seed: int, database: MySqlDatabase, compared: Compared, unique_name: str
) -> None:
    case = Case(seed)
    case.options |= ALONE
    with metadata(database, METADATA[seed % len(METADATA)]):
        found = differences_of(case, compared, database.run, unique_name)
    assert not found, "\n".join(found)
