"""Encodes single values in Avro's binary format: one function per type, which checks type and range first.

For the format see the Avro specification 1.12, "Binary Encoding". `encoders` composes these to what a contract says.
"""

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_PREC, Context, Decimal
from typing import Any
from uuid import UUID

Encoder = Callable[[Any], bytes]
Schema = Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Avro's local-timestamp has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EXACT = Context(prec=MAX_PREC if MAX_PREC < 10**9 else 10_000)
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


def _varint(value: int) -> bytes:
    """A long: zigzag, then seven bits a byte, lowest first."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL_COUNT = 1 << 14
SMALL = tuple(_varint(value) for value in range(_SMALL_COUNT))
"""Most lengths, counts and many ids: looked up instead of calculated."""


def encode_count(value: int) -> bytes:
    return SMALL[value] if 0 <= value < _SMALL_COUNT else _varint(value)


class WrongValue(Exception):  # noqa: N818 - never leaves this module
    """A value that the contract does not allow: what is wrong, and the path of fields to it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []


def wrong_type(expected: str, value: object) -> WrongValue:
    return WrongValue(f"must be {expected}, not {type(value).__name__}")


def _integer(bits: int) -> Encoder:
    low, high, name = -(1 << bits - 1), (1 << bits - 1) - 1, "int" if bits == 32 else "long"

    def encode(value: Any) -> bytes:
        if type(value) is not int:
            raise wrong_type("an integer", value)
        if 0 <= value < _SMALL_COUNT:
            return SMALL[value]
        if not low <= value <= high:
            raise WrongValue(f"does not fit into an Avro {name}")
        return _varint(value)

    return encode


def _boolean(value: Any) -> bytes:
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    raise wrong_type("a boolean", value)


def _floating(packer: struct.Struct) -> Encoder:
    def encode(value: Any) -> bytes:
        if type(value) is not float and type(value) is not int:
            raise wrong_type("a float", value)
        try:
            return packer.pack(value)
        except OverflowError as error:
            raise WrongValue("does not fit into an Avro float") from error

    return encode


def encode_string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise wrong_type("a string", value)
    data = value.encode()
    return encode_count(len(data)) + data


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise wrong_type("bytes", value)
    return encode_count(len(value)) + value


def _uuid(value: Any) -> bytes:
    if not isinstance(value, UUID):
        raise wrong_type("a UUID", value)
    return b"\x48" + str(value).encode()


def decimal_encoder(schema: Schema, size: int | None) -> Encoder:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    limit = 10**precision
    scaleb = _EXACT.scaleb

    def encode(value: Any) -> bytes:
        if type(value) is not Decimal:
            raise wrong_type("a Decimal", value)
        if not value.is_finite():
            raise WrongValue("must be a finite Decimal")
        if value and value.adjusted() >= precision:  # before its digits are written out
            raise WrongValue(f"has more than the contract's {precision} digits")
        scaled = scaleb(value, scale)
        number = int(scaled)
        if number != scaled:
            raise WrongValue(f"has more than the contract's {scale} digits after the point")
        if not -limit < number < limit:
            raise WrongValue(f"has more than the contract's {precision} digits")
        if size is not None:
            return number.to_bytes(size, "big", signed=True)
        length = number.bit_length() + 8 >> 3
        return SMALL[length] + number.to_bytes(length, "big", signed=True)

    return encode


def _date(value: Any) -> bytes:
    if type(value) is not date:
        raise wrong_type("a date", value)
    return encode_count(value.toordinal() - _EPOCH_DAY)


def _time_micros(value: Any) -> bytes:
    if type(value) is not time or value.tzinfo is not None:
        raise wrong_type("a time without zone", value)
    return _varint(((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)


def _micros(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _timestamp_micros(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is None:
        raise wrong_type("a datetime with zone", value)
    return _varint(_micros(value - _EPOCH))


def _timestamp_millis(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is None:
        raise wrong_type("a datetime with zone", value)
    return _varint(_micros(value - _EPOCH) // 1000)


def _local_timestamp_micros(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is not None:
        raise wrong_type("a datetime without zone", value)
    return _varint(_micros(value - _LOCAL_EPOCH))


def enum_encoder(schema: Schema) -> Encoder:
    indexes = {symbol: SMALL[index] for index, symbol in enumerate(schema["symbols"])}

    def encode(value: Any) -> bytes:
        try:
            return indexes[value]
        except (KeyError, TypeError) as error:
            raise WrongValue(f"must be one of {', '.join(indexes)}") from error

    return encode


def fixed_encoder(schema: Schema) -> Encoder:
    size = schema["size"]

    def encode(value: Any) -> bytes:
        if type(value) is not bytes or len(value) != size:
            raise WrongValue(f"must be {size} bytes")
        return value

    return encode


PRIMITIVE: dict[str, Encoder] = {
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _floating(_FLOAT),
    "double": _floating(_DOUBLE),
    "string": encode_string,
    "bytes": _bytes,
}
LOGICAL: dict[tuple[str, str], Encoder] = {
    ("int", "date"): _date,
    ("long", "time-micros"): _time_micros,
    ("long", "timestamp-micros"): _timestamp_micros,
    ("long", "timestamp-millis"): _timestamp_millis,
    ("long", "local-timestamp-micros"): _local_timestamp_micros,
    ("string", "uuid"): _uuid,
}
