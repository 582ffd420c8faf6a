"""What the bytes of the log's columns become: the same Python values as those of a snapshot. Pure.

Whole numbers and floats are themselves; decimals `Decimal`; BIT a number; DATE days, DATETIME and TIMESTAMP microseconds
since 1970-01-01 00:00, TIME microseconds; texts `str`; bytes `bytes`; ENUM and SET their labels. A date that no calendar
has, such as 0000-00-00, is `ZERO`.

Format: ``strings/decimal.c`` (``decimal2bin``), ``sql/compat56.cc`` (times), ``sql/field.cc`` (``pack``,
``Field_longstr::uncompress``).
"""

import zlib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final

Cells = tuple[Any, ...]
"""Of one row."""


class Zero(Enum):
    """The type of `ZERO`."""

    ZERO = "zero"


ZERO: Final = Zero.ZERO
"""A date or time that is there, and that no calendar has."""


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""A cell that the log does not tell (``binlog_row_image``)."""
MICROS: Final = 1_000_000
DAY_MICROS: Final = 86_400 * MICROS
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_USUAL_GROUPS: Final = 3
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@lru_cache(maxsize=20_000)
def _micros_of_day(day: int) -> int | None:
    """Microseconds since 1970-01-01 of a DATETIME's days; None: no calendar has it."""
    months, day_of_month = divmod(day, 32)
    days = days_of(*divmod(months, 13), day_of_month)
    return None if days is ZERO else days * DAY_MICROS


@lru_cache(maxsize=20_000)
def days_of(year: int, month: int, day: int) -> int | Zero:
    """Days since 1970-01-01."""
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return ZERO


def date_cell(packed: int) -> int | Zero:
    """A DATE, of three bytes."""
    return days_of(packed >> 9, packed >> 5 & 15, packed & 31)


def year_cell(packed: int) -> int:
    """A YEAR, of one byte."""
    return 1900 + packed if packed else 0


def fraction_scale(decimals: int) -> int:
    """Microseconds of one unit of a fraction's bytes."""
    return (1, 10_000, 100, 1)[(decimals + 1) // 2]


def datetime_cell(packed: int, micros: int) -> int | Zero:
    """A DATETIME, of five bytes and its fraction."""
    value = packed - 0x8000000000
    if value < 0:
        raise ValueError("a DATETIME is negative")
    start, clock = _micros_of_day(value >> 17), value & 0x1FFFF
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if start is None or hour > 23 or minute > 59 or second > 59:
        return ZERO
    return start + (hour * 3600 + minute * 60 + second) * MICROS + micros


def time_cell(packed: int, fraction_bytes: int, scale: int) -> int:
    """A TIME, of three bytes and its fraction, as one number."""
    shift = 8 * fraction_bytes
    value = packed - (0x800000 << shift)
    sign, value = (-1, -value) if value < 0 else (1, value)
    whole, fraction = value >> shift, value & ((1 << shift) - 1)
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return sign * (seconds * MICROS + fraction * scale)


def timestamp_cell(seconds: int, micros: int) -> int | Zero:
    """A TIMESTAMP, of four bytes and its fraction."""
    return seconds * MICROS + micros if seconds or micros else ZERO


def decimal_size(precision: int, scale: int) -> int:
    """How many bytes a DECIMAL has."""
    whole, left = divmod(precision - scale, 9)
    parts, right = divmod(scale, 9)
    return 4 * (whole + parts) + _DIGIT_BYTES[left] + _DIGIT_BYTES[right]


def unscaled_cell(precision: int, scale: int) -> Callable[[bytes], int]:
    """Reads DECIMAL(precision, scale): its digits as a number without the point."""
    whole, left = divmod(precision - scale, 9)
    parts, right = divmod(scale, 9)
    groups = [(_DIGIT_BYTES[left], left)] if left else []
    groups += [(4, 9)] * (whole + parts)
    groups += [(_DIGIT_BYTES[right], right)] if right else []
    size = decimal_size(precision, scale)
    top, mask = 1 << (8 * size - 1), (1 << 8 * size) - 1
    steps: list[tuple[int, int, int]] = []
    shift = 8 * size
    for width, count in groups:
        shift -= 8 * width
        steps.append((shift, (1 << 8 * width) - 1, 10**count))

    def checked(data: bytes) -> int:
        if len(data) != size:
            raise ValueError("a DECIMAL is cut off")
        number = int.from_bytes(data, "big")
        negative = not number & top
        number ^= top
        if negative:
            number ^= mask
        digits = 0
        for shift, bits, power in steps:
            group = number >> shift & bits
            if group >= power:
                raise ValueError("a DECIMAL has a byte that is not a digit")
            digits = digits * power + group
        return -digits if negative else digits

    if len(steps) > _USUAL_GROUPS:
        return checked
    # Up to 18 digits and some more, without a loop; groups that are not there are zero.
    nothing: list[tuple[int, int, int]] = [(8 * size, 0, 1)] * (_USUAL_GROUPS - len(steps))
    (shift_a, bits_a, most_a), (shift_b, bits_b, most_b), (_, bits_c, most_c) = nothing + steps
    power_b, big = most_c, int.from_bytes
    power_a = most_b * most_c

    def usual(data: bytes) -> int:
        number = big(data, "big") ^ top
        a, b, c = number >> shift_a & bits_a, number >> shift_b & bits_b, number & bits_c
        if number >= top or a >= most_a or b >= most_b or c >= most_c or len(data) != size:
            return checked(data)
        return a * power_a + b * power_b + c

    return usual


def decimal_cell(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    """Reads DECIMAL(precision, scale)."""
    unscaled = unscaled_cell(precision, scale)

    def read(data: bytes) -> Decimal:
        number = unscaled(data)
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return read


def label_cell(labels: tuple[str, ...]) -> Callable[[int], str]:
    """Reads an ENUM: its labels are counted from 1, and 0 is the empty text of a value that was wrong."""
    known = ("", *labels)

    def read(index: int) -> str:
        if index >= len(known):
            raise ValueError("an ENUM has a number without a label")
        return known[index]

    return read


def set_cell(labels: tuple[str, ...]) -> Callable[[int], str]:
    """Reads a SET: a bit for each label."""

    def read(bits: int) -> str:
        if bits >> len(labels):
            raise ValueError("a SET has a bit without a label")
        return ",".join(label for place, label in enumerate(labels) if bits >> place & 1)

    return read


_MOST_BYTES: Final = 1 << 30
"""No cell is longer: ``max_allowed_packet`` allows for 1 GB."""


def uncompressed_cell(data: bytes) -> bytes:
    """The bytes of a column that is kept compressed (``COMPRESSED``).

    The first byte tells the method in its upper half (0: as it is; 8: zlib), in bit 3 whether zlib's own header is left out,
    and in the lowest three how many bytes the length has that follows, big end first.
    """
    if not data:
        return data
    method, head = data[0] >> 4, 1 + (data[0] & 7)
    if method == 0:
        return data[1:]
    length = int.from_bytes(data[1:head], "big")
    if method != 8 or length > _MOST_BYTES:
        raise ValueError("a compressed cell is of a kind that is not known")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if data[0] & 8 else zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(data[head:], length + 1)
    except zlib.error:
        raise ValueError("a compressed cell cannot be decompressed") from None
    if len(plain) != length:
        raise ValueError("a compressed cell has another length than it says")
    return plain
