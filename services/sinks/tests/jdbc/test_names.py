"""What a column may be called, on every database and in the warehouse."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sink_targets import Sink, ask_mariadb, by_sqlalchemy, connection_options, mariadb_options
from table_records import TOPIC, UPSERT
from warehouse_parts import ask

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import TargetError
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_stack.mariadb import MySqlLikeServer

ODD = (
    "a.b", "a b", "a`b", 'a"b', "a'b", "größe", "1st", "a,b", "a;b", "a/b", "a\\b", "a$b", "a{b}", "a%sb", "a%",
    "a?b", ":a", "a-b", "a=b", "a(b)", "a[0]", "a:b", "*", "a#b", "a\tb", " a", "a|b", "a  b", "日本", "%(a)s", "$1", "`",
)  # fmt: skip
OWN = (
    "select", "order", "group", "values", "rowid", "op", "before", "after", "source", "offset", "partition", "topic",
    "position", "place", "epoch", "c0", "c1", "k0", "n", "s", "t", "v", "excluded", "new", "old", "__connect_topic",
    "_id", "_tidings", "version", "key", "value", "consumer_group", "next_offset",
)  # fmt: skip
"""Words of SQL, of envelopes, and what the sink's statements call their parts."""


class Target(NamedTuple):
    sink: Sink
    ask: Callable[[str], list[tuple[Any, ...]]]
    quote: str
    has_capitals: bool
    """Whether names that differ in capitals only are two."""


@pytest.fixture(
    params=["postgresql", "mariadb", "mysql", "sqlite", "any postgresql", "any sqlite", "warehouse"]
)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    word, _, rest = request.param.partition(" ")
    name = rest or word
    if name == "warehouse":
        sink, file = request.getfixturevalue("warehouse")
        yield Target(sink, lambda statement: ask(file, statement), '"', False)
        return
    if name == "postgresql":
        url = request.getfixturevalue("pg_database")

        def run(statement: str) -> list[tuple[Any, ...]]:
            with psycopg.connect(url, autocommit=True) as connection:
                return connection.execute(statement.encode()).fetchall()

        config = connection_options(url)
    elif name == "sqlite":

        def run(statement: str) -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(tmp_path / "target.db")) as connection:
                return connection.execute(statement).fetchall()

        config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'target.db'}"}
    else:
        server = request.getfixturevalue(name)
        database = request.getfixturevalue("database_of_both")(server)

        def run(statement: str) -> list[tuple[Any, ...]]:
            return ask_mariadb(server, database, statement)

        config = mariadb_options(server, database)
    config = (by_sqlalchemy(config) if word == "any" else config) | {"quote.identifiers": "true"}
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Target(
            Sink(worker, config),
            run,
            "`" if name in {"mariadb", "mysql"} else '"',
            request.param == "postgresql",
        )


class Table:
    """A table whose columns but for the key ``k.id`` are texts; its records come as JSON with their schemas."""

    def __init__(self, target: Target, names: tuple[str, ...]) -> None:
        self.target, self.names = target, names
        columns = [{"type": "string", "optional": True, "field": name} for name in names]
        fields = [{"type": "int64", "optional": False, "field": "k.id"}, *columns]
        row = {"type": "struct", "optional": True, "fields": fields, "name": "Row"}
        source = {"type": "struct", "field": "source", "fields": [{"type": "string", "field": "table"}]}
        parts = [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "string", "field": "op"},
            source,
        ]
        self._envelope = {"type": "struct", "name": "t.Envelope", "fields": parts}
        self._key = {"type": "struct", "name": "t.Key", "fields": fields[:1]}

    def start(self) -> None:
        more = {f"{side}_converter_schemas_enable": "true" for side in ("key", "value")}
        self.target.sink.start(TOPIC, **UPSERT, **more)

    def write(self, op: str, number: int, *texts: str) -> None:
        key = {"k.id": number}
        row = key | dict(zip(self.names, texts, strict=True))
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        value = {**images, "op": op, "source": {"table": "t"}}
        self.target.sink.send(
            TOPIC, {"schema": self._key, "payload": key}, {"schema": self._envelope, "payload": value}
        )

    def rows(self) -> list[tuple[Any, ...]]:
        quote = self.target.quote
        names = ", ".join(quote + name.replace(quote, quote * 2) + quote for name in ("k.id", *self.names))
        return [tuple(row) for row in self.target.ask(f"SELECT {names} FROM shop_public_orders ORDER BY 1")]


@pytest.mark.parametrize("names", [ODD, OWN], ids=["odd", "own"])
def test_a_column_may_be_called_anything(target: Target, names: tuple[str, ...]) -> None:
    table = Table(target, names)
    texts = {text: [f"{text} {place}" for place in range(len(names))] for text in ("first", "changed", "new")}
    for number in range(3):
        table.write("c", number, *texts["first"])
    table.write("u", 1, *texts["changed"])
    table.write("d", 0, *texts["first"])
    table.start()
    target.sink.wait()
    table.write("u", 2, "again", *[UNAVAILABLE] * (len(names) - 1))
    table.write("c", 3, *texts["new"])
    target.sink.wait()
    assert table.rows() == [(1, *texts["changed"]), (2, "again", *texts["first"][1:]), (3, *texts["new"])]


@pytest.mark.parametrize("made", ["with its first column", "whole"])
def test_names_that_differ_in_capitals_only(target: Target, made: str) -> None:
    """Both are columns, or the record is refused before anything is made; none is written over the other."""
    if made != "whole":
        single = Table(target, ("Note",))
        single.write("c", 1, "first")
        single.start()
        target.sink.wait()
    table = Table(target, ("Note", "note"))
    table.write("c", 2, "one", "other")
    table.start()
    if target.has_capitals:
        target.sink.wait()
        assert table.rows()[-1] == (2, "one", "other")
        return
    with pytest.raises(AssertionError):
        target.sink.wait()
    error = target.sink.worker.error
    assert isinstance(error, TargetError)
    assert "two fields of shop.public.orders are for one column of" in str(error)
    assert "a transform that renames one" in (error.hint or "")
    if made != "whole":
        assert single.rows() == [(1, "first")]


def test_a_name_that_a_driver_reads_otherwise_than_it_writes_it(
    mariadb: MySqlLikeServer, database_of_both: Callable[[MySqlLikeServer], str]
) -> None:
    """SQLAlchemy doubles a backtick of MySQL's names when it reads them: the field's values would be nowhere."""
    config = by_sqlalchemy(mariadb_options(mariadb, database_of_both(mariadb)))
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        table = Table(Target(Sink(worker, config), lambda _: [], "`", False), ("note", "a`b"))
        table.write("c", 1, "text", "text")
        table.start()
        with pytest.raises(AssertionError):
            table.target.sink.wait()
        assert "has no column 'a`b' although it was made" in str(worker.error)
