"""``time.precision.mode=structured``: dates, times and intervals as structs of their fields.

Names, versions and fields: ``io.debezium.time.Structured*`` (Debezium 3.7). Infinity is a ``specialValue`` with all other
fields null; ``precision`` is the number of decimals that the column keeps.
"""

from decimal import Decimal
from typing import Any, Final

from tidings_capture.cdc.types.civil import civil_from_days
from tidings_capture.cdc.types.conversion import NoRepresentationError
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_SPECIAL: Final = {b"infinity": "POSITIVE_INFINITY", b"-infinity": "NEGATIVE_INFINITY"}
_DAY_US: Final = 86_400_000_000
_TYPES: Final = {
    "seconds": ConnectType.INT64,
    "zoneId": ConnectType.STRING,
    "specialValue": ConnectType.STRING,
    **dict.fromkeys(("month", "day", "hour", "minute", "second"), ConnectType.INT8),
}
"""By field name; all others are 32-bit integers."""
_DATE: Final = ("year", "month", "day")
_CLOCK: Final = ("hour", "minute", "second", "nanos")


def _schema(name: str, *fields: str) -> ConnectSchema:
    return ConnectSchema(
        ConnectType.STRUCT,
        name=f"io.debezium.time.Structured{name}",
        version=1,
        fields=tuple(
            Field(field, ConnectSchema(_TYPES.get(field, ConnectType.INT32), optional=True))
            for field in fields
        ),
    )


DATE: Final = _schema("Date", *_DATE, "specialValue")
TIME: Final = _schema("Time", *_CLOCK, "precision")
ZONED_TIME: Final = _schema("ZonedTime", *_CLOCK, "offsetSeconds", "precision")
TIMESTAMP: Final = _schema("Timestamp", *_DATE, *_CLOCK, "specialValue", "precision")
ZONED_TIMESTAMP: Final = _schema(
    "ZonedTimestamp", *_DATE, *_CLOCK, "offsetSeconds", "zoneId", "specialValue", "precision"
)
DURATION: Final = _schema(
    "Duration", "years", "months", "days", "hours", "minutes", "seconds", "nanos", "precision"
)


def special(cell: bytes, precision: int | None = None) -> dict[str, Any] | None:
    """The struct of an infinity; None for any other cell."""
    name = _SPECIAL.get(cell)
    if name is None:
        return None
    return {"specialValue": name} if precision is None else {"specialValue": name, "precision": precision}


def date_fields(days: int) -> dict[str, Any]:
    """From days since 1970-01-01."""
    return dict(zip(_DATE, civil_from_days(days), strict=True))


def clock_fields(micros: int) -> dict[str, Any]:
    """From microseconds since midnight; a whole day is the hour 24."""
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return {"hour": minutes // 60, "minute": minutes % 60, "second": second, "nanos": fraction * 1_000}


def time(micros: int, precision: int) -> dict[str, Any]:
    """From microseconds since midnight.

    Raises:
        NoRepresentationError: 24:00:00, which Java's LocalTime does not know.
    """
    if micros == _DAY_US:
        raise NoRepresentationError("24:00:00 has no place in a StructuredTime")
    return {**clock_fields(micros), "precision": precision}


def zoned_time(micros: int, offset_seconds: int, precision: int) -> dict[str, Any]:
    """From microseconds since the zone's midnight."""
    return {**clock_fields(micros), "offsetSeconds": offset_seconds, "precision": precision}


def timestamp(micros: int, precision: int) -> dict[str, Any]:
    """From microseconds since the epoch."""
    days, clock = divmod(micros, _DAY_US)
    return {**date_fields(days), **clock_fields(clock), "precision": precision}


def zoned_timestamp(micros: int, precision: int, zone: str | None = "Z") -> dict[str, Any]:
    """From microseconds since the epoch; always in UTC."""
    return {**timestamp(micros, precision), "offsetSeconds": 0, "zoneId": zone}


def duration(
    years: int, months: int, days: int, hours: int, minutes: int, seconds: Decimal, precision: int
) -> dict[str, Any]:
    """An interval's fields; the last three have the sign of its clock part."""
    whole = int(seconds)
    return {
        "years": years,
        "months": months,
        "days": days,
        "hours": hours,
        "minutes": minutes,
        "seconds": whole,
        "nanos": int((seconds - whole) * 1_000_000_000),
        "precision": precision,
    }
