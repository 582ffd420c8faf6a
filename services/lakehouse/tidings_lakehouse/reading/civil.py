"""Moments that Python's own type cannot hold, as Spark writes them."""

from __future__ import annotations

_DAY_SECONDS = 86_400
_FOUR_DIGITS = 9999


def moment_text(micros: int) -> str:
    """Microseconds since 1970, in UTC, as Spark writes them: ``2024-01-01 00:00:00.5``, ``+294247-01-10 04:00:25.2``."""
    seconds, fraction = divmod(micros, 1_000_000)
    days, second = divmod(seconds, _DAY_SECONDS)
    year, month, day = _civil(days)
    shown = f"{year:04d}" if 0 <= year <= _FOUR_DIGITS else f"{year:+05d}"
    text = f"{shown}-{month:02d}-{day:02d} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return text if not fraction else f"{text}.{fraction:06d}".rstrip("0")


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970 in the proleptic Gregorian calendar (Howard Hinnant, "chrono-compatible
    low-level date algorithms")."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year_of_era + era * 400 + (month <= 2), month, day
