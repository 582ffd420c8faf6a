"""Confluent's wire format: one zero byte, the schema's id as four big-endian bytes, the Avro body.

Specified in Confluent's documentation, "Schema Registry, Wire format"; Apicurio writes the same in its Confluent mode.
"""

import struct

from tidings_envelope.errors import DecodeError

MAGIC = 0
HEADER_BYTES = 5
_HEADER = struct.Struct(">BI")


def frame(schema_id: int, body: bytes) -> bytes:
    """Puts the header before a body."""
    return header(schema_id) + body


def header(schema_id: int) -> bytes:
    """The five bytes that stand before every body written with that schema."""
    return _HEADER.pack(MAGIC, schema_id)


def split(value: bytes) -> tuple[int, bytes]:
    """Takes the header off: the schema's id and the body.

    Raises:
        DecodeError: too short, or another first byte than zero.
    """
    if len(value) < HEADER_BYTES:
        raise DecodeError(f"{len(value)} bytes are too few for the wire format's header")
    magic, schema_id = _HEADER.unpack_from(value)
    if magic != MAGIC:
        raise DecodeError(f"the wire format starts with a zero byte, not {magic:#04x}")
    return schema_id, value[HEADER_BYTES:]
