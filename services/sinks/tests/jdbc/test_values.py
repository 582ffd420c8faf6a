"""Values of every semantic type: how they are read, and what PostgreSQL and SQLite make of them, through a whole task."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink
from table_values import SCHEMAS, VALUES, integer_bytes, record

from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.jdbc.kinds import kind_of

UPSERT = {
    "insert_mode": "upsert",
    "primary_key_mode": "record_value",
    "primary_key_fields": "id",
    "schema_evolution": "basic",
}
Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.parametrize("key_mode", ["kafka", "none"], ids=["by records", "by columns"])
def test_every_type_in_postgresql(sink: Sink, target: Rows, key_mode: str) -> None:
    sink.start("t", schema_evolution="basic", primary_key_mode=key_mode, **SCHEMAS)
    sink.send("t", None, record())
    sink.send("t", None, record(nulls=True))
    sink.wait()
    found = target(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
    )
    types = dict(found)
    shown = target(f"SELECT {', '.join(f'{name}::text' for name, *_ in VALUES)} FROM t ORDER BY number")
    assert {name: types[name] for name, *_ in VALUES} == {name: kind for name, _, _, kind, _ in VALUES}
    assert list(shown[0]) == [text for *_, text in VALUES]
    assert list(shown[1]) == [None] * len(VALUES)


def test_every_type_in_sqlite(sqlite_sink: tuple[Sink, Path]) -> None:
    sink, file = sqlite_sink
    sink.start("t", schema_evolution="basic", primary_key_mode="kafka", **SCHEMAS)
    sink.send("t", None, record())
    sink.wait()
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM t").fetchone())
    assert (row["tiny"], row["yes"], row["nan"], row["data"]) == (-128, 1, "nan", b"\0\xff")
    assert row["bare"] == "12345678901234567890.1234567890"
    assert (row["amount"], row["at"], row["day"]) == ("-1234.56", "1969-12-31 23:59:59.999999", "1969-12-31")
    assert json.loads(row["tags"]) == ["a,b", None, 'q"\\', "NULL", ""]


def test_columns_that_are_there_get_what_their_type_reads(sink: Sink, target: Rows) -> None:
    target("CREATE DOMAIN short AS varchar(3)")
    target(
        "CREATE TABLE t (words short, pairs jsonb, tags jsonb, mood char(4), moment timestamp, tiny boolean, yes int, amount numeric(6,1),"
        " twice numeric GENERATED ALWAYS AS (amount * 2) STORED, place bigint GENERATED ALWAYS AS IDENTITY)"
    )
    schema = {name: schema for name, schema, *_ in VALUES}
    payload = {"words": "abc", "pairs": {"b": "c"}, "tags": ["x"], "mood": "ok", "moment": "2026-07-01T00:00:00Z", "tiny": 1, "yes": True,
               "amount": integer_bytes(123456), "twice": 5, "place": 7}  # fmt: skip
    schema |= {"twice": {"type": "int32"}, "place": {"type": "int64"}}
    fields = [{"field": name, **schema[name]} for name in payload]
    sink.start("t", use_time_zone="Europe/Berlin", **SCHEMAS)
    sink.send("t", None, {"schema": {"type": "struct", "fields": fields}, "payload": payload})
    sink.wait()
    (row,) = target(
        "SELECT words, pairs::text, tags::text, mood, moment::text, tiny, yes, amount, twice, place FROM t"
    )
    assert row[:7] == ("abc", '{"b": "c"}', '["x"]', "ok  ", "2026-07-01 02:00:00", True, 1)
    assert [str(value) for value in row[7:]] == ["1234.6", "2469.2", "7"]


@pytest.mark.parametrize("word", ["abcd", "abc "])
def test_a_text_that_is_too_long_is_never_cut_off(sink: Sink, target: Rows, word: str) -> None:
    target("CREATE TABLE t (words varchar(3))")
    sink.start("t", errors_tolerance="all")
    sink.send("t", None, {"words": word})
    sink.wait()
    assert target("SELECT words FROM t") == ([] if word == "abcd" else [("abc",)]), "SQL cuts off spaces only"


def test_required_columns_and_defaults_are_made(sink: Sink, target: Rows) -> None:
    sink.start("t", schema_evolution="basic", **SCHEMAS)
    first = [{"field": "number", "type": "int32"}]
    sink.send("t", None, {"schema": {"type": "struct", "fields": first}, "payload": {"number": 1}})
    sink.wait()
    more = [
        *first,
        {"field": "state", "type": "string", "default": "it's new"},
        {"field": "other", "type": "string"},
    ]
    values = {"number": 2, "state": "b", "other": "c"}
    sink.send("t", None, {"schema": {"type": "struct", "fields": more}, "payload": values})
    sink.wait()
    assert target("SELECT * FROM t ORDER BY number") == [(1, "it's new", None), (2, "b", "c")]
    required = target(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND attnotnull"
    )
    assert [name for (name,) in required] == ["number", "state"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("io.debezium.time.Date", 2_146_033_979, "infinity"),
        ("io.debezium.time.MicroTimestamp", -(2**63), "-infinity"),
        ("io.debezium.time.Timestamp", 9_223_372_036_825_200_000, "infinity"),
        ("io.debezium.time.MicroTimestamp", -62_135_596_800_000_001, "0001-12-31 23:59:59.999999 BC"),
    ],
)
def test_times_beyond_python_s(name: str, value: int, text: str) -> None:
    _, read = kind_of(ConnectSchema(ConnectType.INT64, name=name))
    assert read is not None
    assert read(value) == text


@pytest.mark.parametrize("others", [[], ["more"], ["more", "list"]])
def test_a_placeholder_in_a_record_with_schemas_is_no_value(
    sqlite_sink: tuple[Sink, Path], others: list[str]
) -> None:
    """With one column that may hold one, with two of texts, and with one of another type beside them."""
    sink, file = sqlite_sink
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "big"},
    ]
    for name in others:
        kind = {"type": "array", "items": {"type": "string"}} if name == "list" else {"type": "string"}
        fields.append({**kind, "optional": True, "field": name})
    row = {"type": "struct", "optional": True, "fields": fields}
    schema = {
        "type": "struct", "optional": False,
        "fields": [
            {**row, "field": "before"}, {**row, "field": "after"},
            {"type": "struct", "optional": True, "fields": [], "field": "source"}, {"type": "string", "optional": False, "field": "op"},
        ],
    }  # fmt: skip

    def put(op: str, **values: Any) -> None:
        after = {"id": 1, **dict.fromkeys(others), **values}
        payload = {"before": None, "after": after, "source": None, "op": op}
        sink.send("t", None, {"schema": schema, "payload": payload})

    put("c", big="kept")
    put("u", big="__debezium_unavailable_value", **dict.fromkeys(others[:1], "new"))
    sink.start("t", **UPSERT, **{name.replace(".", "_"): text for name, text in SCHEMAS.items()})
    sink.wait()
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT big FROM t").fetchall()
    assert found == [("kept",)]


CLOCK = {
    "type": "struct",
    "fields": [
        {"type": "int32", "optional": False, "field": "number"},
        {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTime", "field": "worked"},
    ],
}
OF_A_DAY = {1: "00:00:00", 3: "24:00:00"}
DURATIONS = {2: -3_723_400_000, 4: 3_020_399_000_000, 5: 86_400_000_001}
"""What a TIME of MariaDB's and MySQL's holds as well."""


def send_clocks(sink: Sink) -> None:
    for number, micros in sorted({1: 0, 3: 86_400_000_000, **DURATIONS}.items()):
        sink.send("t", None, {"schema": CLOCK, "payload": {"number": number, "worked": micros}})


@pytest.mark.parametrize("key_mode", ["kafka", "none"], ids=["by records", "by columns"])
def test_a_time_outside_of_a_day_is_a_bad_record_that_names_its_column(
    sink: Sink, target: Rows, key_mode: str
) -> None:
    letters = {
        "errors_tolerance": "all",
        "errors_deadletterqueue_topic_name": "letters",
        "errors_deadletterqueue_context_headers_enable": "true",
    }
    send_clocks(sink)
    sink.start("t", schema_evolution="basic", primary_key_mode=key_mode, **SCHEMAS, **letters)
    sink.wait()
    assert target("SELECT number, worked::text FROM t ORDER BY number") == list(OF_A_DAY.items())
    found = sink.worker.kafka.topics["letters"]
    assert [json.loads(value or b"")["payload"]["number"] for _, value, _ in found] == list(DURATIONS)
    told = {dict(headers or ())["__connect.errors.exception.message"] for *_, headers in found}
    assert told == {b"column worked: the time is none of a day; a column of type INTERVAL would hold it"}


def test_a_column_that_is_there_holds_durations(sink: Sink, target: Rows) -> None:
    target("CREATE TABLE t (number int, worked interval)")
    send_clocks(sink)
    sink.start("t", **SCHEMAS)
    sink.wait()
    assert target("SELECT worked::text FROM t ORDER BY number") == [
        ("00:00:00",), ("-01:02:03.4",), ("24:00:00",), ("838:59:59",), ("24:00:00.000001",),
    ]  # fmt: skip
