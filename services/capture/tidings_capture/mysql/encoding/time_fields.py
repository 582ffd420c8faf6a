"""What DATE, TIME, DATETIME and TIMESTAMP become in records. Pure.

Reference: ``io.debezium.jdbc.JdbcValueConverters`` and ``io.debezium.jdbc.TemporalPrecisionMode``.
"""

from functools import lru_cache
from typing import Final

from tidings_capture.cdc.encoding.options import TimePrecision
from tidings_capture.cdc.types.conversion import NoRepresentationError
from tidings_capture.cdc.types.iso_times import iso_clock, iso_date, iso_timestamp
from tidings_capture.mysql.binlog.cells import DAY_MICROS, MICROS
from tidings_capture.mysql.encoding.kinds import Convert, Kind, same
from tidings_capture.mysql.schemas.catalog import Column
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema

_MOST: Final = (1 << 63) - 1
_ONE_DAY: Final = "a TIME that is negative or longer than a day"


def time_kind(column: Column, mode: TimePrecision) -> Kind:
    """What a column becomes with a ``time.precision.mode``; a TIMESTAMP is the same in all."""
    decimals = column.decimals or 0
    match column.type:
        case "timestamp":
            return semantic.ZONED_TIMESTAMP, _zoned(decimals), (iso_timestamp(0, decimals),)
        case "date":
            return _date(mode)
        case "time":
            return _time(mode)
        case _:
            return _datetime(mode, decimals)


def _date(mode: TimePrecision) -> Kind:
    if mode is TimePrecision.ISOSTRING:
        return semantic.ISO_DATE, _iso_date, (_iso_date(0),)
    schema: ConnectSchema = semantic.CONNECT_DATE if mode is TimePrecision.CONNECT else semantic.DATE
    return schema, same, (0,)


def _iso_date(days: int) -> str:
    return f"{iso_date(days)}Z"


def _time(mode: TimePrecision) -> Kind:
    match mode:
        case TimePrecision.CONNECT:
            return semantic.CONNECT_TIME, _clock_millis, None
        case TimePrecision.ISOSTRING:
            return semantic.ISO_TIME, _iso_clock, None
        case TimePrecision.NANOSECONDS:
            return semantic.NANO_TIME, _nanos, None
        case _:
            return semantic.MICRO_TIME, same, None


def _datetime(mode: TimePrecision, decimals: int) -> Kind:
    match mode:
        case TimePrecision.CONNECT:
            return semantic.CONNECT_TIMESTAMP, millis, (0,)
        case TimePrecision.ISOSTRING:
            return semantic.ISO_TIMESTAMP, _iso_timestamp, (_iso_timestamp(0),)
        case TimePrecision.NANOSECONDS:
            return semantic.NANO_TIMESTAMP, _epoch_nanos, (0,)
        case TimePrecision.MICROSECONDS:
            return semantic.MICRO_TIMESTAMP, same, (0,)
        case _ if decimals <= 3:
            return semantic.TIMESTAMP, millis, (0,)
        case _:
            return semantic.MICRO_TIMESTAMP, same, (0,)


def _nanos(micros: int) -> int:
    return micros * 1_000


def _epoch_nanos(micros: int) -> int:
    midnight = micros // DAY_MICROS * DAY_MICROS  # Debezium adds the clock to it: both must fit
    if midnight * 1_000 < -_MOST - 1 or micros * 1_000 > _MOST:
        raise NoRepresentationError("a DATETIME outside the years 1677 to 2262 has no nanoseconds in 64 bits")
    return micros * 1_000


def _iso_timestamp(micros: int) -> str:
    return iso_timestamp(micros, 0)


def _zoned(decimals: int) -> Convert:
    if not decimals:
        return lambda micros: f"{_second(micros // MICROS)}Z"
    unit = 10 ** (6 - decimals)

    def zoned(micros: int) -> str:
        seconds, fraction = divmod(micros, MICROS)
        return f"{_second(seconds)}.{fraction // unit:0{decimals}d}Z"

    return zoned


@lru_cache(maxsize=5_000)
def _second(seconds: int) -> str:
    return iso_timestamp(seconds * MICROS, 0)[:-1]


def millis(micros: int) -> int:
    """Milliseconds of microseconds, rounded down."""
    return micros // 1000


def _clock_millis(micros: int) -> int:
    if not 0 <= micros < DAY_MICROS:
        raise NoRepresentationError(f"{_ONE_DAY} is not in Connect's Time")
    return micros // 1000


def _iso_clock(micros: int) -> str:
    if not 0 <= micros <= DAY_MICROS:
        raise NoRepresentationError(f"{_ONE_DAY} is no time of a day")
    return f"{iso_clock(micros % DAY_MICROS)}Z"


MAY_FAIL: Final = frozenset({_clock_millis, _iso_clock, _epoch_nanos})
"""Conversions that raise NoRepresentationError."""
