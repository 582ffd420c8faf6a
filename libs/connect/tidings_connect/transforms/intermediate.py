"""The intermediate form of records on their way to the transforms: a converter whose bytes can be read back.

A plan knows one thing, to write bytes through a converter, and knows it well: fast, and with every option obeyed. So
transforms get their records from the same plans: `IntermediateConverter` stands in for the connector's converters,
and `read` turns its bytes into the schema and the value. They are Avro's binary encoding without loss (a null stays a
null where there is a default, 32-bit floats keep their digits), behind four bytes that say which schema it is. The
schemas never leave the process, so that names which Avro does not allow are allowed here. Equal schemas have the same four
bytes: the same key is the same bytes whichever plan wrote it, as it is with the connector's own converters.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidings_envelope.avro.codec import AvroCodec, long_avro, present_branch
from tidings_envelope.codec import Codec, Encoder, Frame
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

if TYPE_CHECKING:
    from tidings_envelope.registry import RegistryClient

Decoder: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""From a buffer and a position to the value and the position after it."""

_ID: Final = struct.Struct(">I")
_DOUBLE: Final = struct.Struct("<d")


class IntermediateCodec(AvroCodec):
    """Avro's binary encoding, without loss."""

    def encoder(self, schema: ConnectSchema) -> Encoder:
        """See `Codec.encoder`."""
        branch = present_branch(schema)
        if not branch:
            return super().encoder(schema)
        present, null = self._value(schema), self.null(schema)
        return lambda value: null if value is None else branch + present(value)

    def _value(self, schema: ConnectSchema) -> Encoder:
        if schema.type is ConnectType.FLOAT32:
            return _DOUBLE.pack
        if schema.type is ConnectType.MAP:
            return _map_encoder(self.encoder(schema.keys or schema), self.encoder(schema.items or schema))
        return super()._value(schema)


class IntermediateConverter:
    """A converter (`converters.Converter`) for records that go on to transforms."""

    def __init__(self) -> None:
        self.codec: Codec = IntermediateCodec()
        self.registry: RegistryClient | None = None
        self._schemas: list[tuple[ConnectSchema, Decoder]] = []
        self._named: dict[str | None, list[int]] = {}
        """The numbers of schemas by their names: a schema itself is not to be hashed."""

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:  # noqa: ARG002 - as `Converter.frame`
        """Numbers the schema; the topic is not in the bytes."""
        named = self._named.setdefault(schema.name, [])
        number = next((number for number in named if self._schemas[number][0] == schema), None)
        if number is None:
            number = len(self._schemas)
            named.append(number)
            self._schemas.append((schema, _decoder(schema)))
        return Frame(_ID.pack(number), b"")

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
        """See `converters.Converter.encoder`."""
        prefix = self.frame(topic, schema).prefix
        encode = self.codec.encoder(schema)
        return lambda value: prefix + encode(value)

    def read(self, data: bytes) -> tuple[ConnectSchema, Any]:
        """Schema and value of what a plan wrote; the same schema object for every value of equal schemas."""
        schema, decode = self._schemas[_ID.unpack_from(data)[0]]
        return schema, decode(data, 4)[0]

    def close(self) -> None:
        """See `converters.Converter.close`."""


def _map_encoder(key: Encoder, item: Encoder) -> Encoder:
    """A map with keys of any type, in its own order."""

    def encode(values: dict[Any, Any]) -> bytes:
        pairs = [key(k) + item(v) for k, v in values.items()]
        return b"".join([long_avro(len(pairs)), *pairs])

    return encode


def _decoder(schema: ConnectSchema) -> Decoder:
    present = _present(schema)
    if not schema.optional:
        return present
    null = 0 if schema.default is NO_DEFAULT else 2

    def decode(data: bytes, p: int) -> tuple[Any, int]:
        return (None, p + 1) if data[p] == null else present(data, p + 1)

    return decode


def _present(schema: ConnectSchema) -> Decoder:  # noqa: PLR0911 - one per type
    if schema.name == CONNECT_DECIMAL:
        return _decimal(int(schema.parameters["scale"]))
    match schema.type:
        case ConnectType.INT8 | ConnectType.INT16 | ConnectType.INT32 | ConnectType.INT64:
            return _long
        case ConnectType.FLOAT32 | ConnectType.FLOAT64:
            return _double
        case ConnectType.BOOLEAN:
            return _boolean
        case ConnectType.STRING:
            return _string
        case ConnectType.BYTES:
            return _bytes
        case ConnectType.STRUCT:
            return _struct([(field.name, _decoder(field.schema)) for field in schema.fields])
        case ConnectType.ARRAY:
            return _array(_decoder(schema.items or schema))
        case _:
            return _map(_decoder(schema.keys or schema), _decoder(schema.items or schema))


def _long(data: bytes, p: int) -> tuple[int, int]:
    byte = data[p]
    p += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        byte = data[p]
        p += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), p


def _double(data: bytes, p: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, p)[0], p + 8


def _boolean(data: bytes, p: int) -> tuple[bool, int]:
    return data[p] == 1, p + 1


def _bytes(data: bytes, p: int) -> tuple[bytes, int]:
    size, p = _long(data, p)
    return data[p : p + size], p + size


def _string(data: bytes, p: int) -> tuple[str, int]:
    size, p = _long(data, p)
    return data[p : p + size].decode(), p + size


def _decimal(scale: int) -> Decoder:
    def decode(data: bytes, p: int) -> tuple[Any, int]:
        unscaled, p = _bytes(data, p)
        return decimal_from_bytes(unscaled, scale), p

    return decode


def _struct(fields: list[tuple[str, Decoder]]) -> Decoder:
    def decode(data: bytes, p: int) -> tuple[dict[str, Any], int]:
        value = {}
        for name, field in fields:
            value[name], p = field(data, p)
        return value, p

    return decode


def _array(item: Decoder) -> Decoder:
    def decode(data: bytes, p: int) -> tuple[list[Any], int]:
        values = []
        count, p = _long(data, p)
        while count:
            for _ in range(count):
                value, p = item(data, p)
                values.append(value)
            count, p = _long(data, p)
        return values, p

    return decode


def _map(key: Decoder, item: Decoder) -> Decoder:
    def decode(data: bytes, p: int) -> tuple[dict[Any, Any], int]:
        values = {}
        count, p = _long(data, p)
        for _ in range(count):
            name, p = key(data, p)
            values[name], p = item(data, p)
        return values, p

    return decode
