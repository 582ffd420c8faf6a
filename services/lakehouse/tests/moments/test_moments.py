"""All tables as of a commit, and every version of a row: by any history the same as PostgreSQL would have shown."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order
from lakelab.topics import MarkerTopic

from tidings_lakehouse.cli import main
from tidings_lakehouse.errors import MomentError
from tidings_lakehouse.history.history_sql import DUCKDB, SPARK
from tidings_lakehouse.reading import look
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.reading.views import create_views
from tidings_lakehouse.settings import HistorySettings

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

    from tidings_lakehouse.settings import WarehouseSettings

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PLACEHOLDER = "__debezium_unavailable_value"
STEPS, KEYS = 30, 6
FULLY, FOR_EVER = 6, 2**63
"""Positions that are asked for one by one; all others are looked up in the histories."""
State = dict[int, tuple[str, str]]


@dataclass
class History:
    """A random history of two tables: what the topics are given, and what the database showed after each commit."""

    tables: list[TableTopic]
    markers: MarkerTopic
    choose: random.Random
    lsn: int = 1000
    commit: int | None = None
    tx_id: int = 0
    order: int = 0
    now: list[State] = field(default_factory=lambda: [{}, {}])
    states: dict[int, list[State]] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)

    def snapshot(self) -> None:
        for number, table in enumerate(self.tables):
            for key in range(KEYS // 2):
                self.now[number][key] = ("placed", f"first {key}")
                table.change("r", self.row(number, key), None, self.lsn, snapshot="true", partition=key % 2)
        self.remember(self.lsn)

    def remember(self, position: int) -> None:
        self.states[position] = [dict(state) for state in self.now]

    def row(self, number: int, key: int) -> dict[str, Any]:
        status, note = self.now[number][key]
        return order(key, note, status=status)

    def send(self, number: int, method: str, *arguments: Any, **more: Any) -> None:
        self.order += 1
        self.sent.append((self.tables[number], (self.tx_id, self.order), method, arguments, more))
        self.again(self.sent[-1])

    def again(self, sent: Any) -> None:
        table, table.transaction, method, arguments, more = sent
        getattr(table, method)(*arguments, **more)
        table.transaction = None

    def transaction(self) -> None:
        before, counts = self.commit, [0, 0]
        self.tx_id, self.order = self.lsn + 1, 0
        for _ in range(self.choose.randint(1, 4)):
            number = self.choose.randrange(2)
            if self.choose.random() < 0.05:
                counts[number] += self.truncate(number, before)
            else:
                counts[number] += self.change(number, before)
        self.lsn += 10
        names = [table.topic.rpartition(".")[2] for table in self.tables]
        self.markers.end(self.tx_id, self.lsn, **{n: c for n, c in zip(names, counts, strict=True) if c})
        self.commit = self.lsn
        self.lsn += 10
        self.remember(self.commit)

    def truncate(self, number: int, before: int | None) -> int:
        if before is None:
            return 0
        self.lsn += 1
        self.now[number] = {}
        self.send(number, "truncate", before, self.lsn)
        return 1

    def change(self, number: int, before: int | None) -> int:
        self.lsn += 1
        lsn, state = self.lsn, self.now[number]
        key = self.choose.randrange(KEYS)
        partition = key % 2
        if key not in state:
            state[key] = ("placed", f"inserted {lsn}")
            self.send(number, "change", "c", self.row(number, key), before, lsn, partition=partition)
            return 1
        kind = self.choose.choice(["update", "toast", "toast", "delete", "move"])
        if kind == "delete":
            del state[key]
            self.send(number, "change", "d", {"id": key}, before, lsn, partition=partition)
        elif kind == "move" and len(state) < KEYS:  # the key changes: a delete and an insert of one LSN
            to = next(one for one in range(KEYS) if one not in state)
            state[to] = state.pop(key)
            self.send(number, "change", "d", {"id": key}, before, lsn, partition=partition)
            self.send(number, "change", "c", self.row(number, to), before, lsn, partition=to % 2)
            return 2
        else:
            state[key] = (f"status {lsn}", state[key][1] if kind == "toast" else f"note {lsn}")
            row = self.row(number, key)
            row["note"] = PLACEHOLDER if kind == "toast" else row["note"]
            self.send(number, "change", "u", row, before, lsn, partition=partition)
        return 1

    def read_again(self) -> None:
        """A chunk of an incremental snapshot: rows as they are now."""
        number = self.choose.randrange(2)
        for key in list(self.now[number]):
            row, commit, lsn = self.row(number, key), self.commit, self.lsn
            self.tables[number].read_again(row, commit, lsn, partition=key % 2)

    def repeat(self) -> None:
        """As a crash of capture does."""
        for sent in self.sent[-self.choose.randint(1, 8) :]:
            self.again(sent)


def states_in_lake(settings: HistorySettings, tables: list[str], position: int) -> list[State]:
    return [
        {row[0]: (row[1], row[2]) for row in look.select_as_of(settings, statement, str(position)).rows}  # type: ignore[misc]
        for statement in (f"select id, status, note from {table}" for table in tables)
    ]


@pytest.mark.turns
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_every_position_is_what_the_database_was(
    lake: Lake,
    topics: Topics,
    unique_name: str,
    reader: WarehouseSettings,
    seed: int,
) -> None:
    """Over truncates, changed keys, values that were not logged, repeated and late records, rows that were read again."""
    settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=unique_name)
    tables = [topics.table(f"{unique_name}.public.{name}_{unique_name}", partitions=2) for name in "ab"]
    history = History(tables, MarkerTopic(topics, unique_name), random.Random(seed))
    history.snapshot()
    for step in range(STEPS):
        history.transaction()
        if step > 2 and history.choose.random() < 0.15:
            history.read_again()
        if history.choose.random() < 0.1:
            history.repeat()
        if step == STEPS // 2:
            topics.flush()
            lake.drain()
    topics.flush()
    lake.drain()
    names = [table.table for table in tables]
    positions = [*history.states, *(position + 3 for position in history.states)]
    with duck_lake(settings) as duck:
        source = SourceTables(duck, unique_name)
        assert source.watermark == history.commit
        versions = [duck.execute(query) for query in source.histories().values()]
        asked = history.choose.sample(positions, FULLY)
        for position in positions:
            expected = history.states[max(one for one in history.states if one <= position)]
            if position > source.watermark:
                continue
            moment = source.moment(str(position)) if position in asked else None
            for number, name in enumerate(names):
                if moment is not None:
                    query = source.statement(name, moment, DUCKDB)
                    found = duck.execute(f"SELECT id, status, note FROM ({query}) ORDER BY id")
                else:
                    valid = [row for row in versions[number] if row[-4] <= position < (row[-3] or FOR_EVER)]
                    found = [row[:3] for row in valid]
                assert {row[0]: row[1:3] for row in found} == expected[number], (seed, position, name)
                assert len(found) == len(expected[number])
        moment = source.moment(str(list(history.states)[STEPS // 2]))
        queries = {
            f"{moment.namespace}.{n.partition('.')[2]}": source.statement(n, moment, SPARK) for n in names
        }
        histories = {f"{name}_history": source.history_statement(name, SPARK) for name in names}
        by_duck = [
            duck.execute(f"SELECT * EXCLUDE (amount) FROM ({query}) ORDER BY id, __valid_from_lsn")
            for query in source.histories().values()
        ]
        current = [duck.execute(f"SELECT id, status, note FROM {duck.view(name)}") for name in names]
    assert [{row[0]: row[1:] for row in rows} for rows in current] == history.now
    # The same by Spark, as views of the catalog.
    assert create_views(lake.session, queries | histories) == [*queries, *histories]
    for number, view in enumerate(queries):
        found = lake.rows(f"select id, status, note from {view}")
        assert {row[0]: row[1:] for row in found} == history.states[moment.position][number]
    for rows, name in zip(by_duck, names, strict=True):
        columns = "id, status, note, __valid_from_lsn, __valid_to_lsn"
        found = lake.rows(f"select {columns} from {name}_history order by id, __valid_from_lsn")
        assert found == [(*row[:3], *row[-4:-2]) for row in rows]
    for view in (*queries, *histories):
        lake.session.sql(f"DROP VIEW {view}")


@pytest.fixture
def changing(topics: Topics, unique_name: str) -> TableTopic:
    """The table of `two_commits`."""
    return topics.table(f"{unique_name}.public.m_{unique_name}")


@pytest.fixture
def two_commits(
    lake: Lake, topics: Topics, unique_name: str, reader: WarehouseSettings, changing: TableTopic
) -> HistorySettings:
    """Row 1 read at 100, changed by the commits at 120 and 140; another is on its way."""
    table = changing
    markers = MarkerTopic(topics, unique_name)
    table.change("r", order(1, "read"), None, 100, snapshot="last")
    table.change("u", order(1, "first"), 100, 110)
    markers.end(110, 120, **{f"m_{unique_name}": 1})
    table.change("u", order(1, "second"), 120, 130)
    markers.end(130, 140, **{f"m_{unique_name}": 1})
    table.change("u", order(1, "third"), 140, 150)
    topics.flush()
    lake.drain()
    return HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=unique_name)


def note_at(settings: HistorySettings, moment: str) -> str:
    statement = f"select note from technical.m_{settings.source}"
    return str(look.select_as_of(settings, statement, moment).rows[0][0])


def test_moments_and_their_refusals(two_commits: HistorySettings) -> None:
    def at(milliseconds: int) -> str:
        return (
            dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
        ).isoformat()

    found = {text: note_at(two_commits, text) for text in ("100", "119", "120", "0/78", "139", "140")}
    assert found == {
        "100": "read",
        "119": "read",
        "120": "first",
        "0/78": "first",
        "139": "first",
        "140": "second",
    }
    assert [note_at(two_commits, at(one)) for one in (105, 110, 129)] == ["read", "first", "first"]
    for moment, told in (
        ("141", "0/8D is above the watermark, 0/8C"),
        ("99", "the lake begins at 0/64"),
        (at(131), "whether more was committed"),
        ("yesterday", "neither a position nor a time"),
    ):
        with pytest.raises(MomentError, match=re.escape(told)):
            note_at(two_commits, moment)
    with pytest.raises(MomentError, match="no tables of the source nobody"):
        note_at(two_commits.model_copy(update={"source": "nobody"}), "120")


def test_a_history_says_from_when_to_when(two_commits: HistorySettings) -> None:
    rows = look.select_as_of(
        two_commits,
        f"select note, __valid_from_lsn, __valid_to_lsn from technical.m_{two_commits.source}_history order by 2",
        None,
    )
    assert rows.rows == [("read", 100, 120), ("first", 120, 140), ("second", 140, 141), ("third", 141, None)]


@pytest.mark.turns
def test_a_history_is_a_table_by_choice(
    two_commits: HistorySettings,
    lake: Lake,
    changing: TableTopic,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of when it was made, for readers that take no view of Spark's either; made anew by the same command."""
    table = f"technical.m_{two_commits.source}"
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(Path(two_commits.lakehouse_warehouse)))
    monkeypatch.setenv("TIDINGS_SOURCE", two_commits.source)
    monkeypatch.setattr("tidings_lakehouse.spark.session.create_session", lambda *_, **__: lake.session)
    monkeypatch.setattr(lake.session, "stop", lambda: None)
    asked = f"select note, __valid_from_lsn, __valid_to_lsn from {table}_history order by 2"
    four = [("read", 100, 120), ("first", 120, 140), ("second", 140, 141), ("third", 141, None)]

    def views(*options: str) -> str:
        """What is said of the table: other tests have left events."""
        assert main(["views", *options]) == 0
        said = capsys.readouterr().out.splitlines(keepends=True)
        return "".join(line for line in said if line.startswith(table))

    def by_duckdb() -> tuple[bool, list[Any]]:
        with duck_lake(two_commits) as duck:
            is_table = f"{table}_history" in duck.tables
        return is_table, list(look.select_as_of(two_commits, asked, None).rows)

    assert views() == f"{table}_history\n"
    assert by_duckdb() == (False, four)
    for _ in range(2):
        assert views("--materialise", r"technical\.m_.*") == f"{table}_history: a table of 4 versions\n"
        assert by_duckdb() == (True, four)
        assert lake.rows(asked) == four
    changing.change("u", order(1, "fourth"), 150, 160)
    changing.topics.flush()
    lake.drain()
    assert by_duckdb() == (True, four)
    assert views() == ""
    assert views("--materialise", re.escape(table)) == f"{table}_history: a table of 5 versions\n"
    five = by_duckdb()[1]
    assert [row[0] for row in five] == ["read", "first", "second", "third", "fourth"]
    # It is the view's again.
    assert views("--views", re.escape(table)) == f"{table}_history\n"
    assert by_duckdb() == (False, five)
    assert lake.rows(asked) == five
    lake.session.sql(f"DROP VIEW {table}_history")
    # A captured table of that name stays what it is.
    lake.session.sql(f"CREATE TABLE {table}_history (id bigint) USING iceberg")
    assert views("--materialise", re.escape(table)) == ""
    assert lake.session.table(f"{table}_history").columns == ["id"]
    lake.session.sql(f"DROP TABLE {table}_history")
    lake.drop_views()
    assert main(["views", "--materialise", "("]) == 2


def test_the_command_prints_what_duckdb_and_spark_take(
    two_commits: HistorySettings,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(Path(two_commits.lakehouse_warehouse)))
    monkeypatch.setenv("TIDINGS_SOURCE", two_commits.source)
    assert main(["as-of", "120"]) == 0
    comment, statement = capsys.readouterr().out.strip().split("\n")
    assert comment == "-- position 120, watermark 140"
    name, query = re.fullmatch(r"CREATE OR REPLACE VIEW (\S+) AS (.*);", statement).groups()  # type: ignore[union-attr]
    assert name == f"as_of_0_78.m_{two_commits.source}"
    assert [row[2] for row in lake.rows(query)] == ["first"]
    assert main(["as-of", "141"]) == 1
    assert "above the watermark" in capsys.readouterr().err
