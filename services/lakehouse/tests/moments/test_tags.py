"""Tags of all tables at one commit: made where they are exact, kept over upkeep, refused elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order
from lakelab.topics import MarkerTopic
from pyspark.sql import SparkSession

from tidings_lakehouse.cli import main
from tidings_lakehouse.erasing.files import FormerFiles
from tidings_lakehouse.errors import ErasureError, MomentError
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tagging.tags import Tags, check_name

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

    from tidings_lakehouse.settings import WarehouseSettings


@pytest.mark.parametrize("name", ["", "main", "tidings_1", "a b", "-a", "a'"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(MomentError, match="is not a name for a tag"):
        check_name(name)


class Command:
    """The command, on the session of the tests."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main(list(words))
        out, err = self.capsys.readouterr()
        return code, out + err


@pytest.fixture
def command(
    lake: Lake,
    reader: WarehouseSettings,
    unique_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(Path(reader.lakehouse_warehouse)))
    monkeypatch.setenv("TIDINGS_SOURCE", unique_name)
    monkeypatch.setattr("tidings_lakehouse.tagging.command._session", lambda _: lake.session)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    return Command(capsys)


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(600)
def test_tags_are_made_where_they_are_exact(
    lake: Lake, topics: Topics, unique_name: str, command: Command
) -> None:
    first, second = (topics.table(f"{unique_name}.public.{name}_{unique_name}") for name in "ab")
    markers = MarkerTopic(topics, unique_name)

    def both(commit: int, *, is_whole: bool = True, op: str = "u") -> None:
        """A transaction on both tables, behind the commit before it, of which a part may not have come yet."""
        lsn, tables = commit - 10, (first, second) if is_whole else (first,)
        for number, table in enumerate(tables):
            table.transaction = (lsn, number + 1)
            table.change(op, order(1, f"at {commit}"), commit - 20, lsn + number)
        names = {f"{name}_{unique_name}": 1 for name in "ab"}
        markers.end(lsn, commit, **names)
        topics.flush()

    for table in (first, second):
        table.change("r", order(1, "read"), None, 80, snapshot="last")
        table.change("r", order(2, "read"), None, 80, snapshot="last")
    both(100)
    lake.drain()
    assert command("as-of", "100", "--tag", "one") == (0, any_snapshots(first.table, second.table))
    again, told = command("as-of", "100", "--tag", "one")
    assert (again, "there is a tag one" in told) == (1, True)
    # The second transaction is half there: the newest snapshot of the first table is no position's.
    both(120, is_whole=False)
    lake.drain()
    code, told = command("as-of", "0/64", "--tag", "two")
    assert code == 0, told
    held = tagged_rows(lake, first.table, "two")
    assert held == tagged_rows(lake, first.table, "one") == {1: "at 100", 2: "read"}
    refused, told = command("as-of", "120", "--tag", "half")
    assert (refused, "above the watermark" in told) == (1, True)
    # Its other half comes with a third transaction: no snapshot of the second table is between them.
    second.transaction = (110, 2)
    second.change("u", order(1, "at 120"), 100, 111)
    both(140, op="d")
    lake.drain()
    code, told = command("as-of", "120", "--tag", "half")
    assert code == 1
    told = " ".join(told.split())
    assert f"{second.table}: the nearest of its" in told
    assert f"{first.table}: the nearest" not in told
    assert "half" not in json.dumps(tags(command))
    assert command("as-of", "140", "--tag", "three")[0] == 0
    # Upkeep removes every snapshot that nothing keeps.
    for table in (first.table, second.table):
        upkeep(lake, table)
        assert tagged_rows(lake, table, "one") == {1: "at 100", 2: "read"}
        assert tagged_rows(lake, table, "three") == {2: "read"}
    both(160)
    lake.drain()
    assert tagged_rows(lake, first.table, "one") == {1: "at 100", 2: "read"}
    own = [row for row in tags(command) if row["table"] in {first.table, second.table}]
    assert {(row["tag"], row["position"]) for row in own} == {
        ("one", "0/64"),
        ("two", "0/64"),
        ("three", "0/8C"),
    }
    with pytest.raises(ErasureError, match="tag one"):
        FormerFiles(lake.session, Commits(lake.session)).check(first.table)
    for name in ("one", "two", "three"):
        assert command("tags", "--drop", name) == (0, f"{first.table}\n{second.table}\n")
    assert command("tags", "--drop", "one")[0] == 1
    upkeep(lake, first.table)
    assert lake.rows(f"select count(*) from {first.table}.snapshots where snapshot_id <> "
                     f"(select snapshot_id from {first.table}.refs where name = 'main')") == [(0,)]  # fmt: skip


@pytest.mark.spark
@pytest.mark.stack
def test_all_tables_are_tagged_or_none(lake: Lake, topics: Topics, unique_name: str) -> None:
    tables = [topics.table(f"{unique_name}.public.{name}_{unique_name}") for name in "ab"]
    for table in tables:
        table.change("c", order(1), 100, 110)
    topics.flush()
    lake.drain()
    names = [table.table for table in tables]
    snapshot = lake.rows(f"select snapshot_id from {names[0]}.refs")[0][0]
    with pytest.raises(MomentError, match=rf"{names[1]} could not be tagged, so no table is: .*"):
        Tags(lake.session).make("x", {names[0]: snapshot, names[1]: 7}, 100)
    assert lake.rows(f"select name from {names[0]}.refs") == [("main",)]


def upkeep(lake: Lake, table: str) -> None:
    """Have a table looked after that keeps no snapshot but its newest."""
    Maintenance(lake.session, Commits(lake.session), commits=1, keep_snapshots=1, keep_seconds=0).compact(
        table
    )


def any_snapshots(*tables: str) -> Any:
    """What the command prints: a line a table."""

    class Lines:
        def __eq__(self, other: object) -> bool:
            return bool(re.fullmatch("".join(rf"{table} \d+\n" for table in tables), str(other)))

        __hash__ = None  # type: ignore[assignment]

    return Lines()


def tagged_rows(lake: Lake, table: str, tag: str) -> dict[Any, Any]:
    return dict(lake.rows(f"select id, note from {table} version as of '{tag}'"))


def tags(command: Command) -> list[dict[str, Any]]:
    code, told = command("tags", "--json")
    assert code == 0
    return [json.loads(line) for line in told.splitlines()]
