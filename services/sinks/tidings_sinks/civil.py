"""Numbers of days and microseconds as ISO 8601 text, also beyond Python's years 1 to 9999: PostgreSQL has dates from 4713 BC to
5874897 AD, and writes years before 1 with ``BC``. Howard Hinnant's "civil_from_days"."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

DAY_US: Final = 86_400_000_000


class NoTimeOfDayError(ValueError):
    """A time before 00:00 or behind 24:00, as a TIME of MariaDB's or MySQL's can be: where a target's holds those of a day only, the
    record is a bad one."""

    def __init__(self) -> None:
        super().__init__("the time is none of a day; a column of type INTERVAL would hold it")


_MINUTE_US: Final = 60_000_000
_HUNDRED_SECONDS_US: Final = 100_000_000
_MINUTES: Final = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(1440)]
"""Of a day, as a clock shows them."""


def iso_date(days: int) -> str:
    """A date from days since 1970-01-01; with `` BC`` at its end where it is before Christ."""
    text, era = _date(days)
    return text + era


@lru_cache(maxsize=4096)
def _date(days: int) -> tuple[str, str]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    shown, suffix = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04d}-{month:02d}-{day:02d}", suffix


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date; year 0 is 1 BC ("days_from_civil")."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    shifted = month - 3 if month > 2 else month + 9
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def iso_timestamp(micros: int) -> str:
    """A timestamp without a zone, from microseconds since the epoch; six decimals."""
    days, clock = divmod(micros, DAY_US)
    text, era = _date(days)
    seconds, fraction = divmod(clock, 1_000_000)
    minute, second = divmod(seconds, 60)
    return f"{text} {_MINUTES[minute]}:{second:02d}.{fraction:06d}{era}"


def iso_timestamps(values: Sequence[int]) -> list[str]:
    """`iso_timestamp` of many; many of the same minutes take a third of the time."""
    known: dict[int, str] = {}
    found = []
    for micros in values:
        minutes, rest = divmod(micros, _MINUTE_US)
        text = known.get(minutes)
        if text is None:
            days, minute = divmod(minutes, 1440)
            date, era = _date(days)
            if era:
                found.append(iso_timestamp(micros))
                continue
            text = known[minutes] = f"{date} {_MINUTES[minute]}:"
        digits = str(rest + _HUNDRED_SECONDS_US)  # ninth digit from the right: seconds keep their noughts
        found.append(f"{text}{digits[1:3]}.{digits[3:]}")
    return found


def wall_clock(value: str, zone: ZoneInfo) -> str:
    """A moment as the clock of a zone shows it, without the zone; what Python's calendar has not is taken as it is."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None:
        return value
    return moment.astimezone(zone).replace(tzinfo=None).isoformat(" ")
