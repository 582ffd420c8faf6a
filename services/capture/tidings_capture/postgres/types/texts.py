"""Text, uuid, json, enum, bytea and the types that Debezium passes on as text."""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidings_capture.cdc.encoding.options import BinaryHandling, ConversionOptions, HstoreHandling
from tidings_capture.cdc.types.conversion import CellError, Conversion, Kind, UnknownLabelError
from tidings_envelope import semantic
from tidings_envelope.java.hash_order import java_hash_order
from tidings_envelope.schema import ConnectSchema, ConnectType

LTREE: Final = ConnectSchema(ConnectType.STRING, name="io.debezium.data.Ltree", version=1)
HSTORE_MAP: Final = ConnectSchema(
    ConnectType.MAP,
    keys=ConnectSchema(ConnectType.STRING),
    items=ConnectSchema(ConnectType.STRING, optional=True),
)
_HEX_PREFIX = b"\\x"
_QUOTED: Final = rb'"((?:[^"\\]|\\.)*)"'
_PAIR = re.compile(_QUOTED + rb"=>(?:" + _QUOTED + rb"|NULL)(?:, |\Z)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_CONTROL = re.compile(r"\\u00[0-9a-f]{2}")


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


def enum(labels: Sequence[str], options: ConversionOptions, *, strict: bool = False) -> Conversion:
    """An enum, whose labels are in its schema.

    Args:
        strict: a label that is not among them raises `UnknownLabelError`: one that was added later, of which the stream
            says nothing, makes a new schema.
    """
    known = {label.encode() for label in labels}

    def convert(cell: bytes) -> str:
        if cell not in known:
            raise UnknownLabelError(known, cell)
        return cell.decode()

    return Conversion(
        semantic.enum(labels),
        convert if strict else bytes.decode,
        "",
        unchanged=options.unavailable_value_placeholder,
        kind=Kind.LABEL,
    )


def ltree(options: ConversionOptions) -> Conversion:
    return text(options, LTREE)


def hstore(options: ConversionOptions, *, in_domain: bool = False) -> Conversion:
    """hstore in the connector's ``hstore.handling.mode``: JSON text, or a map of text to optional text.

    Args:
        in_domain: Debezium's placeholder is the hstore's own only where the column's type is hstore itself.
    """
    placeholder = options.unavailable_value_placeholder
    if options.hstore_handling is HstoreHandling.MAP:
        return Conversion(
            HSTORE_MAP, convert_hstore, {}, unchanged=None if in_domain else {placeholder: placeholder}
        )
    unchanged = placeholder if in_domain else _json_object({placeholder: placeholder})
    return Conversion(
        semantic.JSON, lambda cell: _json_object(convert_hstore(cell)), "{}", unchanged=unchanged
    )


def convert_hstore(cell: bytes) -> dict[str, str | None]:
    """The pairs in the order of Debezium's HashMap."""
    pairs: dict[str, str | None] = {}
    position = 0
    while position < len(cell):
        match = _PAIR.match(cell, position)
        if match is None:
            raise CellError("not an hstore")
        key, value = match.groups()
        pairs[_unescaped(key)] = None if value is None else _unescaped(value)
        position = match.end()
    return {key: pairs[key] for key in java_hash_order(list(pairs))}


def _unescaped(quoted: bytes) -> str:
    return (_ESCAPE.sub(rb"\1", quoted) if b"\\" in quoted else quoted).decode()


def _json_object(pairs: Mapping[str, str | None]) -> str:
    """As Jackson's generator writes it: as `string_json` does, but with characters beyond 16 bits as they are."""
    members = [
        f"{_json_string(key)}:{'null' if value is None else _json_string(value)}"
        for key, value in pairs.items()
    ]
    return "{" + ",".join(members) + "}"


def _json_string(value: str) -> str:
    return _CONTROL.sub(
        lambda match: match.group().upper().replace("\\U", "\\u"), json.dumps(value, ensure_ascii=False)
    )


def placeholder_uuid(placeholder: bytes) -> str:
    """``UUID.nameUUIDFromBytes``: version 3 without a namespace."""
    digest = hashlib.md5(placeholder, usedforsecurity=False).digest()
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
        return Conversion(ConnectSchema(ConnectType.BYTES), octets, b"", unchanged=options.unavailable_value)
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
