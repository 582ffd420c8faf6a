"""What reads bytes from Kafka and schemas from the registry: the envelope library, the translator, the client library."""

import contextlib
import json
from random import Random
from typing import Any

import msgspec
from envelope_samples import ENVELOPE, EVENT, MARKER, avro, json_with_schema

from fuzzing.making import as_text, avro_record, avro_type, json_value, mutated
from fuzzing.running import CANARY, said
from tidings_client import ClientError
from tidings_client.classes import classes_text
from tidings_client.decoding import Decoder
from tidings_client.registry import Registry
from tidings_domain.changes import ChangeSet, RowChange, decode_change_set, encode_change_set
from tidings_domain.testing.recording import (
    RecordedChange,
    RecordedTransaction,
    Recording,
    decode_recording,
    encode_recording,
)
from tidings_envelope import semantic
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of, txid_of
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.headers.left_out import left_out
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.registry import RegistryClient
from tidings_service import TidingsError

_EVENT = {**EVENT, "source": {**EVENT["source"], "table": CANARY, "txId": 7}}  # type: ignore[dict-item]
_, _AVRO = avro(ENVELOPE, _EVENT)
SAMPLES = (
    JsonCodec().encoder(ENVELOPE)(_EVENT),
    json_with_schema(ENVELOPE, _EVENT),
    _AVRO,
    JsonCodec().encoder(semantic.TRANSACTION_VALUE)(MARKER),
    b'{"id":1,"name":"%s"}' % CANARY.encode(),
)


class OneSchema(RegistryClient):
    """A registry that answers every question with one text."""

    text = ""

    def schema_by_id(self, schema_id: int) -> Any:
        return self._parse(self.text, f"schema {schema_id}")


_REGISTRY = OneSchema("http://127.0.0.1:9")
"""One for all cases: it takes longer to make than a case does."""


_SAMPLES_SCHEMA = avro_schema_json(ENVELOPE)
"""Of the Avro sample."""


def envelopes(rng: Random) -> None:
    """Bytes that were an envelope, a key or a marker."""
    _REGISTRY.text = _SAMPLES_SCHEMA
    _decoded(mutated(rng, rng.choice(SAMPLES)))


def schemas(rng: Random) -> None:
    """Bytes by a schema that anybody may have registered."""
    _REGISTRY.text = as_text(avro_record(rng) if rng.random() < 0.9 else avro_type(rng))
    for _ in range(3):
        _decoded(b"\0\0\0\0\1" + _body(rng))


def _body(rng: Random) -> bytes:
    return mutated(rng, rng.choice((b"", b"\x02" * 20, b"\x00" * 20, rng.randbytes(40), _AVRO[5:])))


def _decoded(raw: bytes) -> None:
    decoder = EnvelopeDecoder(_REGISTRY, times=frozenset({"day"}))
    for decode in (decoder.envelope, decoder.key, decoder.marker):
        try:
            found = decode(raw)
            if decode == decoder.envelope and found is not None:
                if found.transaction is not None:
                    txid_of(found.transaction.id)
                _ = found.source.last_commit_lsn
            elif decode == decoder.marker and found.is_end:
                msgspec.msgpack.encode((txid_of(found.id), lsn_of(found.id)))
            msgspec.msgpack.encode(found)
        except EnvelopeError as error:
            said(f"{error} {error.hint}")


class Answering(Registry):
    """The client's registry, that answers with one text."""

    answer = b""

    def _get(self, path: str) -> bytes:
        return self.answer


def client(rng: Random) -> None:
    """The client library: classes from a contract, and events by a schema of the registry's."""
    schema = avro_record(rng) if rng.random() < 0.9 else json_value(rng)
    answer = json.dumps({"schema": as_text(schema)}).encode()
    if rng.random() < 0.1:
        answer = mutated(rng, answer)
    registry = Answering("http://127.0.0.1:9")
    registry.answer = answer
    with contextlib.suppress(ClientError):
        text = classes_text({"shop.order-placed.v2": registry.latest("shop.order-placed.v2")})
        compile(text, "events.py", "exec")
    decoder = Decoder(_CLASS, registry)
    headers = {"ce_type": b"shop.order-placed.v2", "ce_id": b"1", "ce_time": b"2026-01-01T00:00:00Z"}
    for _ in range(3):
        with contextlib.suppress(ClientError):
            decoder.decode(b"\0\0\0\0\1" + _body(rng), headers, "t/0 1")
    structured = json.dumps(
        {"type": "a.v1", "id": "1", "time": "2026-01-01T00:00:00Z", "data": json_value(rng)}
    ).encode()
    try:
        decoder.decode(mutated(rng, structured), {"content-type": b"application/cloudevents+json"}, "t/0 2")
    except ClientError as error:
        said(error)


def _made_class() -> type[Any]:
    names: dict[str, Any] = {"__name__": __name__}
    fields = [
        {"name": "a", "type": "long"},
        {"name": "b", "type": {"type": "array", "items": {"type": "bytes", "logicalType": "decimal"}}},
        {"name": "c", "type": ["null", "string"], "default": None},
        {"name": "d", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ]
    text = classes_text({"shop.order-placed.v2": {"type": "record", "name": "Order", "fields": fields}})
    exec(compile(text, "events.py", "exec"), names)
    found: type[Any] = names["OrderV2"]
    return found


_CLASS = _made_class()


_CHANGES = encode_change_set(
    ChangeSet(
        "Order", "1", 2, 3, 4, False, (RowChange("public.t", "c", None, {"id": 1, "name": CANARY}, 1),), {}
    )
)
_RECORDING = encode_recording(
    Recording("shop", [("public.t", {"id": 1})],
              [RecordedTransaction(1, 2, 3, [RecordedChange("c", "public.t", {"id": 1, "name": CANARY})])])
)  # fmt: skip


def change_sets(rng: Random) -> None:
    """What the sequencer hands to the translator, recordings in a file, and headers."""
    for decode, sample in (
        (decode_change_set, _CHANGES),
        (decode_recording, _RECORDING),
        (left_out, b'{"filtered":{"public.t":1}}'),
    ):
        try:
            decode(mutated(rng, sample))
        except (TidingsError, EnvelopeError) as error:
            said(error)
