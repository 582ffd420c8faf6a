"""date, time, timetz, timestamp, timestamptz, interval.

Cells are in PostgreSQL's ISO date style, which the task's connections set, with any time zone. Representations by
``time.precision.mode``: adaptive takes milliseconds up to precision 3 and microseconds above; connect takes Connect's
own Date, Time and Timestamp in milliseconds.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from tidings_capture.conversion_options import ConversionOptions, IntervalHandling, TimePrecision
from tidings_capture.types.civil import civil_from_days, days_from_civil
from tidings_capture.types.conversion import CellError, Conversion, Kind
from tidings_envelope import semantic

DAY_US: Final = 86_400_000_000
_MAX_INT64: Final = 2**63 - 1
_DEFAULT_PRECISION: Final = 6
_DAYS_PER_MONTH: Final = 365.25 / 12

_INFINITE_US: Final = {b"infinity": 2**63 - 1, b"-infinity": -(2**63)}
"""Debezium's microsecond timestamps for the infinities; in milliseconds it goes by the driver's own constants."""
_INFINITE_MS: Final = {b"infinity": 9_223_372_036_825_200_000, b"-infinity": -9_223_372_036_832_400_000}

_INFINITE_DAYS: Final = {b"infinity": 2_146_033_979, b"-infinity": -2_147_472_691}
_MINUS_INFINITY_IN_ARRAYS_US: Final = 9_223_058_401_542_000_000_000
"""+292269055-12-02T23:00:00Z."""

_DATE = re.compile(rb"(\d{4,})-(\d\d)-(\d\d)( BC)?\Z")
_TIME = re.compile(rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\Z")
_ZONE = rb"(?:([+-])(\d\d)(?::(\d\d)(?::(\d\d))?)?)"
_TIMETZ = re.compile(rb"(\d\d:\d\d:\d\d(?:\.\d{1,6})?)" + _ZONE + rb"\Z")
_TIMESTAMP = re.compile(rb"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)" + _ZONE + rb"?( BC)?\Z")
_INTERVAL = re.compile(
    rb"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    rb"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?\Z"
)


def _precision(typmod: int) -> int:
    return _DEFAULT_PRECISION if typmod == -1 else typmod


def date(options: ConversionOptions) -> Conversion:
    connect = options.time_precision is TimePrecision.CONNECT
    schema = semantic.CONNECT_DATE if connect else semantic.DATE
    return Conversion(schema, convert_date, 0, kind=Kind.DATE)


def time(typmod: int, options: ConversionOptions, *, in_array: bool = False) -> Conversion:
    """time without time zone. In arrays Debezium goes through JDBC's Time, which counts milliseconds modulo a day."""
    if options.time_precision is TimePrecision.CONNECT:
        schema, unit_us = semantic.CONNECT_TIME, 1_000
    elif options.time_precision is TimePrecision.ADAPTIVE and _precision(typmod) <= 3:
        schema, unit_us = semantic.TIME, 1_000
    else:
        schema, unit_us = semantic.MICRO_TIME, 1

    def convert(cell: bytes) -> int:
        return time_us(cell) // unit_us

    def convert_element(cell: bytes) -> int:
        return time_us(cell) % DAY_US // 1_000 * 1_000 // unit_us

    return Conversion(schema, convert_element if in_array else convert, 0)


def timetz() -> Conversion:
    return Conversion(semantic.ZONED_TIME, convert_timetz, "00:00:00Z")


def timestamp(typmod: int, options: ConversionOptions) -> Conversion:
    if options.time_precision is TimePrecision.CONNECT:
        return Conversion(semantic.CONNECT_TIMESTAMP, convert_timestamp_ms, 0)
    if _precision(typmod) <= 3:
        return Conversion(semantic.TIMESTAMP, convert_timestamp_ms, 0)
    return Conversion(semantic.MICRO_TIMESTAMP, convert_timestamp_us, 0, kind=Kind.MICROSECONDS)


def timestamptz(typmod: int, *, in_array: bool = False) -> Conversion:
    """timestamp with time zone. In arrays Debezium takes the driver's constant for -infinity as a moment in time."""
    width = _precision(typmod)
    kind = Kind.ZONED_MICROSECONDS if width == _DEFAULT_PRECISION else Kind.OTHER
    convert = zoned_timestamp(width)

    def convert_element(cell: bytes) -> str:
        if cell == b"-infinity":
            return iso_timestamp(_MINUS_INFINITY_IN_ARRAYS_US, width)
        return convert(cell)

    return Conversion(
        semantic.ZONED_TIMESTAMP, convert_element if in_array else convert, "1970-01-01T00:00:00Z", kind=kind
    )


def interval(options: ConversionOptions) -> Conversion:
    if options.interval_handling is IntervalHandling.STRING:
        return Conversion(semantic.INTERVAL, convert_interval_iso, "P0Y0M0DT0H0M0S")
    return Conversion(semantic.MICRO_DURATION, convert_interval_us, 0)


def _match(pattern: re.Pattern[bytes], cell: bytes, what: str) -> re.Match[bytes]:
    match = pattern.match(cell)
    if match is None:
        raise CellError(f"not {what} in ISO style")
    return match


def convert_date(cell: bytes) -> int:
    """Days since 1970-01-01."""
    if cell in _INFINITE_DAYS:
        return _INFINITE_DAYS[cell]
    return _days(cell)


def _days(cell: bytes) -> int:
    year, month, day, bc = _match(_DATE, cell, "a date").groups()
    return days_from_civil(1 - int(year) if bc else int(year), int(month), int(day))


def time_us(cell: bytes) -> int:
    """Microseconds since midnight; 24:00:00 is a whole day."""
    hours, minutes, seconds, fraction = _match(_TIME, cell, "a time").groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1_000_000 + (int(fraction.ljust(6, b"0")) if fraction else 0)


def _zone_seconds(sign: bytes | None, hours: bytes, minutes: bytes | None, seconds: bytes | None) -> int:
    if sign is None:
        return 0
    total = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return -total if sign == b"-" else total


def convert_timetz(cell: bytes) -> str:
    """ISO text in UTC; the date that the shift may change is dropped."""
    clock, *zone = _match(_TIMETZ, cell, "a time with time zone").groups()
    micros, offset = time_us(clock), _zone_seconds(*zone)
    if micros == DAY_US and offset == 0:
        return "24:00:00Z"
    return _clock_text((micros - offset * 1_000_000) % DAY_US) + "Z"


def convert_timestamp_us(cell: bytes) -> int:
    """Microseconds since the Unix epoch."""
    if cell in _INFINITE_US:
        return _INFINITE_US[cell]
    micros = timestamp_us(cell)
    if micros > _MAX_INT64:
        # From the year 294247 on microseconds do not fit; Java saturates the seconds and wraps the fraction around.
        return _MAX_INT64 + micros % 1_000_000 - (1 << 64)
    return micros


def convert_timestamp_ms(cell: bytes) -> int:
    """Milliseconds since the Unix epoch."""
    if cell in _INFINITE_MS:
        return _INFINITE_MS[cell]
    return timestamp_us(cell) // 1_000


def timestamp_us(cell: bytes) -> int:
    """Microseconds since the Unix epoch, in UTC where the cell has a time zone."""
    day, clock, *zone, bc = _match(_TIMESTAMP, cell, "a timestamp").groups()
    days = _days(day + (bc or b""))
    return days * DAY_US + time_us(clock) - _zone_seconds(*zone) * 1_000_000


def zoned_timestamp(width: int) -> Callable[[bytes], str]:
    """ISO text in UTC with exactly `width` decimals (0: as many as needed)."""

    def convert(cell: bytes) -> str:
        if cell in _INFINITE_US:
            return cell.decode()
        return iso_timestamp(timestamp_us(cell), width)

    return convert


def iso_timestamp(micros: int, width: int) -> str:
    """``java.time``'s ISO form of an instant: years above 9999 have a plus, years before 1 a minus."""
    days, clock = divmod(micros, DAY_US)
    year, month, day = civil_from_days(days)
    year_text = f"+{year}" if year > 9999 else f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f"{year_text}-{month:02d}-{day:02d}T{_clock_text(clock, width)}Z"


def _clock_text(micros: int, width: int = 0) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    digits = f"{fraction:06d}"[:width] if width else f"{fraction:06d}".rstrip("0")
    return f"{text}.{digits}" if digits else text


def _interval_fields(cell: bytes) -> tuple[int, int, int, int, int, Decimal]:
    """Years, months, days, hours, minutes, seconds; the last three have the sign of the clock part."""
    years, months, days, sign, hours, minutes, seconds, fraction = _match(
        _INTERVAL, cell, "an interval"
    ).groups()
    factor = -1 if sign == b"-" else 1
    clock = Decimal(f"{int(seconds or 0)}.{(fraction or b'0').decode()}")
    return (
        int(years or 0),
        int(months or 0),
        int(days or 0),
        factor * int(hours or 0),
        factor * int(minutes or 0),
        factor * clock,
    )


def convert_interval_us(cell: bytes) -> int:
    """Microseconds, a month being 365.25 / 12 days; in floating point, as Debezium computes it."""
    years, months, days, hours, minutes, seconds = _interval_fields(cell)
    all_days = (years * 12 + months) * _DAYS_PER_MONTH + days
    all_seconds = (((all_days * 24 + hours) * 60) + minutes) * 60 + float(seconds)
    return int(all_seconds * 1e6)


def convert_interval_iso(cell: bytes) -> str:
    """Debezium's form of ISO 8601, in which every field is written."""
    years, months, days, hours, minutes, seconds = _interval_fields(cell)
    text = f"{seconds:f}".rstrip("0").rstrip(".") if seconds else "0"
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{text}S"
