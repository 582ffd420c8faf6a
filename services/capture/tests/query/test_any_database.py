"""Query sources by a ``sqlalchemy:`` URL on three real databases, of whose own readers nothing is used."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from mariadb_parts import Database

from tidings_capture.query.connector import JdbcSource
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import Crash, MemoryWorker

BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "updated",
    "incrementing.column.name": "id",
    "table.whitelist": "ev",
}
MOMENTS = {"sqlite": "DATETIME", "postgresql": "timestamptz", "mariadb": "DATETIME(6)"}


class Source(NamedTuple):
    """A database, by both ways to it."""

    name: str
    options: dict[str, str]
    run: Callable[..., None]
    whole_name: str
    """Of the table ev, as offsets show it."""


@pytest.fixture
def worker() -> Iterator[MemoryWorker]:
    with MemoryWorker(JdbcSource(), "query") as worker:
        yield worker


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    if request.param == "sqlite":
        file = tmp_path / "source.db"

        def run(*statements: str) -> None:
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                for statement in statements:
                    connection.execute(statement)

        yield Source(request.param, {"connection.url": f"sqlalchemy:sqlite:///{file}"}, run, "ev")
    elif request.param == "postgresql":
        given = psycopg.conninfo.conninfo_to_dict(request.getfixturevalue("pg_database"))

        def run_postgres(*statements: str) -> None:
            with psycopg.connect(request.getfixturevalue("pg_database"), autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement.encode())

        url = f"sqlalchemy:postgresql+psycopg://{given['host']}:{given['port']}/{given['dbname']}"
        login = {"connection.user": str(given["user"]), "connection.password": str(given.get("password", ""))}
        yield Source(
            request.param, {"connection.url": url, **login}, run_postgres, f"{given['dbname']}.public.ev"
        )
    else:
        server = request.getfixturevalue("mariadb")
        database = Database(server, request.getfixturevalue("unique_name"))
        url = f"sqlalchemy:mysql+pymysql://127.0.0.1:{server.port}/{database.name}"
        login = {"connection.user": "admin", "connection.password": server.password}
        yield Source(request.param, {"connection.url": url, **login}, database.run, f"{database.name}.ev")
        database.close()


def begin(worker: MemoryWorker, source: Source, **options: str) -> None:
    worker.put({**source.options, "topic.prefix": "q-", "poll.interval.ms": "20", **options})


def ids(worker: MemoryWorker) -> list[int]:
    return [value["id"] for value in worker.values("q-ev")]


def make(source: Source) -> None:
    source.run(
        f"CREATE TABLE ev (id INTEGER PRIMARY KEY, updated {MOMENTS[source.name]} NOT NULL, note VARCHAR(20))"
    )


def put(source: Source, *rows: tuple[int, str, str]) -> None:
    zone = "Z" if source.name == "postgresql" else ""
    for key, moment, note in rows:
        source.run(f"INSERT INTO ev VALUES ({key}, '{moment}{zone}', '{note}')")


def test_new_and_changed_rows_are_found_behind_the_stored_offset(
    source: Source, worker: MemoryWorker
) -> None:
    make(source)
    put(source, (1, "2026-01-01 10:00:00.123456", "a"), (3, "2026-01-01 10:00:00.123456", "b"))
    begin(worker, source, **BOTH)
    worker.wait_for(lambda: ids(worker) == [1, 3], "two rows")
    worker.stop()
    (stored,) = worker.offsets()
    assert stored["partition"] == {"protocol": "1", "table": source.whole_name}
    assert stored["offset"] == {
        "timestamp": 1767261600123,
        "timestamp_nanos": 123456000,
        "incrementing": 3,
    }
    put(source, (2, "2026-01-01 10:00:00.123456", "older"), (4, "2026-01-01 10:00:00.123457", "newer"))
    source.run("UPDATE ev SET note = 'changed', updated = '2026-01-02 00:00:00' WHERE id = 1")
    worker.resume()
    worker.wait_for(lambda: ids(worker)[2:] == [4, 1], "what is behind the offset")
    assert worker.values("q-ev")[-1]["note"] == "changed"


def test_rows_of_one_timestamp_survive_a_crash(source: Source, worker: MemoryWorker) -> None:
    make(source)
    put(source, *((key, "2026-01-01 10:00:00", "x") for key in range(1, 8)))
    with worker.crash_at("records.acknowledged") as crashed:
        begin(worker, source, **{**BOTH, "mode": "timestamp", "batch.max.rows": "2"})
        assert crashed.wait(60)
    assert isinstance(worker.error, Crash)
    worker.resume()
    worker.wait_for(lambda: set(ids(worker)) == set(range(1, 8)), "every row")


TYPES = {
    "sqlite": "small SMALLINT NOT NULL, many BIGINT, price NUMERIC(10,2), single REAL, yes BOOLEAN, day DATE, clock TIME,"
    " naive DATETIME, raw BLOB, words TEXT",
    "postgresql": "small smallint NOT NULL, many bigint, price numeric(10,2), single real, yes boolean, day date, clock time,"
    " naive timestamp, raw bytea, words text",
    "mariadb": "small SMALLINT NOT NULL, many BIGINT, price DECIMAL(10,2), single FLOAT, yes TINYINT(1), day DATE, clock TIME(6),"
    " naive DATETIME(6), raw BLOB, words TEXT",
}


def test_types_are_those_of_the_own_readers(source: Source, worker: MemoryWorker) -> None:
    raw = {"sqlite": "X'0102'", "postgresql": r"'\x0102'", "mariadb": "X'0102'"}[source.name]
    source.run(
        f"CREATE TABLE ev (id INTEGER PRIMARY KEY, {TYPES[source.name]})",
        "INSERT INTO ev VALUES (1, 2, 3000000000, 4.50, 1.5, true, '1969-12-31', '10:11:12.123456',"
        f" '2026-07-01 03:00:00.123456', {raw}, 'Zoë')",
        "INSERT INTO ev (id, small) VALUES (2, 3)",
    )
    begin(
        worker,
        source,
        mode="incrementing",
        **{"incrementing.column.name": "id", "db.timezone": "Europe/Helsinki"},
        **{"value.converter.schemas.enable": "true", "validate.non.null": "false"},
    )
    worker.wait_for(lambda: len(worker.kafka.topics.get("q-ev", [])) == 2, "two rows")
    (schema, first), (_, second) = [
        (data["schema"], data["payload"])
        for data in (json.loads(record[1] or b"") for record in worker.kafka.topics["q-ev"])
    ]
    yes = 1 if source.name == "mariadb" else True
    assert first == {
        "id": 1, "small": 2, "many": 3000000000, "price": "AcI=", "single": 1.5, "yes": yes, "day": -1, "clock": 36672123,
        "naive": 1782864000123, "raw": "AQI=", "words": "Zoë",
    }  # fmt: skip
    assert {name for name, value in second.items() if value is not None} == {"id", "small"}
    fields = {field["field"]: field["type"] for field in schema["fields"]}
    whole = ["int64", "int64", "int64"] if source.name == "sqlite" else ["int32", "int16", "int64"]
    assert [fields[name] for name in ("id", "small", "many")] == whole
    assert (fields["price"], fields["single"], fields["raw"]) == ("bytes", "float", "bytes")


def test_views_and_names_with_odd_characters_are_read(source: Source, worker: MemoryWorker) -> None:
    quote = "`" if source.name == "mariadb" else '"'
    odd = f"{quote}a:b %s%{quote}"
    source.run(
        f"CREATE TABLE base (id INTEGER PRIMARY KEY, {odd} VARCHAR(9))",
        "INSERT INTO base VALUES (1, 'x'), (2, 'y')",
        f"CREATE VIEW ev AS SELECT id, {odd} FROM base WHERE id > 1",
    )
    begin(
        worker,
        source,
        mode="incrementing",
        **{"incrementing.column.name": "id", "table.types": "VIEW", "validate.non.null": "false"},
    )
    worker.wait_for(lambda: worker.values("q-ev") == [{"id": 2, "a:b %s%": "y"}], "the view's row")


def test_a_table_that_is_gone_is_told(source: Source, worker: MemoryWorker) -> None:
    make(source)
    begin(worker, source, **BOTH)
    put(source, (1, "2026-01-01 10:00:00", "x"))
    worker.wait_for(lambda: ids(worker) == [1], "a row")
    source.run("DROP TABLE ev")
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    # Dropped between the look at its columns and the query: then the query fails, and the message has the driver's reason.
    assert re.search(r"\bev( is not there|: a query failed)", str(worker.error))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"connection.url": "sqlalchemy:oracle"}, "connection.url"),
        ({"connection.url": "sqlalchemy:oracle://u:p@h/x"}, "connection.password"),
        ({"query": "SELECT 1 AS id"}, "make a view of it"),
        ({"tidings.reconciliation.interval.ms": "1"}, "tidings.reconciliation.interval.ms"),
        ({"tidings.late.commits": "wait"}, "tidings.late.commits"),
    ],
)
def test_what_cannot_be_had_of_every_database_is_refused_by_name(
    worker: MemoryWorker, options: Any, told: str
) -> None:
    given = {
        "connection.url": "sqlalchemy:sqlite:////nowhere/x.db",
        "mode": "incrementing",
        "topic.prefix": "q-",
    }
    with pytest.raises(OptionError, match=re.escape(told)):
        worker.put({**given, "incrementing.column.name": "id", **options})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlalchemy:nothing://h/x", "SQLAlchemy does not know"),
        ("sqlalchemy:oracle+oracledb://h/x", "driver oracledb of connection.url is not installed"),
        ("sqlalchemy:postgresql+psycopg://127.0.0.1:1/x", "cannot connect to postgresql database"),
    ],
)
def test_a_database_that_cannot_be_reached_is_told(url: str, told: str) -> None:
    config = {"connection.url": url, "mode": "bulk", "topic.prefix": "q-"}
    (problem,) = JdbcSource().examine(config).problems["connection.url"]
    assert told in problem
