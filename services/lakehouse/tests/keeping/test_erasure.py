"""What is erased is in no file any more, is not written again, and everything else is as it was."""

from __future__ import annotations

import fcntl
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import duckdb
import fastavro
import pytest
from lakelab.lake import CrashError
from lakelab.topics import MarkerTopic

from tidings_lakehouse.cli import main
from tidings_lakehouse.erasing.files import FormerFiles
from tidings_lakehouse.erasing.selection import Condition, Selection
from tidings_lakehouse.history.history_sql import DUCKDB
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.settings import HistorySettings

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(900)]

PERSON = "~zq-4711"
"""Short enough to be whole in the least and greatest values of a file's columns, and the greatest of all."""
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
]
OWNED = [
    {"name": "id", "type": "long"},
    {"name": "owner", "type": ["null", "string"], "default": None},
]
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Moved",
    "fields": [
        {
            "name": "who",
            "type": {"type": "record", "name": "Who", "fields": [{"name": "name", "type": "string"}]},
        },
    ],
}
Erase = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def erase(lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Erase:
    """Runs the command; gives its exit code, the rows that it prints, and what it says."""
    monkeypatch.setenv("TIDINGS_REGISTRY", str(lake.settings.registry))
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(warehouse(lake)))

    def session(*_: Any, **__: Any) -> SparkSession:
        """One of the JVM that there is."""
        session = lake.session.newSession()
        monkeypatch.setattr(session, "stop", lambda: None)
        return session

    monkeypatch.setattr("tidings_lakehouse.spark.session.create_session", session)

    def run(*options: str) -> tuple[int, list[dict[str, Any]], str]:
        capsys.readouterr()
        code = main(["erase", "--json", *options])
        said = capsys.readouterr()
        return code, [json.loads(line) for line in said.out.splitlines()], said.err

    return run


def warehouse(lake: Lake) -> Path:
    return Path(url2pathname(urlsplit(str(lake.session.conf.get("spark.sql.catalog.lake.warehouse"))).path))


def files_with(lake: Lake, text: str, *tables: str) -> list[str]:
    """Every file of some tables, the quarantine and the record that holds a text: as bytes, in a row, or as a least or greatest
    value of a column. Gives the files' kinds."""
    found = []
    with duckdb.connect() as database:
        for table in (*tables, "tidings.quarantine", "tidings.erasures"):
            for file in sorted(warehouse(lake).joinpath(*table.split(".")).rglob("*")):
                held = file.read_bytes() if file.is_file() else b""
                if file.suffix == ".parquet":
                    read = "SELECT to_json(t)::text FROM read_parquet(?) t"
                    held += repr(database.execute(read, [str(file)]).fetchall()).encode()
                elif file.suffix == ".avro":
                    held += repr(list(fastavro.reader(io.BytesIO(held)))).encode()
                if text.encode() in held:
                    found.append(file.suffix)
    return found


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["table"]: row["rows"] for row in rows}


def quarantined(lake: Lake, topic: str) -> list[tuple[Any, ...]]:
    return lake.rows(f"select offset from tidings.quarantine where topic = '{topic}' order by offset")


@pytest.mark.turns
def test_a_person_is_in_no_file_any_more_and_does_not_come_back(
    lake: Lake, topics: Topics, erase: Erase, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor in a history that is a table."""
    people = topics.table(f"{unique_name}.public.p_{unique_name}", FIELDS)
    things = topics.table(f"{unique_name}.public.t_{unique_name}", OWNED)
    people.change("r", {"id": 7, "name": PERSON}, None, 100, snapshot="true")
    people.change("r", {"id": 8, "name": "b"}, None, 100, snapshot="last")
    things.change("c", {"id": 1, "owner": PERSON}, 110, 120)
    things.change("c", {"id": 2, "owner": "b"}, 110, 121)
    broken = topics.encode(people.key_id, {"id": 7})
    topics.produce(people.topic, broken, json.dumps({"name": PERSON}).encode())
    topics.produce(people.topic, topics.encode(people.key_id, {"id": 8}), b"{}")
    topics.flush()
    lake.drain()
    people.change("u", {"id": 8, "name": "c"}, 130, 140)
    people.change("u", {"id": 7, "name": f"{PERSON} 2"}, 130, 141, before={"id": 7, "name": PERSON})
    topics.flush()
    lake.drain()
    selected = [
        "--table",
        people.table,
        "--key",
        "id=7",
        "--table",
        things.table,
        "--where",
        f"owner={PERSON}",
    ]
    history = f"{people.table}_history"
    monkeypatch.setenv("TIDINGS_SOURCE", unique_name)
    assert main(["views", "--materialise", re.escape(people.table)]) == 0
    lake.drop_views()
    tables = (people.table, f"{people.table}_log", history, things.table, f"{things.table}_log")
    data = warehouse(lake).joinpath(*people.table.split("."), "data")
    for file in list(data.glob("*.parquet")):
        shutil.copy(file, file.with_name(f"left-by-a-crash-{file.name}"))
    assert {".parquet", ".avro"} <= set(files_with(lake, PERSON, *tables))
    code, rows, said = erase(*selected)
    assert (code, len(lake.rows(f"select * from {people.table}"))) == (0, 2)
    assert "--yes" in said
    wanted = [(f"{people.table}_log", 2), (people.table, 1), (history, 2), ("tidings.quarantine", 1)]
    wanted += [(f"{things.table}_log", 1), (things.table, 1), ("tidings.quarantine", 0)]
    assert [(row["table"], row["rows"]) for row in rows] == wanted
    code, rows, said = erase(*selected, "--yes", "--by", "me", "--reference", "request 12")
    assert (code, [(row["table"], row["rows"]) for row in rows]) == (0, wanted), said
    assert files_with(lake, PERSON, *tables) == []

    def is_as_it_was(names: str = "(8, 'c')") -> None:
        assert str(lake.rows(f"select id, name from {people.table} order by id"))[1:-1] == names
        assert lake.rows(f"select id, owner from {things.table}") == [(2, "b")]
        assert lake.rows(f"select key.id, lsn from {people.table}_log order by offset")[:2] == [
            (8, 100),
            (8, 140),
        ]
        assert quarantined(lake, people.topic) == [(3,)]
        assert lake.rows(f"select distinct id from {history}") == [(8,)]

    is_as_it_was()
    lake.forget()  # now every record is read again
    lake.drain()
    is_as_it_was()
    people.change("u", {"id": 8, "name": "d"}, 150, 160)
    people.change("c", {"id": 9, "name": "new"}, 150, 161)
    topics.flush()
    lake.drain()
    is_as_it_was("(8, 'd'), (9, 'new')")
    assert lake.rows(f"select count(*), count(distinct offset) from {people.table}_log") == [(4, 4)]


def test_the_record_says_who_and_when_and_not_whose(lake: Lake, erase: Erase, orders: TableTopic) -> None:
    """Here the files are those of Spark's tasks, in the other tests those of small batches."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": 0})
    row = dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at"))
    orders.change("c", {"id": 471147, **row, "note": PERSON}, 10, 20)
    orders.topics.flush()
    lake.drain()
    lake.session.sql(
        "ALTER TABLE tidings.quarantine CREATE BRANCH tidings_failed"
    )  # as a killed job leaves it
    assert erase("--table", orders.table, "--key", "id=471147", "--yes", "--by", "me")[0] == 0
    assert [row[0] for row in lake.rows("select name from tidings.quarantine.refs") if row[0] != "main"] == []
    kept = lake.rows(
        f"select state, by, table_name, selected_columns, rows, salt, digest from tidings.erasures"
        f" where selected_table = '{orders.table}' order by at, table_name"
    )
    assert [one[:5] for one in kept] == [
        (state, "me", table, "id", rows)
        for state in ("begun", "done")
        for table, rows in ((orders.table, 1), (f"{orders.table}_log", 1), ("tidings.quarantine", 0))
    ]
    selection = Selection(orders.table, (Condition("id", "471147", is_key=True),))
    assert {one[6] for one in kept} == {selection.digest(kept[0][5])}
    assert "471147" not in str(kept)
    # Nothing has written these files anew: the rows' only file went with them, and a manifest names it as removed.
    assert files_with(lake, PERSON, orders.table, f"{orders.table}_log") == []
    orders.change("c", {"id": 2, **row}, 25, 30)
    orders.topics.flush()
    lake.forget()
    lake.drain()
    assert lake.rows(f"select id from {orders.table}") == [(2,)]
    assert lake.rows(f"select after.id from {orders.table}_log") == [(2,)]


def test_events_are_erased_by_a_field_or_an_attribute(
    lake: Lake, topics: Topics, erase: Erase, unique_name: str
) -> None:
    lake.streams = ["business"]
    topic, table = f"{unique_name}.moved-{unique_name}.v1", f"business.moved_{unique_name}_v1"
    topics.create(topic)
    schema = topics.register(f"{topic}-value", EVENT)

    def event(number: str, subject: str, name: str) -> None:
        headers = [("ce_id", number.encode()), ("ce_subject", subject.encode())]
        topics.produce(topic, subject.encode(), topics.encode(schema, {"who": {"name": name}}), headers)

    event("e1", "7", PERSON)
    event("e2", "8", "b")
    event("e3", "9", "c")
    topics.produce(topic, b"7", b"{}", [("ce_id", b"e4"), ("ce_subject", PERSON.encode())])
    topics.flush()
    lake.drain()
    wanted = {table: 1, "tidings.quarantine": 0}
    code, rows, said = erase("--table", table, "--where", f"who.name={PERSON}", "--yes")
    assert (code, counts(rows)) == (3, wanted)
    assert "nobody can say" in said
    code, rows, _ = erase("--table", table, "--where", f"ce_subject={PERSON}", "--yes")
    assert (code, counts(rows)) == (0, {table: 0, "tidings.quarantine": 1})
    assert files_with(lake, PERSON, table) == []
    lake.forget()
    event("e5", "7", "later")
    topics.flush()
    lake.drain()
    assert lake.rows(f"select ce_id from {table} order by ce_id") == [("e2",), ("e3",), ("e5",)]
    assert quarantined(lake, topic) == []


def test_quarantined_records_that_nobody_can_read_are_told_and_erased_when_asked(
    lake: Lake, topics: Topics, erase: Erase, orders: TableTopic
) -> None:
    row = dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at"))
    orders.change("c", {"id": 7, **row}, 10, 20)
    topics.produce(orders.topic, None, f"\1{PERSON}".encode())
    as_json = {"schema": {}, "payload": {"before": None, "after": {"id": 8}}}
    topics.produce(orders.topic, b'{"id": 8}', json.dumps(as_json).encode())
    topics.produce(orders.topic, b'{"schema": null, "payload": {"id": 7}}', json.dumps(as_json).encode())
    topics.flush()
    lake.drain()
    code, rows, said = erase("--table", orders.table, "--key", "id=7", "--yes")
    assert (code, rows[-1]["rows"], rows[-1]["unreadable"]) == (3, 1, 1)
    assert "1 quarantined records" in said
    assert quarantined(lake, orders.topic) == [(1,), (2,)]
    code, rows, said = erase("--table", orders.table, "--key", "id=7", "--unreadable", "--yes")
    assert (code, rows[-1]["rows"], rows[-1]["unreadable"]) == (0, 1, 0)
    assert quarantined(lake, orders.topic) == [(2,)]
    assert files_with(lake, PERSON) == []
    lake.forget()
    lake.drain()
    assert quarantined(lake, orders.topic) == [(2,)]


def crash(*_: object) -> None:
    raise CrashError


def test_an_erasure_that_was_interrupted_is_begun_again_and_the_past_can_be_read(
    lake: Lake,
    topics: Topics,
    erase: Erase,
    orders: TableTopic,
    unique_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its views, and its watermark."""
    markers, name = MarkerTopic(topics, unique_name), orders.topic.rpartition(".")[2]
    row = dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at"))
    for number in (7, 8):
        orders.change("r", {"id": number, **row}, None, 100, snapshot="true")
    orders.change("u", {"id": 8, **row, "note": "new"}, 110, 120)
    markers.end(120, 130, **{name: 1})
    orders.change("u", {"id": 8, **row, "note": "newest"}, 130, 140)
    markers.end(140, 150, **{name: 1})
    orders.change("u", {"id": 7, **row, "note": PERSON}, 150, 160)
    markers.end(160, 170, **{name: 1})
    topics.flush()
    lake.drain()
    selected = ("--table", orders.table, "--key", "id=7", "--yes")
    with monkeypatch.context() as killed:
        killed.setattr(FormerFiles, "remove", crash)
        assert erase(*selected)[0] == 70
    assert files_with(lake, PERSON, orders.table)
    code, rows, _ = erase(*selected)
    assert (code, {row["rows"] for row in rows}) == (0, {0})
    assert files_with(lake, PERSON, orders.table, f"{orders.table}_log") == []
    kept = f"select state, sum(rows) from tidings.erasures where selected_table = '{orders.table}' group by erasure, state"
    assert sorted(lake.rows(kept)) == [("begun", 0), ("begun", 3), ("done", 0)]
    settings = HistorySettings(source=unique_name, lakehouse_warehouse=str(warehouse(lake)))
    with duck_lake(settings) as duck:
        source = SourceTables(duck, unique_name)
        versions = duck.execute(f"SELECT id, note FROM ({source.history_statement(orders.table, DUCKDB)})")
    assert sorted(map(str, versions)) == ["(8, 'new')", "(8, 'newest')", "(8, None)"]
    watermark = f"select commit_lsn from tidings.watermark where table_name = '{orders.table}'"
    assert lake.rows(watermark) == [(170,)]
    lake.forget()
    orders.change("c", {"id": 9, **row}, 170, 180)
    markers.end(180, 190, **{name: 1})
    topics.flush()
    lake.drain()
    assert lake.rows(watermark) == [(190,)]
    assert lake.rows(f"select id, note from {orders.table} order by id") == [(8, "newest"), (9, None)]
    assert lake.rows(f"select count(*) from {orders.table}_log where key.id = 7") == [(0,)]


def test_what_is_named_wrongly_is_refused_and_nothing_is_erased(
    lake: Lake, erase: Erase, orders: TableTopic
) -> None:
    row = dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at"))
    orders.change("c", {"id": 7, **row}, 10, 20)
    orders.topics.flush()
    lake.drain()
    for options, why in (
        (["--table", "technical.nothing", "--key", "id=7"], "technical.nothing is not a topic's table"),
        (
            ["--table", f"{orders.table}_log", "--key", "id=7"],
            f"name {orders.table}: its log is erased with it",
        ),
        (["--table", orders.table], "no value is named"),
        (["--table", orders.table, "--key", "id"], "--key: not column=value"),
        (["--table", orders.table, "--key", "status=7"], "--key: status is not the key of"),
        (["--table", orders.table, "--where", "nothing=7"], "has no columns nothing"),
        (
            ["--table", orders.table, "--where", "id=seven"],
            "the value given for the column id is not a bigint",
        ),
    ):
        code, rows, said = erase(*options, "--yes")
        assert (code, rows) == (1, []), options
        assert why in said
        assert "seven" not in said
    lake.session.sql(f"ALTER TABLE {orders.table} CREATE TAG june")
    code, _, said = erase("--table", orders.table, "--key", "id=7", "--yes")
    assert code == 1
    assert f"ALTER TABLE {orders.table} DROP TAG `june`" in said
    with (warehouse(lake) / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, said = erase("--table", orders.table, "--key", "id=7", "--yes")
    assert (code, "the job runs in" in said, "stop the job first" in said) == (1, True, True)
    assert lake.rows(f"select id from {orders.table}") == [(7,)]
