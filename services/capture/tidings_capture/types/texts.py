"""Text, uuid, json, enum, bytea and the types that Debezium passes on as text."""

import base64
import hashlib
import uuid
from collections.abc import Callable, Sequence

from tidings_capture.conversion_options import BinaryHandling, ConversionOptions
from tidings_capture.types.conversion import CellError, Conversion, Kind
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType

_HEX_PREFIX = b"\\x"


def text(options: ConversionOptions, schema: ConnectSchema | None = None) -> Conversion:
    """text, varchar, char and every type that is passed on in PostgreSQL's text format."""
    return Conversion(
        schema or ConnectSchema(ConnectType.STRING),
        bytes.decode,
        "",
        unchanged=options.unavailable_value_placeholder,
        kind=Kind.TEXT,
    )


def uuid_text(options: ConversionOptions) -> Conversion:
    return Conversion(
        semantic.UUID, bytes.decode, "", unchanged=options.unavailable_value_placeholder, kind=Kind.PLAIN_TEXT
    )


def json_text(options: ConversionOptions) -> Conversion:
    return text(options, semantic.JSON)


def enum(labels: Sequence[str], options: ConversionOptions) -> Conversion:
    return Conversion(
        semantic.enum(labels),
        bytes.decode,
        "",
        unchanged=options.unavailable_value_placeholder,
        kind=Kind.LABEL,
    )


def placeholder_uuid(placeholder: str) -> str:
    """``UUID.nameUUIDFromBytes``: version 3 without a namespace."""
    digest = hashlib.md5(placeholder.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def binary(options: ConversionOptions) -> Conversion:
    """bytea in the connector's ``binary.handling.mode``."""
    return _binary(binary_from_hex, options)


def unknown(options: ConversionOptions) -> Conversion:
    """A type Debezium does not know, with ``include.unknown.datatypes``: its text's bytes."""
    return _binary(bytes, options)


def _binary(octets: Callable[[bytes], bytes], options: ConversionOptions) -> Conversion:
    placeholder = options.unavailable_value_placeholder
    if options.binary_handling is BinaryHandling.BYTES:
        return Conversion(ConnectSchema(ConnectType.BYTES), octets, b"", unchanged=placeholder.encode())
    text_schema = ConnectSchema(ConnectType.STRING)
    if options.binary_handling is BinaryHandling.HEX:
        return Conversion(text_schema, lambda cell: octets(cell).hex(), "", unchanged=placeholder)
    # in the base64 modes Debezium has no placeholder and writes null
    encode = (
        base64.b64encode if options.binary_handling is BinaryHandling.BASE64 else base64.urlsafe_b64encode
    )
    return Conversion(text_schema, lambda cell: encode(octets(cell)).decode(), "")


def binary_from_hex(cell: bytes) -> bytes:
    """The bytes of ``\\x00ff``; the task's connections set ``bytea_output`` to hex."""
    if not cell.startswith(_HEX_PREFIX):
        raise CellError("bytea is not in hex format")
    return bytes.fromhex(cell[2:].decode("ascii"))
