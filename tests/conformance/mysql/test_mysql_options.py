"""Options of MySQL's connector beside Debezium's: what MariaDB's has no test for, or what MySQL has other types for."""

import pytest
from binlog.options import Compared
from binlog.sides import ALONE
from binlog.values import KINDS, ROWS

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


@pytest.mark.parametrize("filters", ["true", "false"])
def test_sources_of_transactions(filters: str, compared: Compared, unique_name: str) -> None:
    """Transactions of other servers; a definition counts whosever it is."""
    # No test before has named a transaction so, which a server passes over.
    other, third = (f"{kind}aaaaaaa-0000-0000-0000-0000{unique_name[1:]}" for kind in "ab")
    options = {"gtid.source.excludes": f"{other},BAAA.*", "gtid.source.filter.dml.events": filters}
    rows = (
        "INSERT INTO t VALUES (1, 'a')",
        f"SET GTID_NEXT = '{other}:1'",
        "INSERT INTO t VALUES (2, 'b')",
        f"SET GTID_NEXT = '{other}:2'",
        "ALTER TABLE t ADD more INT",
        f"SET GTID_NEXT = '{third}:7'",
        "UPDATE t SET more = id",
        "SET GTID_NEXT = 'AUTOMATIC'",
        "INSERT INTO t VALUES (4, 'd', 4)",
        "DELETE FROM t WHERE id = 2",
    )
    tables = ("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(9))", "INSERT INTO t VALUES (0, '')")
    found = compared.differences(
        ALONE | options, tables, rows, {f"{unique_name}.t": 5 if filters == "true" else 9}
    )
    assert not found, "\n".join(found[:30])
