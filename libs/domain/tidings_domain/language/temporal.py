"""Converts dates and times of rows, which Debezium writes as bare numbers, each in a unit of its own.

A `timestamp` column of precision 4 to 6 is microseconds since 1970, of precision 0 to 3 milliseconds
(`time.precision.mode=adaptive`); `time` likewise, since midnight. A TIME of MariaDB's or MySQL's may be negative and longer than a
day: `timedelta` takes it, and microseconds of an interval. Where the topic has schemas (Avro, JSON with schemas) the
sequencer knows the unit, and what is not in microseconds comes here as text. In JSON without schemas nothing tells, so an
author says it: ``at: Annotated[datetime, MILLISECONDS]``. Without that, microseconds are assumed, and a number that would
be read as a moment near 1970 (near midnight) is refused: it is rather in milliseconds, or a date.
"""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec

from tidings_envelope.times import PLAIN_TIME_US, PLAIN_US

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp column has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_CLOCK: Final = re.compile(r"(-?)(\d{2,}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
"""A time of day, or a duration, as the sequencer and the lake write it."""


class Unit(msgspec.Struct, frozen=True):
    """What a column's numbers count, for `Annotated`."""

    name: str
    microseconds: int


MILLISECONDS: Final = Unit("milliseconds", 1_000)
"""``Annotated[datetime, MILLISECONDS]``: a timestamp or time column of precision 0 to 3, in JSON without schemas."""
MICROSECONDS: Final = Unit("microseconds", 1)
"""Like a bare `datetime` or `time`, but with moments near 1970 (near midnight)."""


class NoTimeOfDayError(ValueError):
    """A number before midnight or behind the next: a duration."""


class DoubtfulTimeError(ValueError):
    """A number that is more likely in another unit than in the one assumed."""


def to_date(value: Any) -> Any:
    """A date of days since 1970; what is not a number is left to the type's own reading."""
    return date.fromordinal(_EPOCH_DAY + value) if type(value) is int else value


def datetime_conversion(unit: Unit | None) -> Callable[[Any], Any]:
    """From numbers of a timestamp column; None is microseconds unless in doubt."""
    if unit is None:
        return _to_datetime
    scale = unit.microseconds

    def convert(value: Any) -> Any:
        return _EPOCH + timedelta(microseconds=value * scale) if type(value) is int else value

    return convert


def _to_datetime(value: Any) -> Any:
    if type(value) is not int:
        return value
    if -PLAIN_US < value < PLAIN_US and value != 0:
        raise DoubtfulTimeError
    return _EPOCH + timedelta(microseconds=value)


def time_conversion(unit: Unit | None) -> Callable[[Any], Any]:
    """From numbers of a time column; None is microseconds unless in doubt."""
    scale = 1 if unit is None else unit.microseconds

    def convert(value: Any) -> Any:
        if type(value) is not int:
            return value
        if unit is None and 0 < value < PLAIN_TIME_US:
            raise DoubtfulTimeError
        us = value * scale
        if not 0 <= us < _DAY_US:
            raise NoTimeOfDayError
        return (_EPOCH + timedelta(microseconds=us)).time()

    return convert


def timedelta_conversion(unit: Unit | None) -> Callable[[Any], Any]:
    """From numbers or clocks of a TIME that is a duration, or numbers of an interval; None is microseconds. ISO 8601 text is left to
    the type's own reading."""
    scale = 1 if unit is None else unit.microseconds

    def convert(value: Any) -> Any:
        if type(value) is int:
            return timedelta(microseconds=value * scale)
        clock = _CLOCK.fullmatch(value) if type(value) is str else None
        if clock is None:
            return value
        sign, hours, minutes, seconds, fraction = clock.groups()
        size = timedelta(
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(seconds),
            microseconds=int((fraction or "").ljust(6, "0")),
        )
        return -size if sign else size

    return convert
