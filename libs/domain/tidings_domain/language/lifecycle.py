"""Reads from a contract when a version of an event is deprecated and when it ends.

A contract is an Avro record, which may carry attributes of its own::

    "deprecated": "2026-11-01", "sunset": "2027-05-01", "migration": "https://example.org/order-placed-v2"

`deprecated` is the day (UTC) from which teams should move on, `sunset` the day from which the version may be gone,
`migration` where it is written how. They become CloudEvents' deprecation extension (cloudevents/spec,
``extensions/deprecation.md``), metrics, and text in the AsyncAPI document. Once told, a sunset may only be moved back.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec


class Lifecycle(msgspec.Struct, frozen=True):
    """What a contract says of its own end; all None for a version that nothing is said of."""

    deprecated: date | None = None
    sunset: date | None = None
    migration: str | None = None


def lifecycle_of(schema: Mapping[str, Any]) -> Lifecycle:
    """The lifecycle that a contract's schema tells; the contract has passed `lifecycle_problems`."""
    return Lifecycle(_day(schema.get("deprecated")), _day(schema.get("sunset")), schema.get("migration"))


def lifecycle_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a contract's lifecycle, one sentence each."""
    days: dict[str, date] = {}
    for name in ("deprecated", "sunset"):
        try:
            day = _day(schema.get(name))
        except (TypeError, ValueError):
            yield f"'{name}' must be a day such as 2027-05-01"
        else:
            if day is not None:
                days[name] = day
    if "deprecated" not in schema:
        for name in ("sunset", "migration"):
            if name in schema:
                yield f"'{name}' is set, but not 'deprecated', the day from which readers should move on"
    elif len(days) == 2 and days["sunset"] < days["deprecated"]:
        yield "'sunset' is before 'deprecated'"
    migration = schema.get("migration")
    if migration is not None and not (isinstance(migration, str) and urlsplit(migration).scheme):
        yield "'migration' must be a URI"


def shortened(before: Lifecycle, after: Lifecycle) -> str | None:
    """Why `after` takes back what `before` promised, or None."""
    if before.sunset is not None and after.sunset is not None and after.sunset < before.sunset:
        return (
            f"its sunset was {before.sunset} and is {after.sunset}: it may be moved back, never forward, because"
            " readers plan by it"
        )
    return None


def midnight(day: date) -> datetime:
    """The first moment of a day, UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)
