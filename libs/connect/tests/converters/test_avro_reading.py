"""Bodies of Avro as fastavro reads them, which the reader that is compiled for a schema stands beside."""

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tidings_connect.converters.avro_decoding import AvroDecoder
from tidings_connect.data.errors import DataError
from tidings_envelope.avro.codec import long_avro
from tidings_envelope.wire import header

INNER = {"type": "record", "name": "a.Inner", "fields": [{"name": "n", "type": ["null", "long"]}]}
SCHEMA = {
    "type": "record",
    "name": "a.Row",
    "fields": [
        {"name": "long", "type": "long"},
        {"name": "int", "type": {"type": "int"}},
        {"name": "maybe", "type": ["string", "null"]},
        {"name": "bytes", "type": "bytes"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "state", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "flag", "type": "boolean"},
        {"name": "float", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "inner", "type": ["null", INNER]},
        {"name": "again", "type": "a.Inner"},
        {"name": "list", "type": {"type": "array", "items": ["null", "a.Inner"]}},
        {"name": "map", "type": {"type": "map", "values": "string"}},
    ],
}


class Registry:
    """Has one schema."""

    def __init__(self, schema: Any) -> None:
        self.parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def schema_by_id(self, _: int) -> Any:
        return self.parsed


def row(source: random.Random) -> dict[str, Any]:
    def number(bits: int) -> int:
        return source.choice((1, -1)) * source.getrandbits(source.randrange(bits)) - source.randrange(2)

    def text() -> str:
        return "ä" * source.choice((0, 1, 5, 40, 9000))

    inner = [{"n": source.choice((None, number(64)))} for _ in range(source.choice((0, 1, 70)))]
    return {
        "long": number(64),
        "int": number(32),
        "maybe": source.choice((None, text())),
        "bytes": source.randbytes(source.choice((0, 3, 130))),
        "fixed": source.randbytes(3),
        "state": source.choice("AB"),
        "money": Decimal(number(60)).scaleb(-2),
        "flag": source.random() < 0.5,
        "float": source.randrange(1000) / 8,
        "double": source.random(),
        "inner": source.choice((None, {"n": number(50)})),
        "again": {"n": number(64)},
        "list": [*inner, None],
        "map": {f"k{place}": text() for place in range(source.choice((0, 2)))},
    }


def test_bodies_are_read_as_fastavro_reads_them_and_none_that_is_cut_off() -> None:
    registry, source = Registry(SCHEMA), random.Random(7)
    decode = AvroDecoder(registry)  # type: ignore[arg-type]
    for _ in range(150):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, registry.parsed, row(source))
        data = header(1) + body.getvalue()
        body.seek(0)
        assert decode(data)[1] == fastavro.schemaless_reader(body, registry.parsed, None)
        for end in (source.randrange(len(data)), len(data) - 1):
            with pytest.raises(DataError):
                decode(data[:end])
        with pytest.raises(DataError, match="2 bytes too many for schema 1"):
            decode(data + b"ab")


def test_numbers_of_every_length_are_read_whatever_stands_behind_them() -> None:
    decode = AvroDecoder(Registry({"type": "record", "name": "R", "fields": [  # type: ignore[arg-type]
        {"name": "a", "type": "long"}, {"name": "b", "type": {"type": "fixed", "name": "F", "size": 9}}]}))  # fmt: skip
    for bits in range(64):
        for number in {1 << bits, (1 << bits) - 1, -(1 << bits), 5 << bits >> 3} - {1 << 63}:
            for behind in (b"\x80" * 9, b"\xff" * 9, b"\0" * 9):
                value = decode(header(1) + long_avro(number) + behind)[1]
                assert value == {"a": number, "b": behind}
    with pytest.raises(DataError):
        decode(header(1) + b"\xff" * 11 + b"\0" * 9)


def test_blocks_that_say_their_size_are_read_and_decimals_keep_digits_beyond_their_precision() -> None:
    decode = AvroDecoder(Registry({"type": "array", "items": {  # type: ignore[arg-type]
        "type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}}))  # fmt: skip
    block = b"\x03" + long_avro(6) + b"\x04\x30\x39" + b"\x04\xcf\xc7"  # minus two items of six bytes
    assert decode(header(1) + block + b"\0")[1] == [Decimal("1234.5"), Decimal("-1234.5")]


@pytest.mark.parametrize(
    "body",
    [b"\x01", b"\x04", b"\x00\x01", b"\x00\x02\xff\x00"],
    ids=["a union's branch before the first", "behind the last", "a length below nought", "text that is not UTF-8"],
)  # fmt: skip
def test_bodies_that_no_writer_makes_are_refused(body: bytes) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["string", "null"]}]}
    decode = AvroDecoder(Registry(schema))  # type: ignore[arg-type]
    with pytest.raises(DataError):
        decode(header(1) + body)
