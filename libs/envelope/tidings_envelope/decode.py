"""From the bytes on a technical topic to envelopes, keys and transaction markers.

The format is recognised from the bytes: Confluent's wire format starts with a zero byte, JSON with a brace, and JSON
with schemas with ``{"schema":``. Reading is strict: what is not an envelope is a `DecodeError`, never a guess. And it is
bounded: no bytes make it go deeper or take more memory than a multiple of their own length, so that whatever a record
holds, it is the only one that is lost. Only a registry that does not answer is another's fault (`RegistryError`).
"""

import functools
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
import msgspec

from tidings_envelope.avro.logical_types import without_temporal_types
from tidings_envelope.avro.shape import MAX_DEPTH, check_bounded, envelope_of
from tidings_envelope.binlog import FAMILY as BINLOG
from tidings_envelope.binlog import BinlogEnvelope, OneDomain, ordered_id, with_position
from tidings_envelope.decimals import RowConversion, row_conversion
from tidings_envelope.envelope import Envelope, Source, TransactionMarker, TransactionRef
from tidings_envelope.errors import DecodeError, UnknownSchemaError
from tidings_envelope.headers.commit import commit_of
from tidings_envelope.headers.reading import Headers
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import HEADER_BYTES, split

_JSON_START = ord("{")
_JSON_END = ord("}")
_AVRO_START = 0
_SCHEMA_START = b'{"schema":'
_PAYLOAD = b',"payload":'
_KNOWN_PREFIXES = 64
"""How many JSON schemas are remembered; more than a source has tables in practice."""
_OPERATIONS = frozenset("cudrtm")
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Whole numbers outside of these are not integers of any format but JSON."""
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Of a time, in milliseconds since 1970: what a `datetime` can be."""
_BINLOG_OF = functools.partial(msgspec.convert, type=BinlogEnvelope)
_MARKER_OF = functools.partial(msgspec.convert, type=TransactionMarker)
"""Of Avro records."""
_NO_SCHEMA = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What walking through something that is not a schema can run into."""


class _JsonSchema(NamedTuple):
    prefix: bytes
    convert: RowConversion | None


class _AvroReader(NamedTuple):
    schema: Any
    convert: RowConversion | None
    connector: str | None
    """Of whose envelopes the schema is; None: of something else."""


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
        self._binlog = msgspec.json.Decoder(BinlogEnvelope)
        self._domain = OneDomain()
        self._is_binlog = False
        """The last envelope in JSON was; the next one is likely one, too."""
        self._marker = msgspec.json.Decoder(TransactionMarker)
        self._object = msgspec.json.Decoder(dict[str, Any])
        self._with_schema = msgspec.json.Decoder(_WithSchema)
        self._prefixes: list[_JsonSchema] = []
        self._readers: dict[int, _AvroReader] = {}

    @property
    def replication_domain(self) -> int | None:
        """Of MariaDB's GTIDs, the only one that is read; None before the first. Whoever goes on behind a restart sets it."""
        return self._domain.number

    @replication_domain.setter
    def replication_domain(self, number: int | None) -> None:
        self._domain.number = number

    def envelope(self, raw: bytes | None, headers: Headers = ()) -> Envelope | None:
        """A change event's value; None for a tombstone.

        Args:
            headers: the record's; a change of MySQL has its place by them.

        Raises:
            DecodeError: the bytes are not an envelope.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw is None:
            return None
        if raw[:1] == b"\0":
            record, reader = self._avro(raw)
            if reader.connector is None:
                raise DecodeError(
                    "not an envelope: the Avro record lacks an envelope's fields or their types"
                )
            convert = reader.convert
            if reader.connector == BINLOG:
                found = _parse(_BINLOG_OF, record, "envelope")
                envelope = with_position(found, self._domain, headers)
            else:
                envelope = _envelope_of(record)
        else:
            payload, convert = self._json(raw, "envelope")
            envelope = self._of_json(payload, headers)
            for row in (envelope.before, envelope.after):
                if row is not None:
                    _check_values(row)
        if envelope.op not in _OPERATIONS:
            raise DecodeError("not an envelope: there is no such operation")
        source = envelope.source
        if (
            not _FIRST_MS <= source.ts_ms <= _LAST_MS
            or not _FIRST_MS <= (source.ts_us or 0) // 1000 <= _LAST_MS
        ):
            raise DecodeError("not an envelope: its time is outside of the years 1 to 9999")
        if convert is not None:
            for row in (envelope.before, envelope.after):
                if row is not None:
                    convert(row)
        return envelope

    def key(self, raw: bytes | None) -> dict[str, Any] | None:
        """A record's key; None where the table has none.

        Raises:
            DecodeError: the bytes are not a key.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw is None:
            return None
        if raw[:1] == b"\0":
            record, reader = self._avro(raw)
            convert = reader.convert
        else:
            payload, convert = self._json(raw, "key")
            record = _parse(self._object.decode, payload, "key")
            _check_values(record)
        if convert is not None:
            convert(record)
        return record

    def marker(self, raw: bytes, headers: Headers = ()) -> TransactionMarker | None:
        """A record of the transaction topic; arguments as of `envelope`. None: it says nothing of the source, see `ordered_id`.

        Raises:
            DecodeError: the bytes are not a transaction marker.
            RegistryError: the registry could not be asked for the schema.
        """
        if raw[:1] == b"\0":
            record, _ = self._avro(raw)
            marker: TransactionMarker = _parse(_MARKER_OF, record, "transaction marker")
        else:
            payload, _ = self._json(raw, "transaction marker")
            marker = _parse(self._marker.decode, payload, "transaction marker")
        id_ = ordered_id(marker.id, self._domain, commit_of(headers), marker.event_count or 0)
        if id_ is None:
            return None
        return marker if id_ is marker.id else msgspec.structs.replace(marker, id=id_)

    def _of_json(self, payload: bytes | msgspec.Raw | memoryview, headers: Headers) -> Envelope:
        """An envelope of PostgreSQL, or of MariaDB or MySQL: each fits one of the two structures only."""
        likely, other = (self._envelope, self._binlog)[:: -1 if self._is_binlog else 1]
        try:
            found = _parse(likely.decode, payload, "envelope")
        except DecodeError as error:
            try:
                found = _parse(other.decode, payload, "envelope")
            except DecodeError:
                raise error from None
            self._is_binlog = not self._is_binlog
        return with_position(found, self._domain, headers) if self._is_binlog else found

    def _json(self, raw: bytes, what: str) -> tuple[bytes | msgspec.Raw | memoryview, RowConversion | None]:
        """The payload's bytes, and what its schema says about values."""
        if not raw or raw[0] != _JSON_START:
            raise DecodeError(f"not {_with_article(what)}: neither JSON nor the registry's wire format")
        if not raw.startswith(_SCHEMA_START):
            return raw, None
        for known in self._prefixes:
            if raw.startswith(known.prefix) and raw[-1] == _JSON_END:
                return memoryview(raw)[len(known.prefix) : -1], known.convert
        return self._learn(raw, what)

    def _learn(self, raw: bytes, what: str) -> tuple[msgspec.Raw, RowConversion | None]:
        """Reads a schema that comes for the first time, and remembers the bytes before the payload."""
        message = _parse(self._with_schema.decode, raw, what)
        try:
            convert = row_conversion(message.schema, self._times) if message.schema else None
        except _NO_SCHEMA as error:
            raise DecodeError(f"not {_with_article(what)}: its schema is none of Connect's") from error
        payload = bytes(message.payload)
        if raw.endswith(_PAYLOAD + payload + b"}"):
            prefix = raw[: len(raw) - len(payload) - 1]
            self._prefixes = [_JsonSchema(prefix, convert), *self._prefixes[: _KNOWN_PREFIXES - 1]]
        return message.payload, convert

    def _avro(self, raw: bytes) -> tuple[dict[str, Any], _AvroReader]:
        schema_id, _ = split(raw[:HEADER_BYTES])
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._avro_reader(schema_id)
        body = io.BytesIO(raw)
        body.seek(HEADER_BYTES)
        try:
            record = fastavro.schemaless_reader(body, reader.schema, None)
        except (EOFError, ValueError, LookupError, TypeError, ArithmeticError, StopIteration) as error:
            raise DecodeError(f"the body does not follow schema {schema_id}") from error
        if body.tell() != len(raw):
            raise DecodeError(f"{len(raw) - body.tell()} bytes too many for schema {schema_id}")
        if not isinstance(record, dict):
            raise DecodeError(f"schema {schema_id} is not of a record")
        return record, reader

    def _avro_reader(self, schema_id: int) -> _AvroReader:
        if self._registry is None:
            raise DecodeError("the record is in Avro, but no schema registry is set")
        what = f"schema {schema_id}"
        try:
            parsed = self._registry.schema_by_id(schema_id)
        except UnknownSchemaError as error:
            raise DecodeError(str(error)) from error
        try:
            check_bounded(parsed, what)
            if not isinstance(parsed, dict):
                raise DecodeError(f"{what} is not of a record")
            return _AvroReader(
                without_temporal_types(parsed), row_conversion(parsed, self._times), envelope_of(parsed)
            )
        except _NO_SCHEMA as error:
            raise DecodeError(f"{what} is none of Connect's") from error


def _with_article(what: str) -> str:
    return f"an {what}" if what == "envelope" else f"a {what}"


def _parse(decode: Callable[[Any], Any], payload: Any, what: str) -> Any:
    try:
        return decode(payload)
    except msgspec.ValidationError as error:
        raise DecodeError(
            f"not {_with_article(what)}: {error}"
        ) from error  # names the field and the types, not the value
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"not {_with_article(what)}: malformed JSON") from error
    except RecursionError as error:
        raise DecodeError(f"not {_with_article(what)}: more than {MAX_DEPTH} values deep") from error


def _check_values(row: dict[str, Any]) -> None:
    """Bounds what JSON does not: depth, and whole numbers, which become a `Decimal` where they have more than 64 bits.

    (A numeric without decimals is such a number with ``decimal.format=NUMERIC``.)

    Raises:
        DecodeError: a value is too deep.
    """
    for name, value in row.items():
        kind = type(value)
        if kind is int:
            if not _LEAST <= value <= _MOST:
                row[name] = Decimal(value)
        elif kind is dict or kind is list:
            row[name] = _checked(value, 2)


def _checked(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise DecodeError(f"not an envelope: a value is more than {MAX_DEPTH} values deep")
    if isinstance(value, dict):
        return {name: _checked(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_checked(inner, depth + 1) for inner in value]
    return Decimal(value) if isinstance(value, int) and not _LEAST <= value <= _MOST else value


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
