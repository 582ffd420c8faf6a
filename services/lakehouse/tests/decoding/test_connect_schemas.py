"""A schema of Kafka Connect becomes the Avro schema that Confluent's converter would register."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_lakehouse.decoding.fills import required_defaults, required_fields, row_fields
from tidings_lakehouse.formats.avro_nodes import Node, UnsupportedSchemaError, parse_schema
from tidings_lakehouse.formats.connect_schemas import avro_of

DECIMAL = ConnectSchema(
    ConnectType.BYTES,
    name="org.apache.kafka.connect.data.Decimal",
    version=1,
    parameters={"scale": "2", "connect.decimal.precision": "10"},
)
_OWN = ConnectSchema(
    ConnectType.STRUCT,
    name="s.t.Value",
    optional=True,
    fields=(
        Field("id", ConnectSchema(ConnectType.INT64)),
        Field("small", ConnectSchema(ConnectType.INT16, optional=True)),
        Field("n", ConnectSchema(ConnectType.INT32, default=7)),
        Field("share", ConnectSchema(ConnectType.FLOAT32, optional=True)),
        Field("ratio", ConnectSchema(ConnectType.FLOAT64, optional=True)),
        Field("flag", ConnectSchema(ConnectType.BOOLEAN, default=False)),
        Field("text", ConnectSchema(ConnectType.STRING, optional=True, default="a")),
        Field("price", replace(DECIMAL, default=Decimal("-0.05"))),
        Field("raw", ConnectSchema(ConnectType.BYTES, default=b"\xff")),
        Field("day", ConnectSchema(ConnectType.INT32, name="io.debezium.time.Date", optional=True)),
        Field(
            "tags",
            ConnectSchema(
                ConnectType.ARRAY, items=ConnectSchema(ConnectType.STRING, optional=True), optional=True
            ),
        ),
        Field(
            "more",
            ConnectSchema(
                ConnectType.MAP,
                keys=ConnectSchema(ConnectType.STRING),
                items=ConnectSchema(ConnectType.STRING, optional=True),
            ),
        ),
    ),
)
ENVELOPE = ConnectSchema(
    ConnectType.STRUCT,
    name="s.t.Envelope",
    fields=(
        Field("before", _OWN),
        Field("after", _OWN),
        Field("op", ConnectSchema(ConnectType.STRING)),
    ),
)


def _both(schema: ConnectSchema) -> tuple[Any, Any]:
    of_json = avro_of(json.loads(JsonCodec().schema_json(schema)))
    return of_json, json.loads(avro_schema_json(schema))


def test_it_is_the_same() -> None:
    """But for decimals, which come as bytes."""
    mine, avro = _both(ENVELOPE)
    assert _plain(parse_schema(mine)) == _plain(parse_schema(avro))
    assert required_fields(mine) == required_fields(avro) == {"op"}
    assert required_defaults(row_fields(mine)) == required_defaults(row_fields(avro))
    assert required_defaults(row_fields(mine)) == {"n": 7, "flag": False, "price": "\xfb", "raw": "\xff"}
    row = parse_schema(mine).field("after")
    assert row is not None
    price = row.field("price")
    assert price == Node("bytes", logical="decimal", precision=10, scale=2, is_unscaled=True)


def _plain(node: Node) -> Node:
    return replace(
        node,
        is_unscaled=False,
        fields=tuple((name, _plain(inner)) for name, inner in node.fields),
        items=None if node.items is None else _plain(node.items),
    )


def test_names_that_avro_does_not_allow() -> None:
    schema = ConnectSchema(ConnectType.STRUCT, fields=(Field("a b.c-d", ConnectSchema(ConnectType.INT32)),))
    assert parse_schema(avro_of(json.loads(JsonCodec().schema_json(schema)))).fields == (
        ("a b.c-d", Node("int")),
    )


def test_a_map_whose_keys_are_not_text_is_its_json() -> None:
    number = ConnectSchema(ConnectType.INT32)
    schema = json.loads(JsonCodec().schema_json(ConnectSchema(ConnectType.MAP, keys=number, items=number)))
    assert parse_schema(avro_of(schema)) == Node("string")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "not a JSON object"),
        ({}, "the type None"),
        ({"type": "int128"}, "the type int128"),
        ({"type": ["int32"]}, "the type None"),
        ({"type": "struct"}, "a struct without fields"),
        ({"type": "struct", "fields": [{"type": "int32"}]}, "a field without a name"),
        ({"type": "array"}, "not a JSON object"),
        ({"type": "bytes", "name": DECIMAL.name}, "a decimal without a scale"),
        ({"type": "bytes", "name": DECIMAL.name, "parameters": {"scale": "x"}}, "a decimal without a scale"),
        ({"type": "struct", "fields": [{"type": "bytes", "field": "a", "default": "%"}]}, "not base64"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=message):
        avro_of(schema)
