"""Topics of JSON without schemas (``schemas.enable=false``), typed by schemas that are given."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from lakelab.json_topics import ROW, change, envelope, key, record
from pyiceberg.catalog.sql import SqlCatalog

from tidings_lakehouse.decoding.given_schemas import given_schemas
from tidings_lakehouse.formats.connect_of_avro import connect_of
from tidings_lakehouse.formats.connect_schemas import avro_of
from tidings_lakehouse.reading import look
from tidings_lakehouse.settings import LakehouseSettings, WarehouseSettings
from tidings_service import SettingsError

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

KEY = {"type": "struct", "fields": ROW[:1], "optional": False, "name": "k"}
AVRO_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
MOMENT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
NOTE = {"type": "string", "optional": True, "field": "later"}


def plain(payload: Any) -> bytes:
    """A record as JsonConverter writes it without schemas."""
    return json.dumps(payload, ensure_ascii=False).encode()


def give(directory: Path, topic: str, fields: list[dict[str, Any]]) -> None:
    """The first time for all topics of the schema, then for this one."""
    named = topic if directory.exists() else f"{topic.rpartition('.')[0]}.*"
    directory.mkdir(exist_ok=True)
    (directory / f"{named}-value.json").write_text(json.dumps(envelope(topic, fields)))
    (directory / f"{named}-key.avsc").write_text(json.dumps(AVRO_KEY))


@pytest.mark.stack
def test_a_topic_is_typed_by_the_schema_that_is_given(
    lake: Lake, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    """Also one that had schemas, and one whose rows have more than the schema: those are in the quarantine until it follows."""
    # Without the driver's own way for small batches, which the random changes of test_small take.
    lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": 0})
    topic, table = f"{unique_name}.public.o_{unique_name}", f"technical.o_{unique_name}"
    topics.create(topic)
    one = {"id": 1, "note": "n", "amount": "BNI="}
    topics.produce(topic, key(topic, 1), record(envelope(topic), change(10, one)))
    topics.produce(topic, plain({"id": 2}), plain(change(20, {**one, "id": 2})))
    topics.flush()
    lake.drain()  # as before an upgrade: no schema is given
    lost = f"select offset, reason from tidings.quarantine where topic = '{topic}' order by offset"
    ((offset, reason),) = lake.rows(lost)
    assert offset == 1
    assert "TIDINGS_LAKEHOUSE_SCHEMAS" in reason
    give(tmp_path / "schemas", topic, ROW)
    lake.settings = lake.settings.model_copy(update={"lakehouse_schemas": tmp_path / "schemas"})
    bad = [
        plain(change(60, {**one, "later": "secret"})),
        plain({**change(61, one), "before": {**one, "later": "secret"}}),
        plain(change(62, {**one, "id": "secret"})),
        plain(one),
        plain(change(63, one))[:-20],
    ]
    good = [
        (1, record(envelope(topic), change(30, {**one, "note": "with its schema"}))),
        (2, plain(change(40, {**one, "id": 2, "note": "plac\u00e9d \u2603"}, "u"))),
        (3, b" " + plain(change(50, {**one, "id": 3, "amount": None}))),
        (4, plain({**change(55, {**one, "id": 4}), "ts_ns": 1, "transaction": None})),
    ]
    for id_, value in good:
        topics.produce(topic, plain({"id": id_}), value)
    for value in bad:
        topics.produce(topic, plain({"id": 9}), value)
    topics.produce(topic, plain({"id": 9, "part": "secret"}), plain(change(64, {**one, "id": 9})))
    topics.flush()
    lake.drain()
    rows = [
        (1, "with its schema", Decimal("12.34"), 30),
        (2, "plac\u00e9d \u2603", Decimal("12.34"), 40),
        (3, "n", None, 50),
        (4, "n", Decimal("12.34"), 55),
    ]
    statement = f"select id, note, amount, __lsn from {table} order by id"
    assert lake.rows(statement) == rows
    found = lake.rows(lost)
    assert [row[0] for row in found] == [1, 6, 7, 8, 9, 10, 11]
    assert all("has fields that the schema given for its topic has not" in row[1] for row in found[1:])
    assert "secret" not in str(found)
    # The file follows the table, and the job is started again.
    give(tmp_path / "schemas", topic, [*ROW, NOTE])
    topics.produce(topic, plain({"id": 5}), plain(change(70, {**one, "id": 5, "later": "l"})))
    topics.produce(topic, plain({"id": 4}), plain({**change(80, one, "d"), "after": None, "before": one}))
    topics.flush()
    lake.drain()
    assert len(lake.rows(lost)) == len(found)
    rows = [*rows[:3], (5, "n", Decimal("12.34"), 70)]
    assert lake.rows(statement) == rows
    assert lake.rows(f"select id, later from {table} where later is not null") == [(5, "l")]
    _check_readers(lake, table, statement, rows)


def _check_readers(lake: Lake, table: str, statement: str, rows: list[tuple[Any, ...]]) -> None:
    uri = lake.session.conf.get("spark.sql.catalog.lake.warehouse")
    warehouse = Path(unquote(urlsplit(str(uri)).path))
    assert [
        (row[0], row[1], None if row[2] is None else Decimal(str(row[2])), row[3])
        for row in look.select(WarehouseSettings(lakehouse_warehouse=str(warehouse)), statement).rows
    ] == rows
    catalog = SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse.as_uri())
    found = catalog.load_table(table).scan(selected_fields=("id", "note", "amount", "__lsn")).to_arrow()
    catalog.close()
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == rows


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.public.a.json", "{}", "is not named <topic>-key or <topic>-value"),
        ("s.public.a-value.json", "secret", "is not a schema"),
        ("s.public.a-value.json", '{"type":"struct"}', "a struct without fields"),
        ("s.public.a-value.json", json.dumps(KEY), "is not that of a change event"),
        ("s.public.a-key.json", '{"type":"int32"}', "is not that of a table's key"),
        ("s.public.a-key.avsc", '{"type":"record"}', "it has parts that no schema has"),
        (
            "s.public.a-key.avsc",
            json.dumps({**AVRO_KEY, "fields": [MOMENT]}),
            "timestamp-micros without a connect.name",
        ),
    ],
)
def test_a_file_that_is_not_a_schema_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=said) as refused:
        given_schemas(given(tmp_path))
    assert str(tmp_path / name) in str(refused.value)


def test_two_files_of_one_subject_are_named(tmp_path: Path) -> None:
    for suffix, schema in ((".json", KEY), (".avsc", AVRO_KEY)):
        (tmp_path / f"s.public.a-key{suffix}").write_text(json.dumps(schema))
    with pytest.raises(SettingsError, match="are of the same subject"):
        given_schemas(given(tmp_path))


def test_avro_schemas_say_the_same_as_those_of_connect(tmp_path: Path) -> None:
    """As AvroConverter registers them: records by name, decimals, Debezium's names, defaults of bytes."""
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    fields = [
        {"name": "amount", "type": ["null", amount], "default": None},
        {"name": "day", "type": day, "default": 7},
        {"name": "picture", "type": {"type": "bytes"}, "default": "\xff"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "float"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a"]}},
    ]
    row = {"type": "record", "name": "Value", "namespace": "s.public.a", "fields": fields}
    outer = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}],
    }
    found = avro_of(connect_of(outer))
    marked = {**amount, "tidings.unscaled": True}
    after = found["fields"][1]["type"][1]
    assert found["fields"][0]["type"][1]["fields"] == after["fields"]
    assert after["fields"] == [
        {"name": "amount", "type": ["null", marked]},
        {"name": "day", "type": day, "default": 7},
        {"name": "picture", "type": {"type": "bytes"}, "default": "\xff"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": {"type": "float"}}}},
        {"name": "kind", "type": {"type": "string"}},
    ]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="missing is not a directory"):
        given_schemas(given(tmp_path / "missing"))
    assert given_schemas(given(None)) == {}


def given(directory: Path | None) -> LakehouseSettings:
    return LakehouseSettings(kafka="k", source="s", lakehouse_schemas=directory)
