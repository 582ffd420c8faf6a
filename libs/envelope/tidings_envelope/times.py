"""Timestamps and times of day whose number's unit only the schema tells, as text that says it all.

Debezium counts a `timestamp` in milliseconds, microseconds or nanoseconds, by the column's precision and
`time.precision.mode`, under a semantic type each (documentation, PostgreSQL connector, "Temporal types"). Who declares a
column as a moment and reads numbers would have to know which. The text is ISO 8601 without a zone, in microseconds.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - such a column has no zone
_DAY_US = 86_400_000_000
PLAIN_US = 10**14
"""From here on (March 1973) a number of microseconds can't be taken for one of milliseconds, up to the year 5138, and stays a
number."""
PLAIN_TIME_US = 86_400_000
"""The same for a time of day: the milliseconds of a day."""

_TIMESTAMPS_PER_US = {
    "io.debezium.time.Timestamp": (1000, 1),
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
"""Semantic type to what a number is to be multiplied with, and divided by."""
_TIMES_PER_US = {
    "io.debezium.time.Time": (1000, 1),
    "org.apache.kafka.connect.data.Time": (1000, 1),
    "io.debezium.time.MicroTime": (1, 1),
    "io.debezium.time.NanoTime": (1, 1000),
    "io.debezium.time.NanoDuration": (1, 1000),
}


def time_conversion(semantic_type: str | None) -> Callable[[Any], Any] | None:
    """From a number to text; None for a type that is none of these. Microseconds beyond doubt, and what is outside the
    calendar (infinity), stay numbers. A TIME of MariaDB's or MySQL's may be a duration, ``-838:59:59.000000`` to ``838:59:59.000000``."""
    if semantic_type in _TIMESTAMPS_PER_US:
        multiplier, divisor = _TIMESTAMPS_PER_US[semantic_type]
        return _timestamp(multiplier, divisor)
    if semantic_type in _TIMES_PER_US:
        multiplier, divisor = _TIMES_PER_US[semantic_type]
        return _time(multiplier, divisor)
    return None


def iso_clock(micros: int) -> str:
    """A time of day, or a duration of any length, from microseconds; six decimals."""
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:06d}"


def _timestamp(multiplier: int, divisor: int) -> Callable[[Any], Any]:
    micros = multiplier == divisor

    def convert(value: Any) -> Any:
        if type(value) is not int or (micros and not -PLAIN_US < value < PLAIN_US):
            return value
        try:
            moment = _EPOCH + timedelta(microseconds=value * multiplier // divisor)
        except OverflowError:
            return value
        return moment.isoformat(timespec="microseconds")

    return convert


clear_micros: Callable[[Any], Any] = _timestamp(1, 1)
"""`time_conversion` of what is known to be microseconds since 1970."""


def _time(multiplier: int, divisor: int) -> Callable[[Any], Any]:
    micros = multiplier == divisor

    def convert(value: Any) -> Any:
        if type(value) is not int or (micros and value >= PLAIN_TIME_US):
            return value
        us = value * multiplier // divisor
        if micros and not 0 <= us < _DAY_US:
            return value
        return iso_clock(us)

    return convert
