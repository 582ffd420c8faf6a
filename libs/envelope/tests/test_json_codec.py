"""The JSON codec writes what Connect's JsonConverter writes; expected texts are taken from real records."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope import semantic
from tidings_envelope.json_codec import DecimalFormat, JsonCodec, exact_string_json, string_json
from tidings_envelope.schema import ConnectSchema, ConnectType

STRING = ConnectSchema(ConnectType.STRING)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("plain", b'"plain"'),
        ('quote " backslash \\ slash /', b'"quote \\" backslash \\\\ slash /"'),
        ("tab\tnewline\nreturn\rback\bfeed\f", b'"tab\\tnewline\\nreturn\\rback\\bfeed\\f"'),
        ("bell\x07escape\x1bdel\x7f", b'"bell\\u0007escape\\u001Bdel\x7f"'),
        ("\x01\x1f", b'"\\u0001\\u001F"'),
        ("😀 emoji", b'"\\uD83D\\uDE00 emoji"'),
        ("é日本", '"é日本"'.encode()),
        ("\u2028\ufeff\ue000", '"\u2028\ufeff\ue000"'.encode()),
    ],
)
def test_strings_are_escaped_as_jackson_escapes_them(text: str, encoded: bytes) -> None:
    assert string_json(text) == encoded
    assert exact_string_json(text) == encoded


@given(st.text())
def test_a_string_reads_back_as_itself_and_both_ways_agree(text: str) -> None:
    assert json.loads(string_json(text)) == text
    assert string_json(text) == exact_string_json(text)


@pytest.mark.parametrize(
    ("schema", "value", "encoded"),
    [
        (ConnectSchema(ConnectType.INT64), -(2**63), b"-9223372036854775808"),
        (ConnectSchema(ConnectType.BOOLEAN), True, b"true"),
        (ConnectSchema(ConnectType.BYTES), b"\x00\xff\x10", b'"AP8Q"'),
        (semantic.decimal(2, 10), Decimal("12.34"), b'"BNI="'),
        (semantic.decimal(2, 10), Decimal("-1.28"), b'"gA=="'),
        (semantic.decimal(2, 10), Decimal(0), b'"AA=="'),
        (semantic.VARIABLE_SCALE_DECIMAL, {"scale": 1, "value": b"\x7d"}, b'{"scale":1,"value":"fQ=="}'),
        (semantic.array(STRING.as_optional()), ["a", None], b'["a",null]'),
        (semantic.array(STRING), [], b"[]"),
        (ConnectSchema(ConnectType.MAP, keys=STRING, items=STRING.as_optional()), {"a": None}, b'{"a":null}'),
        (
            semantic.struct("s", [("a", STRING), ("b", STRING.as_optional())]),
            {"a": "x"},
            b'{"a":"x","b":null}',
        ),
        (semantic.struct("empty", []), {}, b"{}"),
    ],
)
def test_values(schema: ConnectSchema, value: Any, encoded: bytes) -> None:
    assert JsonCodec().encoder(schema)(value) == encoded


def test_numeric_decimals_are_numbers() -> None:
    encode = JsonCodec(decimal_format=DecimalFormat.NUMERIC).encoder(semantic.decimal(2))
    assert encode(Decimal("12.30")) == b"12.30"


def test_a_null_becomes_the_default_unless_told_otherwise() -> None:
    schema = ConnectSchema(ConnectType.INT32, optional=True, default=7)
    assert JsonCodec().encoder(schema)(None) == b"7"
    assert JsonCodec(replace_null_with_default=False).encoder(schema)(None) == b"null"


def test_fragments_are_the_bytes_around_the_fields() -> None:
    schema = semantic.struct("s", [("a", STRING), ('b"', STRING)])
    assert JsonCodec().struct_fragments(schema) == (b'{"a":', b',"b\\"":', b"}")


def test_a_schema_is_written_in_connects_order() -> None:
    row = semantic.struct(
        "shop.public.t.Value",
        [
            ("id", ConnectSchema(ConnectType.INT64)),
            ("price", semantic.decimal(2, 10)),
            ("tags", semantic.array(semantic.enum(["a", "b"])).as_optional()),
            ("n", ConnectSchema(ConnectType.INT32, optional=True, default=7)),
        ],
    ).as_optional()
    assert JsonCodec().schema_json(row, "before").decode() == (
        '{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},'
        '{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
        '"parameters":{"scale":"2","connect.decimal.precision":"10"},"field":"price"},'
        '{"type":"array","items":{"type":"string","optional":false,"name":"io.debezium.data.Enum","version":1,'
        '"parameters":{"allowed":"a,b"}},"optional":true,"field":"tags"},'
        '{"type":"int32","optional":true,"default":7,"field":"n"}],'
        '"optional":true,"name":"shop.public.t.Value","field":"before"}'
    )


def test_the_frame_carries_the_schema_where_it_is_enabled() -> None:
    codec = JsonCodec()
    assert codec.frame(STRING, schemas_enable=False) == (b"", b"")
    assert codec.frame(STRING, schemas_enable=True) == (
        b'{"schema":{"type":"string","optional":false},"payload":',
        b"}",
    )
