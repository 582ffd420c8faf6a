"""What SQLAlchemy speaks: the same sink by its ``sqlalchemy:`` URL on three real databases, of which nothing own is used."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sink_targets import Sink, ask_mariadb, by_sqlalchemy, connection_options, mariadb_options
from table_records import LETTERS, TOPIC, UPSERT, envelope, put, put_changes_of_rows

from tidings_connect.data.subscription import TopicPartition
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import LostError, TargetError
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_sinks.jdbc.databases.any_database import AnyDatabase
from tidings_sinks.jdbc.settings import read_settings

Rows = list[tuple[Any, ...]]


class Target(NamedTuple):
    """A database, by both ways to it."""

    options: dict[str, str]
    ask: Callable[[str], Rows]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "sqlite":
        file = tmp_path / "target.db"

        def ask(statement: str) -> Rows:
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                return connection.execute(statement).fetchall()

        return Target({"connection.url": f"sqlalchemy:sqlite:///{file}"}, ask)
    if request.param == "postgresql":
        url = request.getfixturevalue("pg_database")

        def ask_postgres(statement: str) -> Rows:
            with psycopg.connect(url, autocommit=True) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []

        return Target(by_sqlalchemy(connection_options(url)), ask_postgres)
    server, database = request.getfixturevalue("mariadb"), request.getfixturevalue("mariadb_database")
    return Target(
        by_sqlalchemy(mariadb_options(server, database)),
        lambda statement: ask_mariadb(server, database, statement),
    )


@pytest.fixture
def sink(target: Target) -> Iterator[Sink]:
    quick = {"errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "100"}
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker:
        yield Sink(worker, {**target.options, **quick})


@pytest.mark.parametrize("reduces", ["false", "true"])
def test_the_changes_of_a_row_are_applied_in_their_order(sink: Sink, target: Target, reduces: str) -> None:
    put_changes_of_rows(sink)
    sink.start(TOPIC, **UPSERT, use_reduction_buffer=reduces)
    sink.wait()
    rows = target.ask("SELECT id, note FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "b"), (3, "q"), (5, "changes its key")]


def test_columns_that_a_record_lacks_stay_and_new_ones_are_added(sink: Sink, target: Target) -> None:
    target.ask(
        "CREATE TABLE shop_public_orders (id int PRIMARY KEY, note text, big varchar(20) NOT NULL, state varchar(9) DEFAULT 'new')"
    )
    put(sink, 1, note="a", big="kept")
    put(sink, 1, "u", note="b", big=UNAVAILABLE)
    put(sink, 2, "r", note="c", big="x", more=7)
    sink.start(TOPIC, **UPSERT)
    sink.wait()
    rows = target.ask("SELECT id, note, big, state, more FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "b", "kept", "new", None), (2, "c", "x", "new", 7)]


def test_truncate_and_keys_alone(sink: Sink, target: Target) -> None:
    put(sink, 1)
    sink.send(TOPIC, None, envelope("t", None))
    put(sink, 2)
    put(sink, 2, "u")
    sink.start(TOPIC, **UPSERT, truncate_enabled="true")
    sink.wait()
    assert target.ask("SELECT id FROM shop_public_orders") == [(2,)]


def test_a_row_that_is_refused_is_left_out_and_the_others_are_written(sink: Sink, target: Target) -> None:
    target.ask("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note varchar(20) NOT NULL)")
    for number in range(8):
        put(sink, number, note=None if number == 5 else f"n{number}")
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    assert [number for (number,) in target.ask("SELECT id FROM shop_public_orders ORDER BY id")] == [
        0,
        1,
        2,
        3,
        4,
        6,
        7,
    ]
    ((_key, _value, headers),) = sink.worker.kafka.topics["letters"]
    told = dict(headers)["__connect.errors.exception.message"].decode()
    assert "refused the row" in told
    assert "n5" not in told


def test_values_have_their_types(sink: Sink, target: Target) -> None:
    """To the last digit where the driver has decimals; what no database shares is text."""
    fields: list[tuple[str, Any, str | None, dict[str, str], str]] = [
        ("number", 7, None, {}, "int32"),
        (
            "price",
            "AcI=",
            "org.apache.kafka.connect.data.Decimal",
            {"scale": "2", "connect.decimal.precision": "10"},
            "bytes",
        ),
        ("day", -1, "io.debezium.time.Date", {}, "int32"),
        ("moment", 1_782_864_000_123_456, "io.debezium.time.MicroTimestamp", {}, "int64"),
        ("zoned", "2026-07-01T03:00:00.5+02:00", "io.debezium.time.ZonedTimestamp", {}, "string"),
        ("yes", True, None, {}, "boolean"),
        ("doc", '{"a": 1}', "io.debezium.data.Json", {}, "string"),
        ("raw", "AQI=", None, {}, "bytes"),
        ("half", 0.5, None, {}, "double"),
    ]
    schema = {
        "type": "struct",
        "fields": [
            {
                "field": name,
                "type": kind,
                **({"name": semantic} if semantic else {}),
                **({"parameters": more} if more else {}),
            }
            for name, _, semantic, more, kind in fields
        ],
    }
    payload = {name: value for name, value, *_ in fields}
    sink.start(
        "t",
        schema_evolution="basic",
        value_converter_schemas_enable="true",
        key_converter_schemas_enable="true",
    )
    sink.send("t", None, {"schema": schema, "payload": payload})
    sink.wait()
    ((number, price, day, moment, zoned, yes, doc, raw, half),) = target.ask("SELECT * FROM t")
    assert (number, str(price), str(day), str(moment)[:19]) == (
        7,
        "4.50",
        "1969-12-31",
        "2026-07-01 00:00:00",
    )
    assert (zoned, bool(yes), doc, raw, half) == (
        "2026-07-01T03:00:00.5+02:00",
        True,
        '{"a": 1}',
        b"\x01\x02",
        0.5,
    )


def test_topics_that_differ_in_case_have_positions_of_their_own(target: Target) -> None:
    """MariaDB, as many others, takes their names for one."""
    config = {**target.options, "topics": "t"}
    if "connection.username" in config:
        config["connection.user"] = config["connection.username"]
    database = AnyDatabase(read_settings("sink", config))
    small, large = TopicPartition("orders", 0), TopicPartition("Orders", 0)
    try:
        database.make_positions()
        epochs = [database.claim("g", at).epoch for at in (small, large, small)]
        database.begin()
        moved = database.move("g", [(large, 1, 7), (small, 1, 3)])
        database.commit()
        database.claim("G", small)
        database.alter("G", small, 5)
        database.forget("g")
        found = [database.position(group, at) for group, at in (("g", small), ("g", large), ("G", small))]
    finally:
        database.close()
    assert (epochs, moved) == ([1, 1, 2], 1), "one of both has another epoch by now"
    assert [None if one is None else one.offset for one in found] == [None, None, 5]


class TestContract(SinkContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SinkCase:
        file = tmp_path / "target.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(
                "CREATE TABLE things (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER)"
            )

        def numbers() -> list[int]:
            with closing(sqlite3.connect(file)) as connection:
                return [
                    number for (number,) in connection.execute("SELECT number FROM things ORDER BY place")
                ]

        return SinkCase(
            connector=JdbcSinkConnector(),
            config={"connection.url": f"sqlalchemy:sqlite:///{file}", "collection.name.format": "things"},
            numbers=numbers,
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("delete.enabled", "perhaps"),
        )


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("sqlalchemy:nothing://h/x", TargetError, "nothing, which SQLAlchemy does not know"),
        ("sqlalchemy:oracle+oracledb://h/x", TargetError, "oracledb of connection.url is not installed"),
        ("sqlalchemy:postgresql+psycopg://127.0.0.1:1/x", LostError, "cannot connect to postgresql"),
    ],
)
def test_what_cannot_be_opened_is_told(url: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        AnyDatabase(read_settings("sink", {"connection.url": url, "topics": "t"}))


@pytest.mark.parametrize(
    ("url", "told"), [("sqlalchemy:x+y://u:p@h/x", "holds a password"), ("sqlalchemy:x", "SQLAlchemy's form")]
)
def test_a_wrong_url_is_refused(url: str, told: str) -> None:
    with MemoryWorker(JdbcSinkConnector(), "sink") as worker, pytest.raises(OptionError, match=told):
        worker.put({"connection.url": url, "topics": "t"})
