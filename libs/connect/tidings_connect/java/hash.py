"""``Object.hashCode`` of Connect values, and Debezium's MurmurHash3: what PartitionRouting computes partitions from."""

import struct
from decimal import Decimal
from typing import Any, Final

from tidings_connect.data.errors import DataError
from tidings_connect.data.text import UNIT_MS
from tidings_envelope.schema import ConnectSchema, ConnectType

_32: Final = 0xFFFFFFFF
_64: Final = 0xFFFFFFFFFFFFFFFF
_SEED: Final = 9001


def signed32(number: int) -> int:
    """The lowest 32 bits as a Java int."""
    number &= _32
    return number - (1 << 32) if number >> 31 else number


def java_hash(schema: ConnectSchema, value: Any) -> int:  # noqa: PLR0911 - one per type
    """``hashCode`` of a value's Java object, as a signed 32-bit number.

    Raises:
        DataError: a struct or map has no hash code that could be relied on.
    """
    if value is None:
        return 0
    if schema.name in UNIT_MS:
        return _long_hash(value * UNIT_MS[schema.name])
    match schema.type:
        case ConnectType.BOOLEAN:
            return 1231 if value else 1237
        case ConnectType.INT8 | ConnectType.INT16 | ConnectType.INT32:
            return signed32(value)
        case ConnectType.INT64:
            return _long_hash(value)
        case ConnectType.FLOAT32:
            return signed32(int.from_bytes(struct.pack(">f", value), "big"))
        case ConnectType.FLOAT64:
            return _long_hash(int.from_bytes(struct.pack(">d", value), "big"))
        case ConnectType.STRING:
            return string_hash(value)
        case ConnectType.BYTES:
            return _decimal_hash(value) if isinstance(value, Decimal) else _bytes_hash(value)
        case ConnectType.ARRAY if schema.items is not None:
            total = 1
            for item in value:
                total = 31 * total + java_hash(schema.items, item)
            return signed32(total)
        case _:
            raise DataError(f"a partition cannot be computed from a field of type {schema.type}")


def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for i in range(0, len(units), 2):
        total = (31 * total + (units[i] << 8 | units[i + 1])) & _32
    return signed32(total)


def _long_hash(number: int) -> int:
    number &= _64
    return signed32(number ^ number >> 32)


def _bytes_hash(data: bytes) -> int:
    """``ByteBuffer.hashCode``: from the end, with signed bytes."""
    total = 1
    for byte in reversed(data):
        total = (31 * total + (byte - 256 if byte > 127 else byte)) & _32
    return signed32(total)


def _decimal_hash(value: Decimal) -> int:
    """``BigDecimal.hashCode``: of the unscaled value, and the scale."""
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    total = 0
    for shift in range((max(unscaled.bit_length(), 1) - 1) // 32, -1, -1):
        total = (31 * total + (unscaled >> 32 * shift & _32)) & _32
    return signed32(31 * (-total if sign else total) - int(exponent))


def murmur_hash(schema: ConnectSchema, value: Any) -> int:
    """Debezium's ``MurmurHash3.hash``: of a text's UTF-8, else of the hash code's four bytes, lowest first."""
    if schema.type is ConnectType.STRING:
        return _murmur(value.encode("utf-8", "replace"))
    code = java_hash(schema, value) & _32
    # Java's bytes are signed: each is sign-extended as it is put in its place.
    word = 0
    for shift in (0, 8, 16, 24):
        byte = code >> shift & 0xFF
        word ^= (byte - 256 if byte > 127 else byte) << shift
    return _finish(*_mix(*_START, word & _64, 0), 4)


_START: Final = (
    0x9368E53C2F6AF274 ^ _SEED,
    0x586DCD208F7CD3FD ^ _SEED,
    0x87C37B91114253D5,
    0x4CF5AD432745937F,
)


def _murmur(data: bytes) -> int:
    state: tuple[int, int, int, int] = _START
    whole = len(data) // 16 * 16
    for i in range(0, whole, 16):
        first, second = struct.unpack_from("<QQ", data, i)
        state = _mix(*state, first, second)
    if len(data) > whole:
        words = [0, 0]
        for i, byte in enumerate(data[whole:]):
            words[i // 8] ^= ((byte - 256 if byte > 127 else byte) << 8 * (i % 8)) & _64
        state = _mix(*state, words[0], words[1])
    return _finish(*state, len(data))


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _64


def _mix(h1: int, h2: int, c1: int, c2: int, k1: int, k2: int) -> tuple[int, int, int, int]:
    k1 = _rotate(k1 * c1 & _64, 23) * c2 & _64
    h1 = (h1 ^ k1) + h2 & _64
    h2 = _rotate(h2, 41)
    k2 = _rotate(k2 * c2 & _64, 23) * c1 & _64
    h2 = (h2 ^ k2) + h1 & _64
    h1 = h1 * 3 + 0x52DCE729 & _64
    h2 = h2 * 3 + 0x38495AB5 & _64
    return h1, h2, c1 * 5 + 0x7B7D159C & _64, c2 * 5 + 0x6BCE6396 & _64


def _finish(h1: int, h2: int, _c1: int, _c2: int, size: int) -> int:
    h2 ^= size
    h1 = h1 + h2 & _64
    h2 = h2 + h1 & _64
    h1, h2 = _avalanche(h1), _avalanche(h2)
    return signed32(h1 + h2 >> 32 & _32)


def _avalanche(k: int) -> int:
    k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & _64
    k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & _64
    return k ^ k >> 33
