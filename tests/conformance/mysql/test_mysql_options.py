"""Options of MySQL's connector beside Debezium's: what MariaDB's has no test for, or what MySQL has other types for."""

import pytest
from compared_options import Compared
from mariadb_sides import ALONE
from mysql_values import KINDS, ROWS

COMMENTED = (
    "CREATE TABLE commented (id INT PRIMARY KEY COMMENT 'the key', `a-b` VARCHAR(9) COMMENT 'its text', n INT) COMMENT 'of a table'",
    "INSERT INTO commented VALUES (1, 'a', 1)",
)


def test_comments(compared: Compared, unique_name: str) -> None:
    options = {
        **ALONE,
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
        ALONE | CASES[case], (KINDS, *ROWS), ROWS, {f"{unique_name}.kinds": 2 * len(ROWS)}
    )
    assert not found, "\n".join(found[:30])
