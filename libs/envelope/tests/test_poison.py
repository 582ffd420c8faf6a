"""Whatever bytes a record has, decoding gives an envelope that can be kept and written, or a `DecodeError`.

Anything else would end the process that reads it, and its successor on the same record, for ever.
"""

import json
from collections.abc import Callable
from typing import Any

import fastavro
import msgspec
import pytest
from envelope_samples import ENVELOPE, EVENT, MARKER, avro, json_with_schema
from hypothesis import example, given
from hypothesis import strategies as st

from tidings_envelope import semantic
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of, txid_of
from tidings_envelope.errors import DecodeError, RegistryError
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.wire import frame

PLAIN = JsonCodec().encoder(ENVELOPE)(EVENT)
WITH_SCHEMA = json_with_schema(ENVELOPE, EVENT)
_, AVRO = avro(ENVELOPE, EVENT)
END = JsonCodec().encoder(semantic.TRANSACTION_VALUE)(MARKER)
BEGUN = b'{"schema":{"type":"struct","fields":[{"field":"a"}]},"payload":' + PLAIN + b"}"


class AnyRegistry:
    """A registry whose only schema is the one it was made with, and that says so of every id."""

    def __init__(self, schema: Any) -> None:
        self.schema = fastavro.parse_schema(schema)

    def schema_by_id(self, schema_id: int) -> Any:
        return self.schema


def whole(decode: Callable[[], Any]) -> Any:
    """What `decode` gives, after all that becomes of it before anybody's rule sees it; None for a `DecodeError`."""
    try:
        envelope = decode()
        if envelope is None:
            return None
        if envelope.transaction is not None:
            txid_of(envelope.transaction.id)
        _ = envelope.source.last_commit_lsn
    except DecodeError:
        return None
    msgspec.msgpack.decode(msgspec.msgpack.encode(envelope))
    return envelope


def end_of(raw: bytes) -> Any:
    """A marker as it is used; None for a `DecodeError`."""
    try:
        marker = EnvelopeDecoder().marker(raw)
        if marker.is_end:
            msgspec.msgpack.encode((txid_of(marker.id), lsn_of(marker.id)))
    except DecodeError:
        return None
    return marker


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


NUMBERS = (b"9" * 30, b"-" + b"9" * 30, b"9" * 5000, b"1e999", b"-1", b"0", b"1.5", b"null", b"true", b'"x"')
ODD = (*NUMBERS, b'"\\ud800"', b'"\\u0000"', b"[]", b"{}", nested(70), nested(5_000), b'{"scale":1}')
PLACES = (
    b'"id":1',
    b'"total_order":1',
    b'"lsn":2',
    b'"txId":7',
    b'"ts_ms":5',
    b'"op":"c"',
    b'"id":"7:2"',
    b'"table":"t"',
    b'"day":20000',
    b'"price":"BM4="',
    b'"scale":3',
    b'"snapshot":"false"',
    b'"sequence":"[\\"1\\",\\"2\\"]"',
    b'"value":"Bdw="',
)


@pytest.mark.parametrize("base", [PLAIN, WITH_SCHEMA], ids=["plain", "with schema"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.decode()[:12])
def test_no_value_of_a_field_gets_past_as_anything_but_an_envelope(base: bytes, place: bytes) -> None:
    field = place.partition(b":")[0]
    assert place in base
    for odd in ODD:
        broken = base.replace(place, field + b":" + odd)
        whole(lambda broken=broken: EnvelopeDecoder().envelope(broken))  # type: ignore[misc]
    missing = base.replace(place, b'"x":1')
    whole(lambda: EnvelopeDecoder().envelope(missing))


@pytest.mark.parametrize("text", ["x", "9" * 5000, "-1", "1e3", " 1"])
def test_positions_that_are_no_numbers(text: str) -> None:
    record = PLAIN.replace(b'[\\"1\\"', b'[\\"%b\\"' % text.encode())
    assert whole(lambda: EnvelopeDecoder().envelope(record)) is None
    for bad in (text, f"1:{text}"):
        with pytest.raises(DecodeError):
            lsn_of(bad)
    with pytest.raises(DecodeError):
        txid_of(f"{text}:1")


@pytest.mark.parametrize("depth", [70, 900, 5_000, 200_000])
def test_depth_is_refused_in_values_and_in_schemas(depth: int) -> None:
    values = PLAIN.replace(b'"id":1', b'"id":' + nested(depth))
    assert whole(lambda: EnvelopeDecoder().envelope(values)) is None
    for schema in (
        nested(depth),
        b'{"fields":[' * depth + b"]}" * depth,
        b'{"items":' * depth + b"1" + b"}" * depth,
    ):
        record = (
            b'{"schema":{"type":"struct","fields":[{"field":"a","type":"array","items":%b}]},"payload":%b}'
        )
        raw = record % (schema, PLAIN)
        whole(lambda raw=raw: EnvelopeDecoder().envelope(raw))  # type: ignore[misc]


@pytest.mark.parametrize("schema", [b"1", b"[]", b'"x"', b"{}", b'{"fields":[1]}', b'{"fields":3}', b'{"fields":[{"field":1}]}',
    b'{"fields":[{"field":"after","fields":3},{"field":"source"}]}', b'{"fields":[{"field":"a","type":"array"}]}',
    b'{"fields":[{"field":"a","name":"org.apache.kafka.connect.data.Decimal"}]}',
    b'{"fields":[{"field":"a","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}}]}'])  # fmt: skip
def test_a_schema_in_json_that_is_none(schema: bytes) -> None:
    whole(lambda: EnvelopeDecoder().envelope(b'{"schema":%b,"payload":%b}' % (schema, PLAIN)))


def key_of(schema: Any, body: bytes) -> Any:
    return EnvelopeDecoder(AnyRegistry(schema)).key(frame(42, body))  # type: ignore[arg-type]


def record_of(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "K",
        "fields": [{"name": name, "type": type_} for name, type_ in fields],
    }


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (record_of(("a", ["null", "K"])), b"\x02" * 3_000_000),
        (record_of(("a", {"type": "array", "items": "null"})), b"\xfe\xff\xff\xff\xff\x7f"),
        (record_of(("a", {"type": "map", "values": "K"})), b"\x02\x00" * 300_000),
        (record_of(("a", {"type": "array", "items": {"type": "record", "name": "E", "fields": []}})), b"\xfe\xff\xff\xff\x7f"),
        (record_of(("a", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})), b"\xfe\xff\xff\xff\x7f"),
        (record_of(("a", {"type": "array", "items": record_of(("b", "null")) | {"name": "N"}})), b"\xfe\xff\xff\xff\x7f"),
        (record_of(("a", {"type": "fixed", "name": "F", "size": 1 << 40})), b"x"),
        (record_of(("a", "string")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fabc"),
        (record_of(("a", {"type": "array", "items": "int"})), b"\xfe\xff\xff\xff\xff\xff\x7f\x02"),
        ("string", b"\x02a"),
        (["null", "string"], b"\x02\x02a"),
        ({"type": "array", "items": "string"}, b"\x00"),
    ],
    ids=lambda value: json.dumps(value)[:40] if not isinstance(value, bytes) else "",
)  # fmt: skip
def test_avro_that_would_take_all_memory_or_the_stack(schema: Any, body: bytes) -> None:
    with pytest.raises(DecodeError):
        key_of(schema, body)


def test_an_avro_schema_that_is_too_deep() -> None:
    schema: Any = "int"
    for number in range(200):
        schema = (
            {"type": "array", "items": schema}
            if number % 2
            else record_of(("a", schema)) | {"name": f"R{number}"}
        )
    with pytest.raises(DecodeError, match="deep"):
        key_of(record_of(("a", schema)) | {"name": "Top"}, b"\x00")


@pytest.mark.parametrize("field", ["op", "source", "transaction", "before", "after"])
@pytest.mark.parametrize("type_", ["string", "long", "bytes", {"type": "map", "values": "long"}])
def test_an_envelope_of_other_types_in_avro(field: str, type_: Any) -> None:
    """`op` is a text and `source` a record, or it is nothing of ours: not found out later, by whoever compares it."""
    decoder, _ = avro(ENVELOPE, EVENT)
    schema = decoder._registry.schema_by_id(42)  # type: ignore[union-attr]
    of = {one["name"]: one["type"] for one in schema["fields"]}
    if field == "before":
        of["after"] = of["before"]  # the row's type is told where it comes first
    fields = [{"name": name, "type": type_ if name == field else known} for name, known in of.items()]
    other = {"type": "record", "name": "O", "fields": fields}
    written = AvroCodec().encoder(ENVELOPE)(EVENT)
    reader = EnvelopeDecoder(AnyRegistry(other))  # type: ignore[arg-type]
    found = whole(lambda: reader.envelope(frame(42, written)))
    assert found is None or (field == "op" and type_ == "string")


@pytest.mark.parametrize("scale", [10**12, -(10**12), 200_000])
def test_a_scale_that_no_number_has(scale: int) -> None:
    raw = WITH_SCHEMA.replace(b'{"scale":3', b'{"scale":%d' % scale)
    assert whole(lambda: EnvelopeDecoder().envelope(raw)) is None


def test_whole_numbers_of_more_than_64_bits_are_kept() -> None:
    """As `decimal.format=NUMERIC` writes a numeric without decimals."""
    number = 123456789012345678901234567890
    raw = PLAIN.replace(b'"id":1', b'"id":%d' % number)
    envelope = whole(lambda: EnvelopeDecoder().envelope(raw))
    assert str(envelope.after["id"]) == str(number)


@pytest.mark.parametrize("field", [b"ts_ms", b"ts_us"])
def test_a_time_that_no_calendar_has(field: bytes) -> None:
    at = PLAIN.index(b'"source"')
    source = PLAIN[at:].replace(b'"%b":5' % field, b'"%b":9000000000000000000' % field, 1)
    assert source != PLAIN[at:]
    assert whole(lambda: EnvelopeDecoder().envelope(PLAIN[:at] + source)) is None


def test_an_operation_that_there_is_not() -> None:
    assert whole(lambda: EnvelopeDecoder().envelope(PLAIN.replace(b'"op":"c"', b'"op":"x"'))) is None


def test_counts_that_no_transaction_has() -> None:
    assert end_of(END) is not None
    for count in (b"-1", b"9" * 30, b"1.5", b'"1"'):
        assert end_of(END.replace(b'"event_count":1', b'"event_count":' + count)) is None


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(("flip", "cut", "double", "insert", "swap")),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=5,
)


def mutated(raw: bytes, mutations: list[tuple[str, float, bytes]]) -> bytes:
    """A record that something has happened to."""
    for what, where, by in mutations:
        at = int(where * len(raw))
        if what == "flip":
            raw = raw[:at] + bytes([(raw[at] if raw else 0) ^ by[0]]) + raw[at + 1 :]
        elif what == "cut":
            raw = raw[:at]
        elif what == "double":
            raw = raw[:at] + raw[max(at - by[0], 0) : at] + raw[at:]
        elif what == "insert":
            raw = raw[:at] + by + raw[at:]
        else:
            raw = raw[at:] + raw[:at]
    return raw


@given(MUTATIONS)
@example([("cut", 0.0, b"x")])
def test_a_mutated_record_is_an_envelope_or_a_decode_error(mutations: list[tuple[str, float, bytes]]) -> None:
    for base in (PLAIN, WITH_SCHEMA, BEGUN):
        raw = mutated(base, mutations)
        whole(lambda raw=raw: EnvelopeDecoder().envelope(raw))  # type: ignore[misc]
    decoder, base = avro(ENVELOPE, EVENT)
    body = mutated(base[5:], mutations)
    whole(lambda: decoder.envelope(base[:5] + body))
    end_of(mutated(END, mutations))


@given(st.binary(max_size=200))
def test_any_bytes_behind_a_real_schema(body: bytes) -> None:
    decoder, base = avro(ENVELOPE, EVENT)
    whole(lambda: decoder.envelope(base[:5] + body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["c", "u", "7:2"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["op", "source", "before", "after", "schema", "id", "fields", "x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(sorted([*EVENT, "schema", "payload"])), JSON), st.booleans())
def test_any_json_in_an_envelope_s_places(fields: dict[str, Any], with_schema: bool) -> None:
    event = {**json.loads(PLAIN), **fields}
    schema = fields.get("schema", {})
    value = {"schema": schema, "payload": event} if with_schema else event
    raw = json.dumps(value, separators=(",", ":")).encode()
    whole(lambda: EnvelopeDecoder().envelope(raw))
    end_of(raw)


class FailingRegistry:
    """A registry that answers so."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def schema_by_id(self, schema_id: int) -> Any:
        raise self.error


def test_a_registry_that_is_away_is_not_the_record_s_fault() -> None:
    away = RegistryError("away", retry="timed")
    with pytest.raises(RegistryError) as caught:
        EnvelopeDecoder(FailingRegistry(away)).envelope(AVRO)  # type: ignore[arg-type]
    assert caught.value.retry == "timed"
