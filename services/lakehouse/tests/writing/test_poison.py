"""Records that no decoder has thought of: each is put aside with its place, and what stands around it is written."""

from __future__ import annotations

import json
import struct
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tidings_lakehouse.formats.avro_nodes import UnsupportedSchemaError, parse_schema

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp"}]},
    {"name": "tags", "type": ["null", {"type": "array", "items": "string"}], "default": None},
]
NULL, PRESENT = b"\0", b"\2"
HUGE = (1 << 31) - 9


def number(value: int) -> bytes:
    """Avro's variable-length zig-zag."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        found.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def row(key: int, **more: Any) -> dict[str, Any]:
    return {"id": key, "note": None, "at": None, "tags": None, **more}


def nested(depth: int) -> dict[str, Any]:
    """A row's field of so many records in each other."""
    schema: Any = "long"
    for level in range(depth):
        schema = {"type": "record", "name": f"R{level}", "fields": [{"name": "x", "type": schema}]}
    return {"name": "deep", "type": schema}


def register(topics: Topics, subject: str, schema: Any) -> int:
    """As `Topics.register`, but without parsing it here."""
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{topics.registry}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        return int(json.load(response)["id"])


@pytest.mark.spark
@pytest.mark.stack
def test_poison_is_put_aside_and_what_is_around_it_is_written(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    table = topics.table(f"{unique_name}.public.p_{unique_name}", FIELDS)
    key = table.encoded(row(1), 10, 20)[0]
    wire = struct.pack(">bI", 0, table.value_id)
    good = table.encoded(row(5, note="note"), 10, 20)[1]
    begun = wire + NULL + PRESENT + number(1)
    poison = [
        begun + NULL + NULL + PRESENT + number(HUGE),  # an array of so many
        begun + NULL + NULL + PRESENT + number(100_000_000) + number(HUGE),
        begun + PRESENT + number(HUGE),  # a text so long
        begun + PRESENT + number(-1),
        begun + b"\x7e",  # a branch that the union does not have
        good[:-3],
        struct.pack(">bI", 0, 99_999_999) + good[5:],
        table.encoded(row(6, at=1 << 62), 10, 20)[1],  # milliseconds that no timestamp has
        good.replace(b"note", b"n\xff\xfee"),
    ]
    table.change("c", row(1), 10, 20)
    for value in poison:
        topics.produce(table.topic, key, value)
    table.change("c", row(2), 10, 21)
    topics.flush()
    lake.drain()
    assert lake.rows(f"select id from {table.table} order by id") == [(1,), (2,)]
    found = lake.rows(
        f"select partition, offset, value, reason from tidings.quarantine where topic = '{table.topic}' order by offset"
    )
    assert [one[:3] for one in found] == [(0, place, value) for place, value in enumerate(poison, start=1)]
    assert all(one[3].startswith("value: ") for one in found)
    table.change("c", row(3), 10, 22)
    topics.flush()
    lake.forget()
    lake.drain()
    assert lake.rows(f"select id from {table.table} order by id") == [(1,), (2,), (3,)]
    assert lake.rows(f"select count(*) from tidings.quarantine where topic = '{table.topic}'") == [
        (len(poison),)
    ]


@pytest.mark.spark
@pytest.mark.stack
def test_an_event_that_ends_its_decoder_is_put_aside_and_the_others_are_written(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    topic, table = f"{unique_name}.moved-{unique_name}.v1", f"business.moved_{unique_name}_v1"
    topics.create(topic)
    at = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
    schema = topics.register(
        f"{topic}-value", {"type": "record", "name": "Moved", "fields": [{"name": "at", "type": at}]}
    )
    lake.streams = ["business"]

    def publish(*moments: int) -> None:
        for moment in moments:
            headers = [("ce_id", str(moment).encode())]
            topics.produce(topic, b"1", topics.encode(schema, {"at": moment}), headers)
        topics.flush()

    never = 1 << 62  # milliseconds that no timestamp has
    publish(1, never, 2)
    lake.drain()
    publish(3, 4)
    lake.forget()
    lake.drain()
    assert lake.rows(f"select ce_id from {table} order by ce_id") == [("1",), ("2",), ("3",), ("4",)]
    kept = lake.rows(f"select offset, value, reason from tidings.quarantine where topic = '{topic}'")
    assert [one[:2] for one in kept] == [(1, topics.encode(schema, {"at": never}))]
    assert kept[0][2].startswith("value: ")


def test_a_schema_that_is_too_deep_or_too_wide_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="deep"):
        parse_schema({"type": "record", "name": "Row", "fields": [nested(3000)]})
    wide: Any = "long"
    for level in range(40):
        fields = [{"name": "a", "type": wide}, {"name": "b", "type": f"W{level - 1}" if level else "long"}]
        wide = {"type": "record", "name": f"W{level}", "fields": fields}
    with pytest.raises(UnsupportedSchemaError, match="fields"):
        parse_schema(wide)
