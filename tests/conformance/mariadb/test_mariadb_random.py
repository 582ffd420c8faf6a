"""Random tables, changes, definitions and options, through MariaDB's connector and Debezium's: every record is the same."""

import os
from collections.abc import Iterator

import pytest
from binlog_cases import Case
from compared_options import Compared
from mariadb_parts import Database

from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for

FIRST, COUNT = (int(part) for part in os.environ.get("TIDINGS_MARIADB_CASES", "1:4").split(":"))
"""By hand, for others: ``TIDINGS_MARIADB_CASES=100:50``."""


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
    case = Case(seed)
    database.run(
        "CREATE TABLE ends (id INT PRIMARY KEY, n INT)", "INSERT INTO ends VALUES (0, 0)", *case.made()
    )
    between = case.options["topic.delimiter"]
    ends = between.join((unique_name, unique_name, "ends"))
    topics = [between.join((unique_name, unique_name, table.name)) for table in case.tables]
    with Compared(database.run, mariadb, plugins, kafka_bootstrap, unique_name).running(
        case.options, ends
    ) as sides:
        for number in range(1, 4):
            if number > 1:
                database.run(case.definition())
            database.run(*case.changes(), case.marker(number))
            wait_for(f"part {number}", lambda count=number + 1: sides.both(ends, count), 60)
        for topic in topics:
            count = len(sides.records(topic)[1])
            wait_for(f"{count} records of {topic}", lambda t=topic, c=count: sides.both(t, c), 30)
        found = sides.differences([*topics, ends])
    assert not found, "\n".join([str(case.options), *found[:30]])
