"""``java.time``'s ISO 8601 forms of dates and times, in UTC.

Years above 9999 have a plus, years before 1 a minus (year 0 is 1 BC); a fraction has as many decimals as it needs, or a
fixed number.
"""

from typing import Final

from tidings_capture.cdc.types.civil import civil_from_days

DAY_US: Final = 86_400_000_000


def iso_date(days: int) -> str:
    """From days since 1970-01-01."""
    year, month, day = civil_from_days(days)
    year_text = f"+{year}" if year > 9999 else f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f"{year_text}-{month:02d}-{day:02d}"


def iso_clock(micros: int, width: int = 0) -> str:
    """From microseconds since midnight, with exactly `width` decimals (0: as many as needed)."""
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    digits = f"{fraction:06d}"[:width] if width else f"{fraction:06d}".rstrip("0")
    return f"{text}.{digits}" if digits else text


def iso_timestamp(micros: int, width: int) -> str:
    """From microseconds since the epoch."""
    days, clock = divmod(micros, DAY_US)
    return f"{iso_date(days)}T{iso_clock(clock, width)}Z"
