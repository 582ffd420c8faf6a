"""The small files of a table's last batches are put together between two times that it is looked after; no row changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order
from prometheus_client import REGISTRY

from tidings_lakehouse.layout_rules import layout_rules
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.spark.small_files import SmallFiles
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.table_counts import row_count
from tidings_lakehouse.tables.tables import Table

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Numbers:
    """A table of numbers; every append makes a file."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self.session, self.name = session, f"technical.{name}"
        self.local = LocalRows(session, 1000)
        self.lay_out("")

    def lay_out(self, how: str) -> None:
        """As a job would that has begun with the setting; ``bucket(3)``."""
        self.commits = Commits(self.session, layout_rules(f".*={how}" if how else ""))
        self.table = Table(self.session, self.name, "t", self.commits)
        self.table.ensure(self.session.sql("SELECT id AS number FROM range(0)").schema, keys=["number"])

    def add(self, *ranges: range) -> None:
        for one in ranges:
            rows = self.session.sql(f"SELECT id AS number FROM range({one.start}, {one.stop})")
            assert self.commits.append(self.name, self.local.collected(rows), {"to": one.stop})

    def delete(self, condition: str) -> None:
        self.commits.write(
            self.name, lambda name: self.session.sql(f"DELETE FROM lake.{name} WHERE {condition}") and None
        )

    def put_together(self, least: int = 2) -> int:
        files = SmallFiles(self.session)
        return self.commits.looked_at(self.name, lambda held: files.put_together(held, least))

    def numbers(self) -> list[int]:
        found = sorted(row[0] for row in self.session.table(self.name).collect())
        assert row_count(self.session, self.name) == len(found)
        return found

    def files(self) -> tuple[int, int]:
        """Data files and delete files."""
        data, deletes = (
            self.session.table(f"{self.name}.{kind}").count() for kind in ("data_files", "delete_files")
        )
        return data, deletes

    def operations(self) -> list[str]:
        rows = self.session.sql(f"SELECT operation FROM {self.name}.snapshots ORDER BY committed_at")
        return [row[0] for row in rows.collect()]


@pytest.fixture
def numbers(session: SparkSession, unique_name: str) -> Numbers:
    return Numbers(session, unique_name)


def _maintenance(numbers: Numbers, join_commits: int, commits: int = 100) -> Maintenance:
    return Maintenance(
        numbers.session,
        numbers.commits,
        commits=commits,
        join_commits=join_commits,
        keep_snapshots=1,
        keep_seconds=0,
    )


def _counted(numbers: Numbers, result: str) -> float:
    labels = {"table": numbers.name, "result": result}
    return REGISTRY.get_sample_value("tidings_lakehouse_maintenance_total", labels) or 0.0


@pytest.mark.stack
def test_a_table_of_many_small_batches_has_few_files(lake: Lake, orders: TableTopic) -> None:
    """By the job's defaults, and the rows are as they were."""
    for number in range(24):
        orders.change("u" if number > 3 else "c", order(number % 4, f"n{number}"), 10 + number, 11 + number)
    orders.topics.flush()
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 2})
    with lake.running():
        names, deadline = (orders.table, f"{orders.table}_log"), time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(0.5)
            if all(lake.session.catalog.tableExists(f"lake.{name}") for name in names):
                held = lake.rows(f"select count(*) from {names[1]}")[0][0]
                files = [lake.rows(f"select count(*) from {name}.data_files")[0][0] for name in names]
                if held == 24 and max(files) <= 6:
                    break
        else:
            pytest.fail(f"{held} rows, files: {files}")
    assert lake.rows(f"select id, note from {names[0]} order by id") == [
        (number, f"n{number + 20}") for number in range(4)
    ]


def test_small_files_become_one_without_their_deleted_rows(numbers: Numbers) -> None:
    numbers.add(range(10), range(10, 20), range(20, 30))
    numbers.delete("number in (3, 13)")
    assert numbers.files() == (3, 2)
    kept = numbers.numbers()
    assert numbers.put_together(4) == 0
    assert numbers.put_together(3) == 3
    assert numbers.files() == (1, 0)
    assert numbers.numbers() == kept == [n for n in range(30) if n not in {3, 13}]
    assert numbers.operations()[-1] == "replace"
    # For the job nobody has written: what it has noted is true, and it goes on.
    assert numbers.commits.noted(numbers.name) == {"to": 30}
    numbers.add(range(30, 31))
    assert numbers.files() == (2, 0)
    assert len(numbers.numbers()) == 29


def test_a_large_file_stays_with_its_deleted_rows(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers.add(range(1000))
    size = numbers.session.table(f"{numbers.name}.data_files").first()["file_size_in_bytes"]  # type: ignore[index]
    monkeypatch.setitem(SmallFiles.OPTIONS, "min-file-size-bytes", size)
    numbers.add(range(1000, 1010), range(1010, 1020))
    numbers.delete("number % 10 = 0")
    assert numbers.files() == (3, 3)
    assert numbers.put_together() == 2
    assert numbers.files() == (2, 1)
    assert len(numbers.numbers()) == 918


def test_files_of_which_every_row_is_deleted_go(numbers: Numbers) -> None:
    numbers.add(range(10), range(10, 20))
    numbers.delete("number <> 4 and number < 20 and number >= 0 and number % 2 = 0")
    numbers.delete("number % 2 = 1")
    numbers.delete("number = 4")
    assert numbers.numbers() == []
    assert numbers.put_together() in (0, 2)  # Spark lets a file go of which all rows are deleted at once
    assert numbers.files() == (0, 0)
    assert numbers.numbers() == []


def test_rows_stay_in_their_partitions_and_former_layouts_as_they_are(numbers: Numbers) -> None:
    numbers.add(range(10), range(10, 20))
    numbers.lay_out("bucket(3)")
    assert numbers.put_together() == 0
    numbers.add(range(20, 40), range(40, 60))
    assert numbers.files() == (8, 0)
    assert numbers.put_together() == 6
    assert numbers.files() == (5, 0)
    assert numbers.numbers() == list(range(60))
    for number in range(60):  # a file of the wrong bucket would be left out
        assert numbers.session.table(numbers.name).where(f"number = {number}").count() == 1
    partitions = numbers.session.table(f"{numbers.name}.partitions").select("spec_id", "file_count").collect()
    assert sorted(row["file_count"] for row in partitions if row["spec_id"]) == [1, 1, 1]


def test_tables_of_version_3_are_left_to_their_upkeep(numbers: Numbers) -> None:
    numbers.session.sql(f"ALTER TABLE {numbers.name} SET TBLPROPERTIES ('format-version' = '3')")
    numbers.add(range(10), range(10, 20))
    assert numbers.put_together() == 0
    assert numbers.files() == (2, 0)


def test_it_comes_after_some_commits_and_rests(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the time is the most that it takes."""
    maintenance = _maintenance(numbers, 3)

    def commit(times: int) -> None:
        for number in range(times):
            numbers.add(range(number, number + 1))
            maintenance.after([numbers.name])
            maintenance.run_due()

    commit(2)
    assert numbers.files() == (2, 0)
    commit(1)
    assert numbers.files() == (1, 0)
    assert _counted(numbers, "joined") == 1
    commit(3)
    assert numbers.files() == (4, 0)  # not yet
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3600)
    maintenance.run_due()
    assert numbers.files() == (1, 0)
    assert _counted(numbers, "joined") == 2
    assert _counted(numbers, "done") == 0


@pytest.mark.parametrize(("commits", "join_commits"), [(100, 0), (0, 1)])
def test_it_can_be_turned_off(numbers: Numbers, commits: int, join_commits: int) -> None:
    """Also with the upkeep: somebody else may look after the tables then."""
    maintenance = _maintenance(numbers, join_commits, commits)
    for number in range(6):
        numbers.add(range(number, number + 1))
        maintenance.after([numbers.name])
        maintenance.run_due()
    assert numbers.files() == (6, 0)


def test_it_stays_turned_off_when_a_table_has_been_looked_after(numbers: Numbers) -> None:
    maintenance = _maintenance(numbers, 0, commits=2)
    for number in range(2):
        numbers.add(range(number, number + 1))
        maintenance.after([numbers.name])
    for _ in range(2):
        maintenance.run_due()
    assert _counted(numbers, "done") == 1
    assert numbers.files() == (2, 0)  # too few for the upkeep


def test_a_failure_is_told_and_leaves_the_upkeep_its_turn(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance = _maintenance(numbers, 2, commits=6)
    hours = iter(range(1_000_000, 10_000_000, 3600))
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))  # it has always rested

    def fail(*_: Any) -> int:
        numbers.session.sql("SELECT raise_error('away')").collect()
        return 0

    def commit(*ends: int) -> None:
        for number in ends:
            numbers.add(range(number, number + 1))
            maintenance.after([numbers.name])
            maintenance.run_due()

    with monkeypatch.context() as patch:
        patch.setattr(SmallFiles, "put_together", fail)
        commit(*range(6))
    assert _counted(numbers, "failed") == 1
    assert _counted(numbers, "done") == 1
    assert numbers.files() == (1, 0)
    assert numbers.numbers() == [0, 1, 2, 3, 4, 5]
    commit(6, 7)
    assert _counted(numbers, "joined") == 1
    assert numbers.files() == (1, 0)


def test_readers_open_few_manifests(numbers: Numbers) -> None:
    numbers.add(*(range(number, number + 2) for number in range(12)))
    assert numbers.session.table(f"{numbers.name}.manifests").count() <= 5


@pytest.mark.parametrize("chosen", ["", "50"])
def test_a_table_of_a_former_release_gets_few_manifests_where_nobody_has_chosen(
    numbers: Numbers, chosen: str
) -> None:
    name = "commit.manifest.min-count-to-merge"
    numbers.session.sql(f"ALTER TABLE {numbers.name} UNSET TBLPROPERTIES ('{name}')")
    if chosen:
        numbers.session.sql(f"ALTER TABLE {numbers.name} SET TBLPROPERTIES ('{name}' = '{chosen}')")
    numbers.lay_out("")
    assert numbers.commits.property(numbers.name, name) == (chosen or "5")
