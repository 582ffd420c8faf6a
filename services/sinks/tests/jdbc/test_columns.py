"""Batches that are written column by column leave what the same batches leave that are written record by record."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from column_records import AT, KEY, AvroTopic, Ways, enveloped, stream, struct
from sink_targets import ask_mariadb, connection_options, mariadb_options

from tidings_connect.task.sink import SinkContext, SinkRecord
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.jdbc import task as module
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_stack.mariadb import MySqlLikeServer

Rows = list[tuple[Any, ...]]
TABLE = "shop_public_orders"


class Target:
    """A database, and how it is asked."""

    def __init__(self, options: dict[str, str], ask: Callable[[str], Rows], columns: str) -> None:
        self.options, self._ask, self._columns = options, ask, columns

    def taken(self) -> tuple[Rows, Rows]:
        """The table's columns and rows, of which nothing is left."""
        columns = self._ask(self._columns)
        if not columns:
            return [], []
        names = [str(name) for name, *_ in columns]
        rows = sorted(map(repr, self._ask(f"SELECT {', '.join(sorted(names))} FROM {TABLE}")))
        self._ask(f"DROP TABLE {TABLE}")
        return sorted(columns), [(row,) for row in rows]


@pytest.fixture(params=["postgresql", "mariadb", "mysql", "sqlite", "sqlalchemy"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A database of each kind."""
    kind = request.param
    if kind == "postgresql":
        ask = request.getfixturevalue("target")
        of_table = f"SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = '{TABLE}'"
        return Target(connection_options(request.getfixturevalue("pg_database")), ask, of_table)
    if kind in {"sqlite", "sqlalchemy"}:
        file = tmp_path / "target.db"

        def ask_sqlite(statement: str) -> Rows:
            with closing(sqlite3.connect(file)) as connection:
                rows = connection.execute(statement).fetchall()
                connection.commit()
                return rows

        of_table = f"SELECT name, type, pk FROM pragma_table_info('{TABLE}')"
        url = f"jdbc:sqlite:{file}" if kind == "sqlite" else f"sqlalchemy:sqlite:///{file}"
        return Target({"connection.url": url}, ask_sqlite, of_table)
    server: MySqlLikeServer = request.getfixturevalue(kind)
    name = request.getfixturevalue("database_of_both")(server)
    of_table = (
        "SELECT column_name, column_type, is_nullable FROM information_schema.columns"
        f" WHERE table_schema = '{name}' AND table_name = '{TABLE}'"
    )
    return Target(
        mariadb_options(server, name), lambda statement: ask_mariadb(server, name, statement), of_table
    )


def written(
    place: Target,
    group: str,
    config: dict[str, str],
    batches: list[list[SinkRecord]],
    topic: AvroTopic | None = None,
) -> tuple[Any, list[int]]:
    """What is in the table in the end, and which records were refused.

    Args:
        topic: offers the task columns first.
    """
    refused: list[int] = []
    given = {
        "name": group,
        "connector.class": JdbcSinkConnector.class_name,
        "schema.evolution": "basic",
        **place.options,
        **config,
    }
    context = SinkContext(group, 0, lambda record, _: refused.append(record.offset))
    task = JdbcSinkConnector().open_task(given, context)
    task.open([AT])
    for batch in batches:
        if topic is not None:
            topic.put(task, batch)
        else:
            task.put(batch)
        task.flush({AT: batch[-1].offset + 1})
    task.stop()
    return place.taken(), sorted(refused)


def chosen(chance: random.Random) -> tuple[dict[str, str], bool]:
    """A configuration, and whether its task deletes."""
    mode = chance.choice(["upsert"] * 4 + ["insert", "update"])
    key_mode = "none" if mode == "insert" and chance.random() < 0.5 else "record_key"
    deletes = key_mode == "record_key" and chance.random() < 0.7
    config = {
        "insert.mode": mode,
        "primary.key.mode": key_mode,
        "delete.enabled": str(deletes).lower(),
        "use.reduction.buffer": chance.choice(["false", "true"]),
        "batch.size": chance.choice(["3", "500"]),
    }
    return config, deletes


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_write_the_same(place: Target, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    config, deletes = chosen(chance)
    records = stream(chance, 90, envelopes=chance.random() < 0.5, deletes=deletes)
    size = chance.choice([2, 4, 20])
    batches = [records[first : first + size] for first in range(0, len(records), size)]
    ways = Ways(monkeypatch, module)
    found = written(place, "columns", config, batches)
    ways.by_records()
    assert found == written(place, "records", config, batches), (config, size)
    print(f"{sum(ways.taken)} of {len(ways.taken)} batches by columns")


@pytest.mark.parametrize("seed", range(100, 106))
def test_columns_of_a_topic_are_written_as_its_records(
    place: Target, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    config, deletes = chosen(chance)
    records = stream(chance, 90, envelopes=chance.random() < 0.7, deletes=deletes, spoils=False)
    size = chance.choice([2, 4, 20])
    batches = [records[first : first + size] for first in range(0, len(records), size)]
    topic = AvroTopic(monkeypatch)
    found = written(place, "columns", config, batches, topic)
    Ways(monkeypatch, module).by_records()
    assert found == written(place, "records", config, batches), (config, size)
    print(f"{sum(topic.taken)} of {len(topic.taken)} batches by columns")


def envelope(number: int, op: str, row: dict[str, Any] | None, offset: int, tombstone: bool) -> SinkRecord:
    """A record of table `t`, whose rows have `n`, `t` and `list`."""
    schema = enveloped(struct(["n", "t", "list"], optional=True))
    value = {"before": None, "after": row, "source": {"table": "t"}, "op": op}
    given: Any = (None, None) if tombstone else (schema, value)
    return SinkRecord(AT.topic, 0, KEY[1], {"id": number}, *given, None, [], offset, AT)


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ("1u9 2u8 3d 3- 4u7 5- 6u5 2d 2-", True),
        ("1u9 2ux 3u7", False),
        ("1u9 2u! 3u7", False),
        ("1u9 2d5 3u7", False),
        ("1u9 2d5 3d 3-", False),
        ("3- 2d", False),
    ],
    ids=["tombstones", "text unsent", "list unsent", "a delete with a row", "one of two", "no write"],
)
def test_deletes_and_what_was_not_sent_stand_where_they_stood(
    place: Target, monkeypatch: pytest.MonkeyPatch, changes: str, taken: bool
) -> None:
    before = [
        envelope(number, "c", {"n": 0, "t": "old", "list": ["x"]}, number, False) for number in range(7)
    ]
    records = []
    for offset, (key, op, *what) in enumerate(changes.split(), 7):
        row: dict[str, Any] = {"n": 1, "t": f"new {key}", "list": None}
        match what:
            case ["x"]:
                row["t"] = UNAVAILABLE
            case ["!"]:
                row["list"] = [UNAVAILABLE]
            case [n]:
                row["n"] = int(n)
        has_row = op == "u" or what
        records.append(envelope(int(key), op, row if has_row else None, offset, op == "-"))
    config = {
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "use.reduction.buffer": "true",
    }
    topic = AvroTopic(monkeypatch)
    found = written(place, "columns", config, [before, records], topic)
    assert topic.taken == [True, taken]
    Ways(monkeypatch, module).by_records()
    assert found == written(place, "records", config, [before, records])


def test_columns_delete_nothing_where_deletes_are_not_enabled(
    place: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"n": 1, "t": "x", "list": None}
    before = [envelope(number, "c", row, number, False) for number in range(3)]
    records = [
        envelope(0, "u", row, 3, False),
        envelope(1, "d", None, 4, False),
        envelope(2, "u", row, 5, False),
    ]
    config = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "false"}
    topic = AvroTopic(monkeypatch)
    (_, rows), refused = written(place, "columns", config, [before, records], topic)
    assert (topic.taken, len(rows), refused) == ([True, False], 3, [])


@pytest.mark.parametrize("reduces", [True, False])
@pytest.mark.parametrize(
    ("changes", "alike"),
    [
        ([(1, 1), (2, None), (3, 3), (2, None)], True),
        ([(1, 1), (3, 2), (1, 2)], False),
        ([(1, 1), (1, None)], False),
        ([(1, None), (1, 1)], False),
    ],
    ids=["a row each, and a tombstone behind a delete", "two writes", "a delete behind", "a delete before"],
)
def test_several_changes_of_a_row_are_written_at_once_only_where_the_last_is_all_that_counts(
    place: Target, monkeypatch: pytest.MonkeyPatch, changes: list[Any], alike: bool, reduces: bool
) -> None:
    row = struct(["n", "list"], optional=True)
    schema = enveloped(row)

    def record(offset: int, number: int, n: int | None) -> SinkRecord:
        value: Any = None
        if n is not None:
            value = {"before": None, "after": {"n": n, "list": ["x"]}, "source": {"table": "t"}, "op": "u"}
        of_value = None if value is None else schema
        return SinkRecord(AT.topic, 0, KEY[1], {"id": number}, of_value, value, None, [], offset, AT)

    ways = Ways(monkeypatch, module)
    config = {
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "use.reduction.buffer": str(reduces).lower(),
    }
    records = [record(offset, *change) for offset, change in enumerate(changes)]
    found, refused = written(place, "columns", config, [records])
    assert (ways.taken, refused) == ([alike or reduces], [])
    left: dict[int, int] = {}
    for number, n in changes:
        if n is None:
            left.pop(number, None)
        else:
            left[number] = n
    assert len(found[1]) == len(left)
