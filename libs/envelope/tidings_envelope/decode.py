"""From the bytes on a technical topic to envelopes, keys and transaction markers.

The format is recognised from the bytes: Confluent's wire format starts with a zero byte, JSON with a brace, and JSON
with schemas with ``{"schema":``. Reading is strict: what is not an envelope is a `DecodeError`, never a guess.
"""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import msgspec

from tidings_envelope.decimals import RowConversion, row_conversion
from tidings_envelope.envelope import Envelope, Source, TransactionMarker, TransactionRef
from tidings_envelope.errors import DecodeError
from tidings_envelope.logical_types import without_temporal_types
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import HEADER_BYTES, split

_JSON_START = ord("{")
_AVRO_START = 0
_SCHEMA_START = b'{"schema":'
_PAYLOAD = b',"payload":'
_KNOWN_PREFIXES = 64
"""How many JSON schemas are remembered; more than a source has tables in practice."""


class _JsonSchema(NamedTuple):
    prefix: bytes
    convert: RowConversion | None


class _WithSchema(msgspec.Struct):
    schema: dict[str, Any] | None
    payload: msgspec.Raw


class EnvelopeDecoder:
    """Decodes records of Debezium's topics, whichever converter wrote them.

    Decimals (Connect's Decimal and Debezium's VariableScaleDecimal) become `decimal.Decimal` where a schema tells them
    (Avro, JSON with schemas); everything else stays as Debezium represents it: dates and times as integers, bytes in
    JSON as base64 text. A decoder is for one thread.

    Args:
        registry: where Avro schemas are; may be None when no topic is in Avro.
        times: names of columns in which timestamps and times of day become text where a schema tells their unit, so that
            nobody can mistake it (`tidings_envelope.times`).
    """

    def __init__(
        self, registry: RegistryClient | None = None, *, times: frozenset[str] = frozenset()
    ) -> None:
        self._registry = registry
        self._times = times
        self._envelope = msgspec.json.Decoder(Envelope)
        self._marker = msgspec.json.Decoder(TransactionMarker)
        self._object = msgspec.json.Decoder(dict[str, Any])
        self._with_schema = msgspec.json.Decoder(_WithSchema)
        self._prefixes: list[_JsonSchema] = []
        self._readers: dict[int, tuple[Any, RowConversion | None]] = {}

    def envelope(self, raw: bytes | None) -> Envelope | None:
        """A change event's value; None for a tombstone.

        Raises:
            DecodeError: the bytes are no envelope.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw is None:
            return None
        if raw[:1] == b"\0":
            record, convert = self._avro(raw)
            envelope = _envelope_of(record)
        else:
            payload, convert = self._json(raw, "envelope")
            envelope = _parse(self._envelope.decode, payload, "envelope")
        if convert is not None:
            for row in (envelope.before, envelope.after):
                if row is not None:
                    convert(row)
        return envelope

    def key(self, raw: bytes | None) -> dict[str, Any] | None:
        """A record's key; None where the table has none.

        Raises:
            DecodeError: the bytes are no key.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw is None:
            return None
        if raw[:1] == b"\0":
            record, convert = self._avro(raw)
        else:
            payload, convert = self._json(raw, "key")
            record = _parse(self._object.decode, payload, "key")
        if convert is not None:
            convert(record)
        return record

    def marker(self, raw: bytes) -> TransactionMarker:
        """A record of the transaction topic.

        Raises:
            DecodeError: the bytes are no transaction marker.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw[:1] == b"\0":
            record, _ = self._avro(raw)
            try:
                return msgspec.convert(record, TransactionMarker)
            except msgspec.ValidationError as error:
                raise DecodeError(f"not a transaction marker: {error}") from error
        payload, _ = self._json(raw, "transaction marker")
        marker: TransactionMarker = _parse(self._marker.decode, payload, "transaction marker")
        return marker

    def _json(self, raw: bytes, what: str) -> tuple[bytes | msgspec.Raw | memoryview, RowConversion | None]:
        """The payload's bytes, and what its schema says about values."""
        if not raw or raw[0] != _JSON_START:
            raise DecodeError(f"not an {what}: neither JSON nor the registry's wire format")
        if not raw.startswith(_SCHEMA_START):
            return raw, None
        for known in self._prefixes:
            if raw.startswith(known.prefix):
                return memoryview(raw)[len(known.prefix) : -1], known.convert
        return self._learn(raw, what)

    def _learn(self, raw: bytes, what: str) -> tuple[msgspec.Raw, RowConversion | None]:
        """Reads a schema that comes for the first time, and remembers the bytes before the payload."""
        message = _parse(self._with_schema.decode, raw, what)
        convert = row_conversion(message.schema, self._times) if message.schema else None
        payload = bytes(message.payload)
        if raw.endswith(_PAYLOAD + payload + b"}"):
            prefix = raw[: len(raw) - len(payload) - 1]
            self._prefixes = [_JsonSchema(prefix, convert), *self._prefixes[: _KNOWN_PREFIXES - 1]]
        return message.payload, convert

    def _avro(self, raw: bytes) -> tuple[dict[str, Any], RowConversion | None]:
        schema_id, _ = split(raw[:HEADER_BYTES])
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._avro_reader(schema_id)
        schema, convert = reader
        body = io.BytesIO(raw)
        body.seek(HEADER_BYTES)
        try:
            record = fastavro.schemaless_reader(body, schema, None)
        except (EOFError, ValueError, IndexError, TypeError, OverflowError, StopIteration) as error:
            raise DecodeError(f"the body does not follow schema {schema_id}") from error
        if body.tell() != len(raw):
            raise DecodeError(f"{len(raw) - body.tell()} bytes too many for schema {schema_id}")
        if not isinstance(record, dict):
            raise DecodeError(f"schema {schema_id} is not of a record")
        return record, convert

    def _avro_reader(self, schema_id: int) -> tuple[Any, RowConversion | None]:
        if self._registry is None:
            raise DecodeError("the record is in Avro, but no schema registry is set")
        parsed = self._registry.schema_by_id(schema_id)
        return without_temporal_types(parsed), row_conversion(parsed, self._times)


def _parse(decode: Callable[[Any], Any], payload: Any, what: str) -> Any:
    try:
        return decode(payload)
    except msgspec.ValidationError as error:
        raise DecodeError(f"not a {what}: {error}") from error  # names the field and the types, not the value
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"not a {what}: malformed JSON") from error


def _envelope_of(record: dict[str, Any]) -> Envelope:
    """The envelope in an Avro record; by hand because that takes half as long as `msgspec.convert`."""
    try:
        source = record["source"]
        transaction = record["transaction"]
        return Envelope(
            op=record["op"],
            source=Source(
                name=source["name"],
                db=source["db"],
                schema=source["schema"],
                table=source["table"],
                ts_ms=source["ts_ms"],
                ts_us=source.get("ts_us"),
                ts_ns=source.get("ts_ns"),
                snapshot=source["snapshot"],
                sequence=source.get("sequence"),
                tx_id=source.get("txId"),
                lsn=source.get("lsn"),
                origin=source.get("origin"),
                origin_lsn=source.get("origin_lsn"),
                version=source.get("version"),
                connector=source.get("connector"),
            ),
            before=record["before"],
            after=record["after"],
            transaction=None
            if transaction is None
            else TransactionRef(
                transaction["id"], transaction["total_order"], transaction["data_collection_order"]
            ),
            ts_ms=record.get("ts_ms"),
            ts_us=record.get("ts_us"),
            ts_ns=record.get("ts_ns"),
        )
    except (KeyError, TypeError) as error:
        raise DecodeError("not an envelope: the Avro record lacks an envelope's fields") from error
