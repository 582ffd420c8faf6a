"""Envelopes, keys and markers are decoded from all three formats; what is none is refused without its content."""

from decimal import Decimal

import pytest
from envelope_samples import ENVELOPE, EVENT, MARKER, OneSchemaRegistry, avro, json_with_schema

from tidings_envelope import semantic
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import CollectionCount, lsn_of, txid_of
from tidings_envelope.errors import DecodeError
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.wire import frame, split


def test_an_envelope_in_json_without_schemas() -> None:
    envelope = EnvelopeDecoder().envelope(JsonCodec().encoder(ENVELOPE)(EVENT))
    assert envelope is not None
    assert (envelope.op, envelope.source.qualified_table, envelope.source.tx_id) == ("c", "public.t", 7)
    assert envelope.after is not None
    assert envelope.after["price"] == "BM4="
    assert envelope.transaction is not None
    assert envelope.transaction.total_order == 1
    assert envelope.source.last_commit_lsn == 1
    assert not envelope.source.is_snapshot


@pytest.mark.parametrize("repeat", [1, 2])
def test_an_envelope_in_json_with_schemas_has_decimals(repeat: int) -> None:
    decoder = EnvelopeDecoder()
    # the second one recognises the schema by its bytes
    envelope = [decoder.envelope(json_with_schema(ENVELOPE, EVENT)) for _ in range(repeat)][-1]
    assert envelope is not None
    assert envelope.after == {
        "id": 1,
        "price": Decimal("12.30"),
        "weight": Decimal("1.500"),
        "prices": [Decimal("0.5"), None],
        "day": 20000,
    }


def test_an_envelope_in_avro_has_decimals_and_keeps_days_as_numbers() -> None:
    decoder, raw = avro(ENVELOPE, EVENT)
    envelope = decoder.envelope(raw)
    assert envelope is not None
    assert envelope.after == {
        "id": 1,
        "price": Decimal("12.30"),
        "weight": Decimal("1.500"),
        "prices": [Decimal("0.5"), None],
        "day": 20000,
    }
    assert envelope == EnvelopeDecoder().envelope(json_with_schema(ENVELOPE, EVENT))


TIMES = [
    (semantic.TIMESTAMP, 1_767_225_600_123, "2026-01-01T00:00:00.123000"),
    (semantic.CONNECT_TIMESTAMP, 1_767_225_600_123, "2026-01-01T00:00:00.123000"),
    (semantic.MICRO_TIMESTAMP, 1_767_225_600_123_456, 1_767_225_600_123_456),
    (semantic.MICRO_TIMESTAMP, 1_123_456, "1970-01-01T00:00:01.123456"),
    (semantic.NANO_TIMESTAMP, 1_767_225_600_123_456_000, "2026-01-01T00:00:00.123456"),
    (semantic.TIMESTAMP, 9_223_372_036_825_200, 9_223_372_036_825_200),
    (semantic.TIME, 3_661_001, "01:01:01.001000"),
    (semantic.CONNECT_TIME, 3_661_001, "01:01:01.001000"),
    (semantic.MICRO_TIME, 3_661_001_000, 3_661_001_000),
    (semantic.MICRO_TIME, 61_000_000, "00:01:01.000000"),
    (semantic.NANO_TIME, 3_661_001_000_000, "01:01:01.001000"),
    (semantic.MICRO_TIME, -1, -1),
    (semantic.MICRO_TIME, 3_020_399_000_000, 3_020_399_000_000),
    (semantic.NANO_TIME, 3_020_399_000_000_000, "838:59:59.000000"),
    (semantic.NANO_TIME, -3_723_400_000_000, "-01:02:03.400000"),
    (semantic.CONNECT_DATE, 20_000, 20_000),
]


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(("type_", "number", "read"), TIMES)
def test_times_that_are_asked_for_say_their_unit(
    type_: ConnectSchema, number: int, read: object, optional: bool
) -> None:
    """In the unit that the schema tells; what is outside the calendar stays as it is."""
    column = type_.as_optional() if optional else type_
    schema = semantic.struct("shop.public.t.Value", [("at", column), ("other", column)])
    value = {"at": number, "other": number}
    decoder = EnvelopeDecoder(OneSchemaRegistry(schema), times=frozenset(("at",)))  # type: ignore[arg-type]
    assert decoder.key(json_with_schema(schema, value)) == {"at": read, "other": number}
    assert decoder.key(frame(42, AvroCodec().encoder(schema)(value))) == {"at": read, "other": number}


def test_keys() -> None:
    schema = semantic.struct(
        "shop.public.t.Key", [("id", ConnectSchema(ConnectType.INT64)), ("n", semantic.decimal(1))]
    )
    value = {"id": 3, "n": Decimal("1.5")}
    assert EnvelopeDecoder().key(JsonCodec().encoder(schema)(value)) == {"id": 3, "n": "Dw=="}
    assert EnvelopeDecoder().key(json_with_schema(schema, value)) == value
    decoder, raw = avro(schema, value)
    assert decoder.key(raw) == value


def test_markers() -> None:
    schema = semantic.TRANSACTION_VALUE
    decoder, raw = avro(schema, MARKER)
    for marker in (
        EnvelopeDecoder().marker(JsonCodec().encoder(schema)(MARKER)),
        EnvelopeDecoder().marker(json_with_schema(schema, MARKER)),
        decoder.marker(raw),
    ):
        assert marker.is_end
        assert (txid_of(marker.id), lsn_of(marker.id), marker.event_count) == (7, 9, 1)
        assert marker.data_collections == (CollectionCount("public.t", 1),)


def test_a_tombstone_and_a_missing_key_are_none() -> None:
    assert EnvelopeDecoder().envelope(None) is None
    assert EnvelopeDecoder().key(None) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello",
        b"[]",
        b"{",
        b'{"op":',
        b"{}",
        b'{"op":"c","source":"secret"}',
        b'{"op":1}',
        b'{"schema":',
        b'{"schema":{},"payload":{}}',
        b'{"schema":null,"payload":null}',
        b'{"op":"\xff"}',
    ],
)
def test_what_is_no_envelope_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        EnvelopeDecoder().envelope(raw)
    assert "secret" not in str(caught.value)


def test_a_truncated_avro_record_is_refused_wherever_it_ends() -> None:
    decoder, raw = avro(ENVELOPE, EVENT)
    for size in range(len(raw)):
        with pytest.raises(DecodeError):
            decoder.envelope(raw[:size])
    with pytest.raises(DecodeError, match="too many"):
        decoder.envelope(raw + b"\0")


def test_avro_needs_a_registry() -> None:
    with pytest.raises(DecodeError, match="no schema registry is set"):
        EnvelopeDecoder().envelope(b"\0\0\0\0\1x")


def test_an_avro_record_that_is_no_envelope_is_refused() -> None:
    decoder, raw = avro(semantic.TRANSACTION_KEY, {"id": "1:2"})
    with pytest.raises(DecodeError, match="lacks an envelope's fields"):
        decoder.envelope(raw)
    with pytest.raises(DecodeError, match="not a transaction marker"):
        decoder.marker(raw)


def test_the_wire_format() -> None:
    assert split(frame(258, b"body")) == (258, b"body")
    with pytest.raises(DecodeError, match="too few"):
        split(b"\0\0\0")
    with pytest.raises(DecodeError, match="zero byte"):
        split(b"\1\0\0\0\1")


@pytest.mark.parametrize("text", ["", "x:1", ":"])
def test_a_transaction_id_without_a_number_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="txid:lsn"):
        txid_of(text)
