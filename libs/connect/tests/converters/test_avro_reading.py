"""Bodies of Avro as fastavro reads them, which the reader that is compiled for a schema stands beside."""

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tidings_connect.converters.avro_decoding import AvroDecoder
from tidings_connect.data.columns import OptionalColumn
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


def messages(registry: Registry, source: random.Random, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, registry.parsed, row(source))
        found.append(header(1) + body.getvalue())
    return found


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


def test_many_bodies_are_read_as_each_by_itself() -> None:
    """Rows of all types, some of them of several parts of a megabyte, with tombstones, and a second schema between them."""
    first, source = Registry(SCHEMA), random.Random(11)
    second = Registry({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]})

    class Both:
        def schema_by_id(self, number: int) -> Any:
            return (first if number == 1 else second).parsed

    decode = AvroDecoder(Both())  # type: ignore[arg-type]
    for count in (3, 64, 300):
        found: list[bytes | None] = [*messages(first, source, count), None]
        found += [header(2) + body for body in [b"\x00", b"\x02\x02x", b"\x02\x04\xc3\xa4"] * count]
        source.shuffle(found)
        assert decode.many(found) == [decode(message) for message in found]
    assert decode.many([]) == []


def test_structs_are_read_field_by_field_as_each_by_itself() -> None:
    registry, source = Registry(SCHEMA), random.Random(19)
    decode = AvroDecoder(registry)  # type: ignore[arg-type]
    for count in (64, 300):
        given = [message for message in messages(registry, source, 4 * count) if len(message) < 2_000][:count]
        found = decode.structs(given)
        assert found is not None
        schema, structs = found
        rows = [decode(message)[1] for message in given]
        assert schema is decode(given[0])[0]
        assert (structs.count, structs()) == (len(given), rows)
        for name, column in structs.fields.items():
            assert column() == [row[name] for row in rows], name
        inner = structs.fields["inner"]
        assert isinstance(inner, OptionalColumn)
        assert list(inner.places) == [place for place, row in enumerate(rows) if row["inner"] is not None]
        assert structs.may_hold("ä".encode())
        assert not structs.may_hold(b"__debezium_unavailable_value")


def test_structs_that_are_few_many_damaged_or_of_two_schemas_are_left_to_other_ways() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    decode = AvroDecoder(Registry(schema))  # type: ignore[arg-type]
    one = header(1) + b"\x02x"
    assert decode.structs([one] * 64) is not None
    assert decode.structs([one] * 63) is None
    assert decode.structs([one] * 64 + [one + b"x"]) is None
    assert decode.structs([one] * 64 + [header(2) + b"\x02x"]) is None
    assert decode.structs([header(1) + b"\x80\x40" + b"x" * 4096] * 600) is None
    assert AvroDecoder(Registry({"type": "string"})).structs([one] * 64) is None  # type: ignore[arg-type]
    found = decode.structs([one] * 64 + [header(1) + b"\x02\xff"])
    assert found is not None
    with pytest.raises(ValueError, match="utf-8"):
        found[1].fields["a"]()


def test_numbers_of_every_length_are_read_among_many() -> None:
    decode = AvroDecoder(Registry({"type": "record", "name": "R", "fields": [  # type: ignore[arg-type]
        {"name": "a", "type": "long"}, {"name": "b", "type": {"type": "fixed", "name": "F", "size": 9}}]}))  # fmt: skip
    numbers = [
        sign * number
        for bits in range(64)
        for number in (1 << bits, (1 << bits) - 1, 5 << bits >> 3)
        for sign in (1, -1)
    ]
    numbers = [number for number in numbers if -(1 << 63) <= number < 1 << 63]
    for behind in (b"\x80" * 9, b"\xff" * 9, b"\0" * 9):
        found = decode.many([header(1) + long_avro(number) + behind for number in numbers])
        assert found is not None
        assert [value for _, value in found] == [{"a": number, "b": behind} for number in numbers]
    for too_long in (b"\xff" * 11, b"\xff" * 9 + b"\x02"):
        damaged = [header(1) + long_avro(5) + bytes(9)] * 100 + [header(1) + too_long + bytes(9)]
        assert decode.many(damaged) is None


def test_of_many_that_are_damaged_none_is_read_wrongly() -> None:
    """Where each can be read by itself, they are the same; where one cannot, it is to be found one by one."""
    registry, source = Registry(SCHEMA), random.Random(13)
    decode = AvroDecoder(registry)  # type: ignore[arg-type]
    good, outcomes = messages(registry, source, 100), set()
    for _ in range(400):
        place = source.randrange(len(good))
        data = bytearray(good[place])
        match source.randrange(3):
            case 0:
                data[source.randrange(5, len(data))] = source.choice(
                    (0, 1, 127, 128, 255, source.randrange(256))
                )
            case 1:
                del data[source.randrange(5, len(data)) :]
            case _:
                data += source.randbytes(source.randrange(1, 20))
        damaged = [*good[:place], bytes(data), *good[place + 1 :]]
        try:
            wanted = [decode(message) for message in damaged]
        except DataError:
            wanted = None
        outcomes.add(wanted is None)
        assert decode.many(damaged) in (None, wanted)
    assert outcomes == {True, False}


def test_of_many_envelopes_only_what_is_wanted_is_made_and_of_other_records_all() -> None:
    source = random.Random(17)
    row = {"type": "record", "name": "Value", "fields": [{"name": "op", "type": "string"}]}
    places = {"type": "record", "name": "Source", "fields": [
        {"name": name, "type": kind} for name, kind in (("db", "string"), ("ts_ms", "long"), ("lsn", ["null", "long"]))]}  # fmt: skip
    block = {"type": "record", "name": "Block", "fields": [{"name": "id", "type": "string"}]}
    nothing = {"type": "record", "name": "Nothing", "fields": []}
    fields = [
        {"name": name, "type": kind}
        for name, kind in (("before", ["null", row]), ("after", ["null", "Value"]), ("transaction", ["null", block]),
                           ("nothing", nothing), ("source", places), ("op", "string"))
    ]  # fmt: skip
    wanted = frozenset({"before", "after", "op", "source.ts_ms", "source.ts_us"})
    for count in (len(fields), len(fields) - 1):
        registry = Registry({"type": "record", "name": "Envelope", "fields": fields[:count]})
        decode = AvroDecoder(registry)  # type: ignore[arg-type]
        found = []
        for number in range(200):
            body = io.BytesIO()
            place = {"db": "ä" * (number % 3), "ts_ms": number, "lsn": source.choice((None, 1 << 40))}
            value = {"before": None, "after": source.choice((None, {"op": "x"})), "source": place, "op": "c",
                     "transaction": source.choice((None, {"id": "7"})), "nothing": {}}  # fmt: skip
            fastavro.schemaless_writer(body, registry.parsed, value)
            found.append(header(1) + body.getvalue())
        whole = [decode(message) for message in found]
        if count == len(fields):
            for _, value in whole:
                value["source"] = {"ts_ms": value["source"]["ts_ms"]}
                del value["transaction"], value["nothing"]
        assert decode.many(found, wanted) == whole
        assert decode.many([*found, found[0] + b"x"], wanted) is None
