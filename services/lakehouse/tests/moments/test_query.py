"""What `tidings-lakehouse sql` runs and refuses, and how it prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.reading.query import answer
from tidings_lakehouse.reading.rows import Rows, print_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_values_that_python_has_not(session: SparkSession) -> None:
    rows = answer(
        session,
        "select timestamp_micros(9223372036825200000) as t, X'00ff' as b, named_struct('a', 1) as s, 1.50 as d",
    )
    assert rows == Rows(
        ("t", "b", "s", "d"),
        [("+294247-01-10 04:00:25.2", "00FF", '{"a":1}', rows.rows[0][3])],
        (False, False, False, True),
    )


@pytest.mark.parametrize(
    "statement",
    [
        "drop table technical.orders",
        "insert into t values (1)",
        "with x as (select 1) insert into t select * from x",
        "from (select 1 as a) insert into t select a",
        "delete from t",
        "call lake.system.expire_snapshots('t')",
        "create table t (a int)",
        "set spark.sql.shuffle.partitions = 1",
    ],
)
def test_what_writes_is_refused(session: SparkSession, statement: str) -> None:
    with pytest.raises(QueryError, match="only statements that read"):
        answer(session, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "show functions like 'abs'",
        "values (1), (2)",
        "(select 1)",
        "explain select 1",
        "with x as (select 1) select * from x;",
    ],
)
def test_what_reads_is_run(session: SparkSession, statement: str) -> None:
    assert answer(session, statement).rows


def test_a_mistake_is_one_line(session: SparkSession) -> None:
    with pytest.raises(QueryError, match="TABLE_OR_VIEW_NOT_FOUND") as error:
        answer(session, "select * from technical.nothing_of_that_name")
    assert "\n" not in str(error.value)


def test_forms(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Rows(("id", "note"), [(1, "a,b"), (2, None)], (True, False))
    print_rows(rows, "json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"id": 1, "note": "a,b"},
        {"id": 2, "note": None},
    ]
    print_rows(rows, "csv")
    assert capsys.readouterr().out.splitlines() == ["id,note", '1,"a,b"', "2,"]
    print_rows(rows, "table")
    shown = capsys.readouterr().out
    assert "a,b" in shown
    assert "2 rows" in shown
