"""Avro binary encoding of Connect data, as the AvroConverter writes it.

Specified by Apache Avro 1.11, "Binary encoding". The encoders are compiled from the Connect schema rather than run by
an Avro library, because capture splices cells that never become Python objects; a test reads every result with
fastavro.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from tidings_envelope.codec import Encoder, with_null
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_to_bytes
from tidings_envelope.errors import SchemaError
from tidings_envelope.java.hash_order import java_hash_order
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

_FIRST: Final = b"\x00"
_SECOND: Final = b"\x02"
_TRUE: Final = b"\x01"
_FALSE: Final = b"\x00"
_FLOAT = struct.Struct("<f").pack
_DOUBLE = struct.Struct("<d").pack
_SMALL: Final = tuple(bytes([n << 1]) for n in range(64))
"""Zigzag varints of 0 to 63: most lengths and counts."""
PAIR_BITS: Final = 14
PAIR_MASK: Final = (1 << PAIR_BITS) - 1
PAIRS: Final = tuple(bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << PAIR_BITS))
"""Two bytes of a varint that goes on, by their 14 bits."""
ENDS: Final = tuple(bytes((n,) if n < 128 else (n & 127 | 128, n >> 7)) for n in range(1 << PAIR_BITS))
"""The last one or two bytes of a varint: a look in a table is a quarter of the cost of shifting byte by byte."""


def long_avro(value: int) -> bytes:
    """A zigzag varint."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest <= PAIR_MASK:
        return ENDS[rest]
    out = PAIRS[rest & PAIR_MASK]
    rest >>= PAIR_BITS
    while rest > PAIR_MASK:
        out += PAIRS[rest & PAIR_MASK]
        rest >>= PAIR_BITS
    return out + ENDS[rest]


def bytes_avro(value: bytes) -> bytes:
    """Length and bytes."""
    size = len(value)
    return (_SMALL[size] if size < 64 else long_avro(size)) + value


def string_avro(value: str) -> bytes:
    """Length in bytes and UTF-8."""
    return bytes_avro(value.encode())


def _boolean(value: bool) -> bytes:  # an encoder's only argument is the value
    return _TRUE if value else _FALSE


_SCALARS: Final[Mapping[ConnectType, Encoder]] = {
    ConnectType.INT8: long_avro,
    ConnectType.INT16: long_avro,
    ConnectType.INT32: long_avro,
    ConnectType.INT64: long_avro,
    ConnectType.FLOAT32: _FLOAT,
    ConnectType.FLOAT64: _DOUBLE,
    ConnectType.BOOLEAN: _boolean,
    ConnectType.STRING: string_avro,
    ConnectType.BYTES: bytes_avro,
}


class AvroCodec:
    """Encodes Connect data in Avro's binary encoding.

    Args:
        replace_null_with_default: whether a null in a field with a default becomes the default, as AvroData does without
            ``ignore.default.for.nullables``.
    """

    def __init__(self, *, replace_null_with_default: bool = True) -> None:
        self.replace_null_with_default = replace_null_with_default

    def encoder(self, schema: ConnectSchema) -> Encoder:
        """See `Codec.encoder`."""
        present = self._value(schema)
        branch = present_branch(schema)
        if not branch:  # a field that may not be null has its default all the same
            return with_null(schema, present, b"")
        return with_null(
            schema,
            lambda value: branch + present(value),
            self.null(schema),
            default_replaces_null=self.replace_null_with_default,
        )

    def struct_fragments(self, schema: ConnectSchema) -> tuple[bytes, ...]:
        """See `Codec.struct_fragments`."""
        return (present_branch(schema), *(b"" for _ in schema.fields))

    def null(self, schema: ConnectSchema) -> bytes:
        """See `Codec.null`."""
        return _FIRST if schema.default is NO_DEFAULT else _SECOND

    def _value(self, schema: ConnectSchema) -> Encoder:
        if schema.name == CONNECT_DECIMAL:
            scale = int(schema.parameters["scale"])
            return lambda value: bytes_avro(decimal_to_bytes(value, scale))
        if schema.type in _SCALARS:
            return _SCALARS[schema.type]
        if schema.type is ConnectType.STRUCT:
            fields = [(field.name, self.encoder(field.schema)) for field in schema.fields]
            return lambda value: b"".join([encode(value.get(name)) for name, encode in fields])
        if schema.items is None:
            raise SchemaError(f"a schema of type {schema.type} needs the schema of its items")
        item = self.encoder(schema.items)
        if schema.type is ConnectType.ARRAY:
            return _array(item)
        if schema.keys is not None and schema.keys.type is not ConnectType.STRING:
            return _entries(self.encoder(schema.keys), item)
        return _map(item)


def present_branch(schema: ConnectSchema) -> bytes:
    """The union branch before a value that is not null: none where the schema is not optional."""
    if not schema.optional:
        return b""
    return _SECOND if schema.default is NO_DEFAULT else _FIRST


def _array(item: Encoder) -> Encoder:
    def encode(values: list[Any]) -> bytes:
        if not values:
            return _FIRST
        return b"".join([long_avro(len(values)), *[item(value) for value in values], _FIRST])

    return encode


def _map(item: Encoder) -> Encoder:
    """In the order of a HashMap, into which AvroData copies every map."""

    def encode(values: dict[str, Any]) -> bytes:
        if not values:
            return _FIRST
        pairs = [string_avro(key) + item(values[key]) for key in java_hash_order(list(values))]
        return b"".join([long_avro(len(values)), *pairs, _FIRST])

    return encode


def _entries(key: Encoder, item: Encoder) -> Encoder:
    """A map whose keys are not strings: an array of records of key and value."""

    def encode(values: dict[Any, Any]) -> bytes:
        if not values:
            return _FIRST
        return b"".join([long_avro(len(values)), *[key(k) + item(v) for k, v in values.items()], _FIRST])

    return encode
