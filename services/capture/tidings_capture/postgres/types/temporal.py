"""date, time, timetz, timestamp, timestamptz, interval.

Cells are in PostgreSQL's ISO date style, which the task's connections set, with any time zone. Representations by
``time.precision.mode``: adaptive takes milliseconds up to precision 3 and microseconds above; connect takes Connect's
own Date, Time and Timestamp in milliseconds; microseconds, nanoseconds, isostring and structured do what they say.
"""

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

from tidings_capture.cdc.encoding.options import ConversionOptions, IntervalHandling, TimePrecision
from tidings_capture.cdc.types import structured_times as structured
from tidings_capture.cdc.types.civil import days_from_civil
from tidings_capture.cdc.types.conversion import CellError, Conversion, Kind
from tidings_capture.cdc.types.iso_times import DAY_US, iso_clock, iso_date, iso_timestamp
from tidings_envelope import semantic

_MAX_INT64: Final = 2**63 - 1
_DEFAULT_PRECISION: Final = 6
_DAYS_PER_MONTH: Final = 365.25 / 12
_NANOSECOND: Final = Decimal("1e-9")

_INFINITE_US: Final = {b"infinity": 2**63 - 1, b"-infinity": -(2**63)}
"""Debezium's microsecond timestamps for the infinities; in milliseconds it goes by the driver's own constants."""
_INFINITE_MS: Final = {b"infinity": 9_223_372_036_825_200_000, b"-infinity": -9_223_372_036_832_400_000}

_INFINITE_DAYS: Final = {b"infinity": 2_146_033_979, b"-infinity": -2_147_472_691}
_INFINITE_DAYS_IN_ARRAYS: Final = {b"infinity": -622_191_234, b"-infinity": -625_821_272}
"""+292278994-08-16 and +292269055-12-02 in 32 bits."""
_ISO_DATES: Final = {b"infinity": "+5877611-06-21Z", b"-infinity": "-5877611-06-22Z"}
_ISO_DATES_IN_ARRAYS: Final = {b"infinity": "+292278994-08-16Z", b"-infinity": "+292269055-12-02Z"}
_ISO_TIMESTAMPS: Final = {
    b"infinity": "+292278994-08-16T23:00:00Z",
    b"-infinity": "-292275055-05-16T23:00:00Z",
}
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


def date(options: ConversionOptions, *, in_array: bool = False) -> Conversion:
    """date. In arrays Debezium takes the driver's constants for the infinities as moments in time."""
    infinities = _INFINITE_DAYS_IN_ARRAYS if in_array else _INFINITE_DAYS
    match options.time_precision:
        case TimePrecision.ISOSTRING:
            return Conversion(
                semantic.ISO_DATE, _iso_date(_ISO_DATES_IN_ARRAYS if in_array else _ISO_DATES), "1970-01-01Z"
            )
        case TimePrecision.STRUCTURED:
            return Conversion(structured.DATE, _structured_date, structured.date_fields(0))
        case TimePrecision.CONNECT:
            schema = semantic.CONNECT_DATE
        case _:
            schema = semantic.DATE

    def convert_element(cell: bytes) -> int:
        return infinities[cell] if cell in infinities else _days(cell)

    return Conversion(schema, convert_element if in_array else convert_date, 0, kind=Kind.DATE)


def _iso_date(infinities: Mapping[bytes, str]) -> Callable[[bytes], str]:
    return lambda cell: infinities.get(cell) or f"{iso_date(_days(cell))}Z"


def _structured_date(cell: bytes) -> dict[str, Any]:
    return structured.special(cell) or structured.date_fields(_days(cell))


def time(typmod: int, options: ConversionOptions, *, in_array: bool = False) -> Conversion:
    """time without time zone. In arrays Debezium goes through JDBC's Time, which counts milliseconds modulo a day."""
    precision = _precision(typmod)

    def micros(cell: bytes) -> int:
        return time_us(cell) % DAY_US // 1_000 * 1_000 if in_array else time_us(cell)

    match options.time_precision:
        case TimePrecision.ISOSTRING:
            return Conversion(
                semantic.ISO_TIME, lambda cell: f"{iso_clock(micros(cell) % DAY_US)}Z", "00:00:00Z"
            )
        case TimePrecision.STRUCTURED:
            return Conversion(
                structured.TIME,
                lambda cell: structured.time(micros(cell), precision),
                structured.time(0, precision),
            )
        case TimePrecision.NANOSECONDS:
            return Conversion(semantic.NANO_TIME, lambda cell: micros(cell) * 1_000, 0)
        case TimePrecision.CONNECT:
            return Conversion(semantic.CONNECT_TIME, lambda cell: micros(cell) // 1_000, 0)
        case TimePrecision.ADAPTIVE if precision <= 3:
            return Conversion(semantic.TIME, lambda cell: micros(cell) // 1_000, 0)
        case _:
            return Conversion(semantic.MICRO_TIME, micros, 0)


def timetz(typmod: int, options: ConversionOptions) -> Conversion:
    if options.time_precision is not TimePrecision.STRUCTURED:
        return Conversion(semantic.ZONED_TIME, convert_timetz, "00:00:00Z")
    precision = _precision(typmod)

    def convert(cell: bytes) -> dict[str, Any]:
        return structured.zoned_time(*_timetz(cell), precision)

    return Conversion(structured.ZONED_TIME, convert, structured.zoned_time(0, 0, precision))


def timestamp(typmod: int, options: ConversionOptions) -> Conversion:
    precision = _precision(typmod)

    def convert_structured(cell: bytes) -> dict[str, Any]:
        return structured.special(cell, precision) or structured.timestamp(timestamp_us(cell), precision)

    match options.time_precision:
        case TimePrecision.CONNECT:
            return Conversion(semantic.CONNECT_TIMESTAMP, convert_timestamp_ms, 0)
        case TimePrecision.ISOSTRING:
            return Conversion(semantic.ISO_TIMESTAMP, convert_timestamp_iso, "1970-01-01T00:00:00Z")
        case TimePrecision.STRUCTURED:
            return Conversion(structured.TIMESTAMP, convert_structured, structured.timestamp(0, precision))
        case TimePrecision.NANOSECONDS:
            return Conversion(semantic.NANO_TIMESTAMP, convert_timestamp_ns, 0)
        case TimePrecision.ADAPTIVE | TimePrecision.ADAPTIVE_TIME_MICROSECONDS if precision <= 3:
            return Conversion(semantic.TIMESTAMP, convert_timestamp_ms, 0)
        case _:
            return Conversion(semantic.MICRO_TIMESTAMP, convert_timestamp_us, 0, kind=Kind.MICROSECONDS)


def timestamptz(typmod: int, options: ConversionOptions, *, in_array: bool = False) -> Conversion:
    """timestamp with time zone. In arrays Debezium takes the driver's constant for -infinity as a moment in time."""
    width = _precision(typmod)
    if options.time_precision is TimePrecision.STRUCTURED:

        def convert_structured(cell: bytes) -> dict[str, Any]:
            if in_array and cell == b"-infinity":
                return structured.zoned_timestamp(_MINUS_INFINITY_IN_ARRAYS_US, width)
            return structured.special(cell, width) or structured.zoned_timestamp(timestamp_us(cell), width)

        return Conversion(
            structured.ZONED_TIMESTAMP, convert_structured, structured.zoned_timestamp(0, width, None)
        )
    kind = Kind.ZONED_MICROSECONDS if width == _DEFAULT_PRECISION else Kind.OTHER
    convert = zoned_timestamp(width)

    def convert_element(cell: bytes) -> str:
        if cell == b"-infinity":
            return iso_timestamp(_MINUS_INFINITY_IN_ARRAYS_US, width)
        return convert(cell)

    return Conversion(
        semantic.ZONED_TIMESTAMP, convert_element if in_array else convert, "1970-01-01T00:00:00Z", kind=kind
    )


def interval(typmod: int, options: ConversionOptions) -> Conversion:
    if options.time_precision is TimePrecision.STRUCTURED:
        precision = _DEFAULT_PRECISION if typmod == -1 else typmod & 0xFFFF

        def convert(cell: bytes) -> dict[str, Any]:
            return structured.duration(*_interval_fields(cell), precision)

        return Conversion(
            structured.DURATION, convert, structured.duration(0, 0, 0, 0, 0, Decimal(0), precision)
        )
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


def _timetz(cell: bytes) -> tuple[int, int]:
    """Microseconds since the zone's midnight, and the zone's offset in seconds."""
    clock, *zone = _match(_TIMETZ, cell, "a time with time zone").groups()
    return time_us(clock), _zone_seconds(*zone)


def convert_timetz(cell: bytes) -> str:
    """ISO text in UTC; the date that the shift may change is dropped."""
    micros, offset = _timetz(cell)
    if micros == DAY_US and offset == 0:
        return "24:00:00Z"
    return f"{iso_clock((micros - offset * 1_000_000) % DAY_US)}Z"


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


def convert_timestamp_ns(cell: bytes) -> int | None:
    """Nanoseconds since the Unix epoch; Debezium writes null outside the years 1677 to 2262, where they do not fit."""
    if cell in _INFINITE_US:
        return _INFINITE_US[cell]
    micros = timestamp_us(cell)
    midnight = micros // DAY_US * DAY_US  # Debezium adds the clock to it: both must fit
    if midnight * 1_000 < -_MAX_INT64 - 1 or micros * 1_000 > _MAX_INT64:
        return None
    return micros * 1_000


def convert_timestamp_iso(cell: bytes) -> str:
    """ISO text; the infinities are the driver's own constants."""
    return _ISO_TIMESTAMPS.get(cell) or iso_timestamp(timestamp_us(cell), 0)


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


def _driver_seconds(seconds: Decimal) -> float:
    """The JDBC driver's sum of seconds and their fraction, which for 3.97 is a little less; Debezium cuts digits off it."""
    whole = int(seconds)
    return whole + int((seconds - whole) * 1_000_000) / 1e6


def convert_interval_us(cell: bytes) -> int:
    """Microseconds, a month being 365.25 / 12 days; in floating point, as Debezium computes it."""
    years, months, days, hours, minutes, seconds = _interval_fields(cell)
    all_days = (years * 12 + months) * _DAYS_PER_MONTH + days
    all_seconds = (((all_days * 24 + hours) * 60) + minutes) * 60 + _driver_seconds(seconds)
    return int(all_seconds * 1e6)


def convert_interval_iso(cell: bytes) -> str:
    """Debezium's form of ISO 8601, in which every field is written."""
    years, months, days, hours, minutes, seconds = _interval_fields(cell)
    cut = Decimal(repr(_driver_seconds(seconds))).quantize(_NANOSECOND, ROUND_DOWN)
    text = f"{cut:f}".rstrip("0").rstrip(".") if cut else "0"
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{text}S"
