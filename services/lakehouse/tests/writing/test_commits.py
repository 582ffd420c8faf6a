"""One writer: whatever a second job on the same tables does, and whenever, each record stands in a table once."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelab.lake import Lake
from py4j.protocol import Py4JJavaError
from pyspark.sql import types as st

from tidings_lakehouse.errors import SecondWriterError
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.spark.session import use_in_thread
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.tables import Table

if TYPE_CHECKING:
    from lakelab.topics import TableTopic
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def other(lake: Lake, tmp_path: Path) -> Lake:
    """Another job on the same warehouse, with a checkpoint of its own, as on another machine."""
    settings = lake.settings.model_copy(update={"lakehouse_checkpoint": str(tmp_path / "other")})
    return Lake(lake.session.newSession(), settings)


def test_the_second_job_stops_and_the_log_has_each_record_once(
    lake: Lake, other: Lake, orders: TableTopic
) -> None:
    """Both have read what the table holds; then one writes the record that the other is about to write."""
    row = dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at"))
    orders.change("c", {"id": 1, **row}, 10, 20)
    orders.change("c", {"id": 2, **row}, 10, 21)
    orders.topics.flush()
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 1})
    batches = []

    def overtake(point: str) -> None:
        if point == "survey":
            batches.append(point)
            if len(batches) == 2:
                other.drain()

    with pytest.raises(SecondWriterError, match=f"{orders.table}_log"):
        lake.drain(overtake)
    assert lake.rows(f"select id from {orders.table} order by id") == [(1,), (2,)]
    assert lake.rows(f"select count(*), count(distinct offset) from {orders.table}_log") == [(2, 2)]
    lake.drain()
    assert lake.rows(f"select count(*), count(distinct offset) from {orders.table}_log") == [(2, 2)]


@pytest.mark.parametrize("begins_empty", [True, False])
def test_of_two_commits_made_from_one_state_one_holds(
    session: SparkSession, unique_name: str, *, begins_empty: bool
) -> None:
    name = f"technical.{unique_name}"
    session.sql("CREATE NAMESPACE IF NOT EXISTS technical")
    session.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
    expected = []
    if not begins_empty:
        session.sql(f"INSERT INTO {name} VALUES (0)")
        expected.append((0,))
    first, second = Commits(session.newSession()), Commits(session.newSession())
    first.open(name)
    second.open(name)

    def overtaken() -> None:
        with first.staged(name) as ours:
            session.range(1, 2).writeTo(ours).append()
            with second.staged(name) as theirs:
                session.range(2, 3).writeTo(theirs).append()

    with pytest.raises(SecondWriterError, match=name):
        overtaken()
    with pytest.raises(SecondWriterError, match=name), first.staged(name):
        pytest.fail("it has been overtaken")
    with second.staged(name) as theirs:
        session.range(3, 4).writeTo(theirs).append()
    rows = [tuple(row) for row in session.sql(f"SELECT id FROM {name} ORDER BY id").collect()]
    assert rows == [*expected, (2,), (3,)]


def test_a_compaction_is_no_other_writer(session: SparkSession, unique_name: str) -> None:
    name = f"technical.{unique_name}"
    session.sql("CREATE NAMESPACE IF NOT EXISTS technical")
    session.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
    commits = Commits(session.newSession())
    commits.open(name)
    for number in range(3):
        with commits.staged(name) as staged:
            session.range(number, number + 1).writeTo(staged).append()
    session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    with commits.staged(name) as staged:
        session.range(3, 4).writeTo(staged).append()
    assert session.table(name).count() == 4


def test_rows_are_prepared_again_when_a_compaction_comes_first(
    session: SparkSession, unique_name: str
) -> None:
    """Their deletes name files that are not the table's any more."""
    name = f"technical.{unique_name}"
    session.sql("CREATE NAMESPACE IF NOT EXISTS technical")
    session.sql(
        f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    commits = Commits(session)
    commits.open(name)
    maintenance = Maintenance(session, commits, commits=1, keep_snapshots=1, keep_seconds=0)
    for number in range(5):
        commits.write(name, lambda staged, n=number: session.range(n, n + 1).writeTo(staged).append())  # type: ignore[misc]
    turns = []

    def change(staged: str) -> None:
        turns.append(staged)
        session.sql(f"DELETE FROM {staged} WHERE id = 3")
        session.range(10, 11).writeTo(staged).append()
        if len(turns) == 1:
            maintenance.compact(name)

    commits.write(name, change, {"note": 7})
    assert len(turns) == 2
    rows = [tuple(row) for row in session.sql(f"SELECT id FROM {name} ORDER BY id").collect()]
    assert rows == [(0,), (1,), (2,), (4,), (10,)]
    assert commits.noted(name) == {"note": 7}
    assert session.table(f"{name}.files").count() < 5


def test_columns_are_changed_while_somebody_commits_to_the_table(
    session: SparkSession, unique_name: str
) -> None:
    """As a compaction does beside the job: Iceberg tries a change of columns once, and says that it lost the race."""
    session.sql("CREATE NAMESPACE IF NOT EXISTS technical")
    name, number = f"technical.{unique_name}", st.StructField("id", st.LongType())
    commits, somebody = Commits(session), Commits(session.newSession())
    table = Table(session, name, "t", commits)
    table.ensure(st.StructType([number]))
    ended = threading.Event()

    def commit() -> int:
        """Again and again; a property's commit is tried anew when it loses."""
        use_in_thread(session)
        count = 0
        while not ended.is_set():
            count += 1
            with contextlib.suppress(Py4JJavaError):
                somebody.set_properties(name, {"somebody": str(count)})
        return count

    columns = [f"c{place}" for place in range(12)]
    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(commit)
        try:
            for place in range(len(columns)):
                some = [st.StructField(column, st.IntegerType()) for column in columns[: place + 1]]
                table.ensure(st.StructType([number, *some]))
                table.comment({columns[place]: f"what {place} is for"})
            table.ensure(st.StructType([number, *(st.StructField(c, st.LongType()) for c in columns)]))
        finally:
            ended.set()
    assert others.result() > len(columns)
    held = session.table(name).schema
    assert held.names == ["id", *columns]
    assert {field.dataType for field in held.fields} == {st.LongType()}
    assert held["c11"].metadata == {"comment": "what 11 is for"}
