"""Options of MySQL's connector beside Debezium's: what MariaDB's has no test for, or what MySQL has other types for."""

from collections.abc import Iterator

import pytest
from compared_options import Compared
from mysql_parts import MySqlDatabase
from mysql_values import KINDS, ROWS

from tidings_stack.connect import ConnectServer
from tidings_stack.mysql import MySqlServer

OWN = {"schema.history.internal.store.only.captured.databases.ddl": "true"}
"""The server is not these tests' alone."""
COMMENTED = (
    "CREATE TABLE commented (id INT PRIMARY KEY COMMENT 'the key', `a-b` VARCHAR(9) COMMENT 'its text', n INT) COMMENT 'of a table'",
    "INSERT INTO commented VALUES (1, 'a', 1)",
)


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


def test_comments(compared: Compared, unique_name: str) -> None:
    options = {
        **OWN,
        "include.schema.comments": "true",
        "include.schema.changes": "true",
        "datatype.propagate.source.type": ".*",
        "field.name.adjustment.mode": "avro",
    }
    topics = {f"{unique_name}.commented": 2, "": 4}
    found = compared.differences(options, COMMENTED, ("UPDATE commented SET n = 2",), topics)
    assert not found, "\n".join(found[:30])


CASES = {
    "described": {"datatype.propagate.source.type": ".*", "time.precision.mode": "microseconds"},
    "masked": {"column.mask.with.4.chars": r".*\.kinds\.(?!id).*", "time.precision.mode": "isostring"},
    "cut": {"column.truncate.to.3.chars": r".*\.kinds\.(?!id).*"},
}


@pytest.mark.parametrize("case", CASES)
def test_every_type(case: str, compared: Compared, unique_name: str) -> None:
    found = compared.differences(
        OWN | CASES[case], (KINDS, *ROWS), ROWS, {f"{unique_name}.kinds": 2 * len(ROWS)}
    )
    assert not found, "\n".join(found[:30])
