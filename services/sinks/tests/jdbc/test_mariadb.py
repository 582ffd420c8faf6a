"""What becomes of records in tables of MariaDB and MySQL: types, order, keys, new columns, and rows that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink, ask_mariadb, mariadb_options
from table_records import LETTERS, TOPIC, UPSERT, envelope, put
from table_values import SCHEMAS, VALUES, record

from tidings_connect.errors import RecordError
from tidings_envelope.toast import UNAVAILABLE
from tidings_jvm import PlainProgress
from tidings_sinks.errors import LostError, TargetError
from tidings_sinks.jdbc.database import TableName
from tidings_sinks.jdbc.databases.mariadb import MariaDbDatabase
from tidings_sinks.jdbc.databases.mariadb_servers import server_of
from tidings_sinks.jdbc.settings import Settings, read_settings
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.secured.authority import Authority
from tidings_stack.stack import Stack

pytestmark = pytest.mark.parametrize("mariadb_server", ["mariadb", "mysql"], indirect=True)
Rows = Callable[..., list[tuple[Any, ...]]]

NOT_THERE = {"nan", "infinite", "old_day", "at_iso"}
"""Values that no type of MariaDB's has: their rows are dead letters."""
COLUMNS = {
    # field: its column's type, its value as MariaDB shows it
    "tiny": ("smallint(6)", "-128"),
    "big": ("bigint(20)", str(2**63 - 1)),
    "single": ("float", "0.1"),
    "yes": ("tinyint(1)", "1"),
    "words": ("longtext", "a\tb\\N\n'\"ü€😀"),
    "empty": ("longtext", ""),
    "amount": ("decimal(10,2)", "-1234.56"),
    "bare": ("longtext", "12345678901234567890.1234567890"),
    "day": ("date", "1969-12-31"),
    "clock_ms": ("time(6)", "23:59:59.999000"),
    "clock": ("time(6)", "24:00:00.000000"),
    "clock_ns": ("time(6)", "00:00:00.000001"),
    "at_ms": ("datetime(6)", "1969-12-31 23:59:59.999000"),
    "at_connect": ("datetime(6)", "1970-01-01 00:00:00.000000"),
    "at": ("datetime(6)", "1969-12-31 23:59:59.999999"),
    "at_ns": ("datetime(6)", "1970-01-01 00:00:00.000001"),
    "moment": ("datetime(6)", "2026-01-01 00:00:00.000001"),
    "clock_zoned": ("varchar(32)", "10:00:00Z"),
    "span": ("varchar(64)", "-26:00:00.000001"),
    "span_text": ("varchar(64)", "P1Y2M-3DT4H5M6.7S"),
    "document": ("longtext", '{"a": 1.50}'),
    "mark": ("uuid", "b68a35a7-17ad-35b3-af2a-000000000000"),
    "markup": ("longtext", "<a/>"),
    "mood": ("longtext", "ok"),
    "bits": ("bit(10)", "\0\x05"),
    "tags": ("longtext", '["a,b",null,"q\\"\\\\","NULL",""]'),
    "days": ("longtext", '["1970-01-01",null]'),
    "blobs": ("longtext", '["/w=="]'),
    "pairs": ("longtext", '{"a":null,"b":"c"}'),
    "place": ("longtext", '{"x":1,"y":"eg=="}'),
}

OF_MYSQL = {
    "tiny": ("smallint", "-128"),
    "big": ("bigint", str(2**63 - 1)),
    "document": ("json", '{"a": 1.5}'),
    "mark": ("char(36)", "b68a35a7-17ad-35b3-af2a-000000000000"),
    "tags": ("json", '["a,b", null, "q\\"\\\\", "NULL", ""]'),
    "days": ("json", '["1970-01-01", null]'),
    "blobs": ("json", '["/w=="]'),
    "pairs": ("json", '{"a": null, "b": "c"}'),
    "place": ("json", '{"x": 1, "y": "eg=="}'),
}
"""What is otherwise there: documents are kept as values, not as texts."""


def test_every_type(mariadb_sink: Sink, in_mariadb: Rows, mariadb_server: MySqlLikeServer) -> None:
    sink, columns = mariadb_sink, COLUMNS | (OF_MYSQL if mariadb_server.name == "mysql" else {})
    whole = record()
    fields = [one for one in whole["schema"]["fields"] if one["field"] not in NOT_THERE]
    payload = {name: value for name, value in whole["payload"].items() if name not in NOT_THERE}
    sink.start("t", schema_evolution="basic", primary_key_mode="kafka", **SCHEMAS)
    sink.send("t", None, {"schema": {"type": "struct", "fields": fields}, "payload": payload})
    sink.wait()
    types = {name: kind for name, kind, *_ in in_mariadb("SHOW COLUMNS FROM t")}
    if server_of(in_mariadb("SELECT VERSION()")[0][0]).types:  # it has no UUIDs
        columns = columns | {"mark": OF_MYSQL["mark"]}
    [row] = in_mariadb(f"SELECT {', '.join(f'CAST(`{name}` AS char)' for name in COLUMNS)}, data FROM t")
    assert {name: types[name] for name in COLUMNS} == {name: kind for name, (kind, _) in columns.items()}
    assert {*COLUMNS, "data"} == {name for name, *_ in VALUES} - NOT_THERE
    found = dict(zip(COLUMNS, row[:-1], strict=True))
    assert found == {name: value for name, (_, value) in columns.items()}
    assert row[-1] == b"\0\xff"


@pytest.mark.parametrize("name", sorted(NOT_THERE))
def test_a_value_that_no_type_has_is_a_dead_letter(mariadb_sink: Sink, in_mariadb: Rows, name: str) -> None:
    sink = mariadb_sink
    schema, value = next((schema, value) for field, schema, value, *_ in VALUES if field == name)
    sink.start("t", schema_evolution="basic", **LETTERS, **SCHEMAS)
    sink.send(
        "t",
        None,
        {"schema": {"type": "struct", "fields": [{"field": "v", **schema}]}, "payload": {"v": value}},
    )
    sink.wait()
    assert in_mariadb("SELECT * FROM t") == []
    assert len(sink.worker.kafka.topics["letters"]) == 1


@pytest.mark.parametrize("reduces", ["false", "true"])
def test_the_changes_of_a_row_are_applied_in_their_order(
    mariadb_sink: Sink, in_mariadb: Rows, reduces: str
) -> None:
    sink = mariadb_sink
    put(sink, 1, note="a")
    put(sink, 1, "d")
    put(sink, 1, note="b")
    put(sink, 2, note="x")
    put(sink, 2, "u", note="y")
    put(sink, 2, "d")
    put(sink, 3, note="p", big="kept")
    put(sink, 3, "u", note="q", big=UNAVAILABLE)
    sink.send(TOPIC, None, envelope("t", None))
    put(sink, 3, note="p", big="kept")
    put(sink, 4, note="n", big="kept")
    sink.start(TOPIC, **UPSERT, use_reduction_buffer=reduces, truncate_enabled="true")
    sink.wait()
    put(sink, 4, "u", note="o", big=UNAVAILABLE)
    sink.wait()
    rows = in_mariadb("SELECT id, note, big FROM shop_public_orders ORDER BY id")
    assert rows == [(3, "p", "kept"), (4, "o", "kept")]


@pytest.mark.parametrize("fields", ["a", "a,b"])
def test_many_deletes_at_once(mariadb_sink: Sink, in_mariadb: Rows, fields: str) -> None:
    sink = mariadb_sink
    for number in range(500):
        key = dict.fromkeys(fields.split(","), number)
        sink.send(TOPIC, key, envelope("c", {**key, "note": "n"}))
        if number % 3:
            sink.send(TOPIC, key, None)
    sink.start(TOPIC, **UPSERT, use_reduction_buffer="false")
    sink.wait()
    rows = in_mariadb("SELECT a FROM shop_public_orders ORDER BY a")
    assert rows == [(number,) for number in range(0, 500, 3)]


def test_keys_that_differ_in_case_or_spaces_are_different_rows(mariadb_sink: Sink, in_mariadb: Rows) -> None:
    sink = mariadb_sink
    names = ["a", "A", "ä", "a "]
    for name in names:
        sink.send(TOPIC, {"id": name}, envelope("c", {"id": name, "note": f"{name}!"}))
    sink.send(TOPIC, {"id": "A"}, None)
    sink.start(TOPIC, **UPSERT)
    sink.wait()
    assert sorted(in_mariadb("SELECT id, note FROM shop_public_orders")) == [
        (name, f"{name}!") for name in sorted(set(names) - {"A"})
    ]


def test_a_row_that_has_the_same_in_another_unique_column_is_left_alone(
    mariadb_sink: Sink, in_mariadb: Rows
) -> None:
    """ON DUPLICATE KEY would change the other row."""
    sink = mariadb_sink
    in_mariadb("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note varchar(9) UNIQUE, n int)")
    put(sink, 1, note="a", n=1)
    put(sink, 2, note="b", n=2)
    put(sink, 3, note="a", n=3)
    put(sink, 2, note="b", n=4)
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    assert in_mariadb("SELECT * FROM shop_public_orders ORDER BY id") == [(1, "a", 1), (2, "b", 4)]
    [(_, _, headers)] = sink.worker.kafka.topics["letters"]
    assert "error 1062 of note" in _said(headers)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("(id int, note text)", "no unique key on id"),
        ("(id int PRIMARY KEY, note text) ENGINE=MyISAM", "has no transactions"),
        ("(id int PRIMARY KEY)", "has no column for note"),
        (None, "there is no table"),
    ],
)
def test_tables_that_cannot_be_written_exactly_once_are_refused(
    mariadb_sink: Sink, in_mariadb: Rows, table: str | None, words: str
) -> None:
    sink = mariadb_sink
    if table is not None:
        in_mariadb(f"CREATE TABLE shop_public_orders {table}")
    put(sink, 1, note="a")
    sink.start(TOPIC, **{**UPSERT, "schema_evolution": "none"})
    error = _failure(sink)
    assert isinstance(error, TargetError)
    assert words in str(error)


def test_a_row_that_is_refused_is_a_dead_letter_and_the_others_are_written(
    mariadb_sink: Sink, in_mariadb: Rows
) -> None:
    sink = mariadb_sink
    in_mariadb(
        "CREATE TABLE shop_public_orders (id tinyint PRIMARY KEY, note varchar(3), n int CHECK (n > 0))"
    )
    for number, note, n in (
        (1, "a", 1),
        (2, "abcd", 1),
        (3, "c", 0),
        (400, "d", 1),
        (5, "e", 1),
        (6, "f", "secret"),
    ):
        put(sink, number, note=note, n=n)
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    assert in_mariadb("SELECT id FROM shop_public_orders ORDER BY id") == [(1,), (5,)]
    letters = sink.worker.kafka.topics["letters"]
    assert sorted(json.loads(key or b"")["id"] for key, _, _ in letters) == [2, 3, 6, 400]
    said = sorted(_said(headers) for _, _, headers in letters)
    assert any("error 1406 of note" in words for words in said)
    assert not any("abcd" in words or "secret" in words for words in said)


def test_new_columns_and_their_defaults(mariadb_sink: Sink, in_mariadb: Rows) -> None:
    sink = mariadb_sink
    sink.start("t", schema_evolution="basic", **SCHEMAS)
    first = [{"field": "number", "type": "int32"}]
    sink.send("t", None, {"schema": {"type": "struct", "fields": first}, "payload": {"number": 1}})
    sink.wait()
    more = [
        *first,
        {"field": "state", "type": "string", "default": "it's 100% new\\"},
        {"field": "other%", "type": "string"},
    ]
    values = {"number": 2, "state": "b", "other%": "c"}
    sink.send("t", None, {"schema": {"type": "struct", "fields": more}, "payload": values})
    sink.wait()
    assert in_mariadb("SELECT * FROM t ORDER BY number") == [(1, "it's 100% new\\", None), (2, "b", "c")]


def test_a_connection_that_is_killed_loses_and_doubles_nothing(
    mariadb_sink: Sink, in_mariadb: Rows, mariadb_server: MySqlLikeServer
) -> None:
    sink = mariadb_sink
    sink.start(TOPIC, primary_key_mode="none", schema_evolution="basic")
    for number in range(300):
        put(sink, number)
        if number % 60 == 30:
            sink.worker.wait_for(lambda number=number: _count(in_mariadb) > number // 2, "some rows")  # type: ignore[misc]
            for (id_,) in in_mariadb(
                "SELECT id FROM information_schema.processlist WHERE user = 'admin' AND id <> connection_id()"
            ):
                ask_mariadb(mariadb_server, None, f"KILL {id_}")
    sink.wait()
    assert in_mariadb("SELECT count(*), count(DISTINCT id) FROM shop_public_orders") == [(300, 300)]


def _said(headers: Any) -> str:
    """The error in a dead letter."""
    return str(dict(headers)["__connect.errors.exception.message"].decode())


def _failure(sink: Sink) -> BaseException | None:
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    return sink.worker.error


def _count(in_mariadb: Rows) -> int:
    if not in_mariadb("SHOW TABLES LIKE 'shop_public_orders'"):
        return 0
    return int(in_mariadb("SELECT count(*) FROM shop_public_orders")[0][0])


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_nobody_answers_is_looked_up(
    mariadb_sink: Sink, in_mariadb: Rows, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    sink, commit = mariadb_sink, MariaDbDatabase.commit
    lost: list[MariaDbDatabase] = []

    def lose(self: MariaDbDatabase) -> None:
        if not lost and in_mariadb("SHOW TABLES LIKE 'shop_public_orders'"):
            lost.append(self)
            if done:
                commit(self)
            self.close()
            raise LostError("the connection to MariaDB was lost")
        commit(self)

    in_mariadb("CREATE TABLE shop_public_orders (id int)")
    monkeypatch.setattr(MariaDbDatabase, "commit", lose)
    put(sink, 1)
    sink.start(TOPIC, primary_key_mode="none")
    sink.wait()
    assert lost
    assert in_mariadb("SELECT id FROM shop_public_orders") == [(1,)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"connection_password": "wrong"}, "refused the login"),
        ({"connection_url": "jdbc:mariadb://127.0.0.1:{port}/nowhere"}, "refused the login"),
        ({"connection_url": "jdbc:mariadb://127.0.0.1:{port}"}, "names no database"),
    ],
)
def test_logins_that_fail(
    mariadb_sink: Sink, mariadb_server: MySqlLikeServer, change: dict[str, str], words: str
) -> None:
    sink = mariadb_sink
    put(sink, 1)
    sink.start(TOPIC, **{name: value.format(port=mariadb_server.port) for name, value in change.items()})
    error = _failure(sink)
    assert isinstance(error, TargetError | RecordError)
    assert words in str(error)
    assert "wrong" not in str(error)


def test_tls_as_the_url_asks_for_it(mariadb_server: MySqlLikeServer, tmp_path: Path) -> None:
    """A server that asks for TLS, with a certificate of an authority's; one of another authority's is refused."""
    authority = Authority()
    issued = authority.issue("mariadb")
    for name, text in (
        ("ca", authority.certificate),
        ("cert", issued.certificate),
        ("key", issued.key),
        ("other", Authority("Another").certificate),
    ):
        (tmp_path / name).write_text(text)
    tls = {"ssl": "ON"} if mariadb_server.name == "mariadb" else {}
    files = {f"ssl_{name}": str(tmp_path / name) for name in ("ca", "cert", "key")}
    with Stack(members=(), progress=PlainProgress(lambda _: None)) as stack:
        server = stack.add(
            lambda place: type(mariadb_server)(
                place, settings={**tls, "require_secure_transport": "ON", **files}, name="with-tls"
            )
        )
        options = mariadb_options(server, "mysql")
        url = options["connection.url"].replace("/mysql", "/")

        def fails(parameters: str) -> str:
            with pytest.raises(TargetError) as refused:
                MariaDbDatabase(_settings(options, f"{url}mysql?{parameters}"))
            return f"{refused.value} {refused.value.hint}"

        for right in (f"sslMode=verify-full&serverSslCert={tmp_path}/ca", "sslMode=trust", ""):
            database = MariaDbDatabase(_settings(options, f"{url}mysql?{right}"))
            assert database.columns(TableName("mysql", "innodb_index_stats"))
            database.close()
        assert "no TLS with the server" in fails(f"sslMode=verify-full&serverSslCert={tmp_path}/other")
        assert "asks for TLS" in fails("sslMode=disable")
        assert "cannot be used" in fails(f"sslMode=verify-ca&serverSslCert={tmp_path}/none")


def _settings(options: dict[str, str], url: str) -> Settings:
    return read_settings("sink", {**options, "connection.url": url})
