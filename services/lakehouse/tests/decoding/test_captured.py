"""What a real capture tells of a real PostgreSQL's DDL reaches the lake's columns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from lakelab.capturing import capturing, records_on
from pyspark.errors import AnalysisException

from tidings_lakehouse.history.history_sql import SPARK
from tidings_lakehouse.reading import look
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.reading.views import create_views
from tidings_lakehouse.settings import HistorySettings
from tidings_lakehouse.tables.naming import Interval, Rename, intervals
from tidings_lakehouse.writing.renames import renames_told
from tidings_stack.connect import connector_settings
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

    from tidings_lakehouse.settings import WarehouseSettings


class Captured:
    """A database whose table `t_<name>` is captured."""

    def __init__(self, lake: Lake, database: str, name: str) -> None:
        self.lake, self.name, self.table = lake, name, f"t_{name}"
        self._database = database
        self.note = "note"
        """What the column of that name is called now."""

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database, autocommit=True) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[call-overload]

    def source_watermark(self, beyond: int) -> int | None:
        """Up to which commit all is in the lake, once that is beyond a position."""
        self.lake.drain()
        found = self.lake.rows(
            f"select commit_lsn from tidings.watermark where topic = '{self.name}.transaction'"
        )
        return found[0][0] if found and (found[0][0] or 0) > beyond else None

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def drain(self, records: int) -> None:
        """Write what is on the topics, when the table's has got so many records."""
        self.wait(records)
        self.lake.drain()

    def wait(self, records: int) -> None:
        """Until the table's topic has got so many records."""
        topic = f"{self.name}.public.{self.table}"
        wait_for(f"{records} records on {topic}", lambda: records_on(self.lake, topic) >= records)

    def required(self) -> set[str]:
        """Columns that may not be null."""
        return {
            one.name for one in self.lake.session.table(f"technical.{self.table}").schema if not one.nullable
        }

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        return self.lake.rows(f"select {columns} from technical.{self.table} order by id")


@pytest.fixture
def captured(lake: Lake, pg_database: str, unique_name: str, tmp_path: Path) -> Iterator[Captured]:
    """With the event trigger, and two rows in the first snapshot."""
    found = Captured(lake, pg_database, unique_name)
    command = [str(Path(sys.executable).with_name("tidings-capture")), "ddl", "install", pg_database]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    found.sql(
        f"CREATE TABLE {found.table} (id int PRIMARY KEY, n int DEFAULT 3, note text NOT NULL DEFAULT '')",
        f"INSERT INTO {found.table} VALUES (1, 1, 'one'), (2, 2, 'two')",
    )
    config = connector_settings(
        pg_database,
        **{
            "slot.name": unique_name,
            "publication.name": unique_name,
            "publication.autocreate.mode": "all_tables",
            "table.include.list": f"public.{found.table}",
            "tidings.schema.changes": "true",
            "provide.transaction.metadata": "true",
        },
    )
    with capturing(lake, tmp_path, unique_name, config):
        yield found


@pytest.mark.spark
@pytest.mark.stack
def test_a_null_of_a_column_with_a_default_is_null(captured: Captured) -> None:
    """Kafka Connect's converters write the default for it, if nothing else is said."""
    captured.sql(
        f"INSERT INTO {captured.table} (id, n) VALUES (3, NULL), (4, DEFAULT)",
        f"UPDATE {captured.table} SET n = NULL WHERE id = 1",
    )
    captured.drain(5)
    assert captured.rows("id, n") == [(1, None), (2, 2), (3, None), (4, 3)]


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_renamed_and_added_columns_have_the_values_that_the_database_has(
    captured: Captured, topics: Topics
) -> None:
    """Also of rows from before the statement, whichever batch brings them, and with a checkpoint that is lost."""
    table, lake = captured.table, captured.lake
    captured.wait(2)

    def watermark() -> int | None:
        lake.drain()
        found = lake.rows(f"select commit_lsn from tidings.watermark where table_name = 'technical.{table}'")
        return found[0][0] if found else None

    assert wait_for("a watermark at rest", watermark) > 0
    assert captured.required() == {"id", "note"}
    captured.sql(f"UPDATE {table} SET n = 20 WHERE id = 2")
    captured.wait(3)  # of a column that is there no more capture does not know that it may not be null
    captured.sql(
        f"ALTER TABLE {table} RENAME COLUMN note TO memo",
        f"INSERT INTO {table} VALUES (3, 3, 'three')",
    )
    captured.wait(4)
    captured.sql(
        f"ALTER TABLE {table} ADD COLUMN channel text NOT NULL DEFAULT 'web'",
        f"INSERT INTO {table} VALUES (4, 4, 'four', 'shop')",
    )
    captured.drain(5)
    filled = [(1, 1, "one", "web"), (2, 20, "two", "web"), (3, 3, "three", "web"), (4, 4, "four", "shop")]
    assert captured.rows("id, n, memo, channel") == filled
    assert "note" not in lake.session.table(f"technical.{table}").columns
    assert captured.required() == {"id", "memo"}
    logged = f"select after.memo from technical.{table}_log order by lsn, after.id"
    assert lake.rows(logged) == [("one",), ("two",), ("two",), ("three",), ("four",)]
    captured.sql(
        f"ALTER TABLE {table} RENAME COLUMN n TO number",
        f"ALTER TABLE {table} ADD COLUMN n int",
        f"UPDATE {table} SET n = 100 WHERE id = 1",
        f"ALTER TABLE {table} RENAME COLUMN memo TO note",
        f"INSERT INTO {table} VALUES (5, 5, 'five', 'shop', 500)",
    )
    captured.drain(7)
    last = [
        (1, 1, "one", 100),
        (2, 20, "two", None),
        (3, 3, "three", None),
        (4, 4, "four", None),
        (5, 5, "five", 500),
    ]
    assert captured.rows("id, number, note, n") == last
    lake.forget()
    lake.session.sql(f"DROP TABLE technical.{table}")
    lake.session.sql(f"DROP TABLE technical.{table}_log")
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 12})
    lake.drain()
    assert captured.rows("id, number, note, n") == last
    assert captured.rows("channel")[0] == ("web",)
    for part in ("key", "value"):  # another key is not compatible
        topics.allow_any(f"{captured.name}.public.{table}-{part}")
    captured.sql(f"ALTER TABLE {table} RENAME COLUMN id TO ident")
    captured.sql(f"UPDATE {table} SET n = 200 WHERE ident = 1")
    captured.drain(8)
    assert "ident" in captured.required()
    assert lake.rows(f"select n from technical.{table} where ident = 1") == [(200,)]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_renamed_and_marked_columns_are_read_at_every_moment(
    captured: Captured, reader: WarehouseSettings
) -> None:
    """By all readers, rows from before a rename too, and infinite moments with their marks."""
    table, lake = captured.table, captured.lake
    lake.settings = lake.settings.model_copy(update={"lakehouse_infinite": r"technical\..*=null"})
    settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=captured.name)
    shown: dict[int, list[tuple[Any, ...]]] = {}

    def remember(records: int) -> None:
        """What the database shows, at the position of its last commit."""
        found = captured.ask(
            f"SELECT id, {captured.note}, CASE WHEN isfinite(until) THEN until::text END,"
            f" CASE WHEN isfinite(until) THEN NULL ELSE until::text END FROM {table} ORDER BY id"
        )
        captured.wait(records)
        position = wait_for("the watermark", lambda: captured.source_watermark(max(shown, default=0)))
        shown[position] = found

    captured.sql(
        f"ALTER TABLE {table} ADD COLUMN until date",
        f"UPDATE {table} SET until = 'infinity' WHERE id = 1",
    )
    remember(3)
    captured.sql(f"INSERT INTO {table} VALUES (3, 3, 'three', '-infinity'), (4, 4, 'four', '2024-05-06')")
    remember(5)
    view = create_views(lake.session, _views(settings, table, max(shown)))[0]
    captured.sql(f"ALTER TABLE {table} RENAME COLUMN note TO memo")
    captured.note = "memo"
    captured.sql(f"UPDATE {table} SET memo = 'changed', until = 'infinity' WHERE id = 4")
    remember(6)
    captured.sql(f"UPDATE {table} SET until = '2024-07-08' WHERE id = 1", f"DELETE FROM {table} WHERE id = 2")
    remember(8)
    assert len(shown) == 4

    columns = "id, memo, cast(until as string), until__infinite"
    now = f"select {columns} from technical.{table} order by id"
    assert lake.rows(now) == shown[max(shown)]
    assert look.select(reader, now).rows == shown[max(shown)]
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        lake.rows(f"select id from {view}")  # it has to be made anew
    for position, rows in shown.items():
        assert look.select_as_of(settings, now, str(position)).rows == rows, position
        (made,) = create_views(lake.session, _views(settings, table, position))
        assert lake.rows(f"select {columns} from {made} order by id") == rows, position
    history = f"select {columns}, __valid_from_lsn from technical.{table}_history"
    versions = look.select_as_of(settings, history, None).rows
    assert {row[:4] for row in versions} >= {row for rows in shown.values() for row in rows}
    assert lake.rows(f"select memo from {view} where id = 4") == [("four",)]


def _views(settings: HistorySettings, table: str, position: int) -> dict[str, str]:
    """The view of a table as of a position."""
    with duck_lake(settings) as duck:
        source = SourceTables(duck, settings.source)
        moment = source.moment(str(position))
        return {f"{moment.namespace}.{table}": source.statement(f"technical.{table}", moment, SPARK)}


def table_of(*names: str, kind: str = "text") -> dict[str, Any]:
    return {"columns": [{"name": name, "type": kind} for name in names]}


@pytest.mark.parametrize(
    ("before", "after", "statement", "told"),
    [
        (table_of("a", "b"), table_of("x", "b"), None, [("a", "x")]),
        (table_of("a", "b"), table_of("a", "x"), None, []),  # or dropped, and another added behind it
        (table_of("a", "b"), table_of("a", "x"), "ALTER TABLE t DROP b, ADD x text", []),
        (table_of("a", "b"), table_of("a", "x"), "alter table t rename b to x", [("b", "x")]),
        (table_of("a", "b"), table_of("x", "b", kind="int"), None, []),
        (table_of("a"), table_of("a", "b"), "ALTER TABLE t ADD b text", []),
        (None, table_of("a"), "CREATE TABLE t (a text)", []),
    ],
)
def test_what_a_schema_change_tells_of_renames(
    before: Any, after: Any, statement: str | None, told: list[tuple[str, str]]
) -> None:
    assert renames_told({"before": before, "after": after, "statement": statement}) == told


def test_what_a_field_is_called_now() -> None:
    renames = [Rename(10, "a", "b"), Rename(20, "b", "c")]
    assert intervals("a", renames, {"c"}) == [Interval("c", None, None)]
    assert intervals("a", renames, {"a", "c"}) == [Interval("c", None, 10), Interval("a", 10, None)]
    assert intervals("b", renames, {"c"}) == [Interval("c", None, None)]
    assert intervals("c", renames, {"c"}) == [Interval("c", None, None)]
    assert intervals("a", [Rename(10, "a", "b"), Rename(20, "b", "a")], {"a"}) == [Interval("a", None, None)]
