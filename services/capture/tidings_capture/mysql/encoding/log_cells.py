"""From the bytes of a cell of the log straight to its encoded form, for DECIMAL, DATE, DATETIME and TIMESTAMP. Pure.

`binlog.cells`, `RowField.convert` and the codec say what a cell becomes; this gives the same bytes without the values between. Times
are taken apart by what many rows share: the day, the minute, the second. Formats as of `binlog.cells`.
"""

from collections.abc import Callable
from typing import Final

from tidings_capture.cdc.encoding.remembered import Memory
from tidings_capture.cdc.types.iso_times import iso_timestamp
from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import (
    MICROS,
    ZERO,
    Zero,
    date_cell,
    datetime_cell,
    fraction_scale,
    timestamp_cell,
    unscaled_cell,
)
from tidings_capture.mysql.binlog.row_code import Decode
from tidings_capture.mysql.binlog.table_map import LoggedColumn
from tidings_capture.mysql.encoding.fields import RowField
from tidings_capture.mysql.encoding.kinds import same
from tidings_capture.mysql.encoding.time_fields import millis
from tidings_envelope import semantic
from tidings_envelope.avro.codec import bytes_avro, long_avro, present_branch
from tidings_envelope.codec import Codec
from tidings_envelope.decimals import CONNECT_DECIMAL, int_to_bytes
from tidings_envelope.json_codec import DecimalFormat, JsonCodec, bytes_json
from tidings_envelope.schema import ConnectType

_Cell = int | Zero
_ZERO_SECOND: Final = bytes(4)
_SECONDS: Final = 19
"""The length of ``2026-11-28T12:34:56``."""


def encoded_cell(field: RowField, column: LoggedColumn, codec: Codec) -> Decode | None:
    """What makes the encoded field of a cell's bytes; None: its cells are encoded from their values.

    It raises ValueError for bytes that are no cell of the column's type.
    """
    if field.is_changed:
        return None
    match column.type:
        case kinds.NEWDECIMAL if field.schema.name == CONNECT_DECIMAL and field.regular is same:
            return _decimal(field, column.meta, codec)
        case kinds.DATE if field.schema.type is ConnectType.INT32:
            return Memory(_by_value(field, codec, 3, lambda data: date_cell(_little(data)))).__getitem__
        case kinds.DATETIME2 if field.schema.type is ConnectType.INT64 and column.meta <= 6:
            return _datetime(field, column.meta, codec)
        case kinds.TIMESTAMP2 if field.schema.name == semantic.ZONED_TIMESTAMP.name and column.meta <= 6:
            return _timestamp(field, column.meta, codec)
    return None


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _by_value(
    field: RowField, codec: Codec, size: int, read: Callable[[bytes], _Cell]
) -> Callable[[bytes], bytes]:
    """The long way."""
    encode, convert = codec.encoder(field.schema), field.convert

    def encoded(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError("a cell is cut off")
        return encode(convert(read(data)))

    return encoded


def _decimal(field: RowField, meta: int, codec: Codec) -> Decode | None:
    unscaled = unscaled_cell(meta >> 8, meta & 255)
    if not isinstance(codec, JsonCodec):
        branch = present_branch(field.schema)
        return lambda data: branch + bytes_avro(int_to_bytes(unscaled(data)))
    if codec.decimal_format is DecimalFormat.NUMERIC:
        return None
    return lambda data: bytes_json(int_to_bytes(unscaled(data)))


def _minute_seconds(packed: int) -> int | None:
    """Seconds since the epoch of a DATETIME's bits without its seconds; None: no calendar has it."""
    start = datetime_cell(packed << 6, 0)
    return None if isinstance(start, Zero) else start // MICROS


_MINUTES: Final = Memory(_minute_seconds)


def _datetime(field: RowField, meta: int, codec: Codec) -> Decode | None:
    """Milli- or microseconds since the epoch."""
    unit = {millis: 1_000, same: 1}.get(field.regular)
    if unit is None:
        return None
    size, scale, ticks = 5 + (meta + 1) // 2, fraction_scale(meta), MICROS // unit
    zero = codec.encoder(field.schema)(field.convert(ZERO))
    branch = present_branch(field.schema)
    number = b"%d".__mod__ if isinstance(codec, JsonCodec) else lambda value: branch + long_avro(value)
    minutes, big = _MINUTES, int.from_bytes

    def encoded(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError("a DATETIME is cut off")
        packed = big(data[:5], "big")
        start, second = minutes[packed >> 6], packed & 63
        if start is None or second > 59:
            return zero
        if not meta:
            return number((start + second) * ticks)
        return number((start + second) * ticks + big(data[5:], "big") * scale // unit)

    return encoded


def _timestamp(field: RowField, meta: int, codec: Codec) -> Decode:
    """A text with as many decimals as the column has."""
    size, scale = 4 + (meta + 1) // 2, fraction_scale(meta)
    other = _by_value(field, codec, size, lambda data: timestamp_cell(_big(data[:4]), _big(data[4:]) * scale))
    if not meta:
        return Memory(other).__getitem__
    start, end = present_branch(field.schema) + long_avro(_SECONDS + meta + 2), b"Z"
    if isinstance(codec, JsonCodec):
        start, end = b'"', b'Z"'
    unit, most = 10 ** (6 - meta), MICROS // scale
    seconds: Memory[bytes, bytes] = Memory(
        lambda data: start + iso_timestamp(_big(data) * MICROS, 0)[:-1].encode()
    )
    form: bytes = b"%%b.%%0%dd%b" % (meta, end)
    big = int.from_bytes

    def encoded(data: bytes) -> bytes:
        fraction = big(data[4:], "big")
        if len(data) != size or fraction >= most or data[:4] == _ZERO_SECOND:
            return other(data)
        return form % (seconds[data[:4]], fraction * scale // unit)

    return encoded
