"""Converts the newest version of an event to every live one, by the domain's down-conversions, which are checked at load.

A conversion is tried on sample events made from the contract before it meets a real one: all optional values present,
and all absent. It must return the older class, the same both times, and what it returns must fit the older contract.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec

from tidings_domain.avro.encoders import inlined
from tidings_domain.errors import EventError
from tidings_domain.language.events import BusinessEvent, DownConversion, contract_of, encoder_of, topic_of
from tidings_domain.language.sites import Site, mistake
from tidings_domain.loading.purity import impure_names


class EventPlan(msgspec.Struct, frozen=True):
    """All live versions of one event.

    Attributes:
        versions: newest first; rules yield the first.
        steps: ``steps[i]`` makes ``versions[i + 1]`` of ``versions[i]``.
    """

    versions: tuple[type[BusinessEvent], ...]
    steps: tuple[DownConversion[Any, Any], ...]

    def all_versions(self, event: BusinessEvent) -> list[BusinessEvent]:
        """The event in every live version, newest first."""
        made = [event]
        for step in self.steps:
            made.append(step.function(made[-1]))
        return made


def event_plan(
    event: type[BusinessEvent],
    versions: list[type[BusinessEvent]],
    conversions: Iterable[DownConversion[Any, Any]],
    site: Site,
) -> EventPlan:
    """The plan for an event that a rule at `site` emits.

    Args:
        event: the class that the rule emits.
        versions: every generated version of it, newest first.
        conversions: all of the domain's.
        site: where the rule is.

    Raises:
        DomainError: the rule does not emit the newest version, or a conversion is missing, doubled or wrong.
    """
    if versions[0] is not event:
        raise mistake(
            site,
            f"the rule emits {event.__name__}, but {versions[0].__name__} is newer",
            hint=f"yield {versions[0].__name__}; the older one is made of it by a down-conversion",
        )
    steps = []
    for newer, older in pairwise(versions):
        found = [one for one in conversions if one.newer is newer and one.older is older]
        if not found:
            raise mistake(
                site,
                f"{topic_of(older)} is live, but nothing makes it of {newer.__name__}",
                hint=f"write a function with @down_conversion({newer.__name__}, to={older.__name__}); "
                "it is imported from tidings_domain",
            )
        if len(found) > 1:
            raise mistake(
                found[1].site, f"{newer.__name__} to {older.__name__} is already converted at {found[0].site}"
            )
        _try_out(found[0])
        steps.append(found[0])
    for version in versions:
        encoder_of(version)
    return EventPlan(tuple(versions), tuple(steps))


def _try_out(conversion: DownConversion[Any, Any]) -> None:
    name = f"down-conversion {conversion.newer.__name__} to {conversion.older.__name__}"
    for word in impure_names(conversion.function):
        raise mistake(conversion.site, f"{name} uses {word}: it may know only the event it is given")
    for full in (True, False):
        sample = sample_event(conversion.newer, full=full)
        kind = "with every optional value" if full else "without any optional value"
        try:
            first, second = conversion.function(sample), conversion.function(sample)
        except Exception as error:
            raise mistake(
                conversion.site,
                f"{name} raises {type(error).__name__} on a sample {kind}",
                hint="a conversion must work for every event that the contract allows",
            ) from error
        if type(first) is not conversion.older:
            raise mistake(conversion.site, f"{name} returns {type(first).__name__}")
        if first != second:
            raise mistake(conversion.site, f"{name} gives two results for one event: it must be pure")
        try:
            older: type[BusinessEvent] = conversion.older
            encoder_of(older)(first)
        except EventError as error:
            raise mistake(
                conversion.site, f"{name} makes an event that does not fit its contract: {error}"
            ) from error


def sample_event(event: type[BusinessEvent], *, full: bool) -> BusinessEvent:
    """An event that fits the contract, with every optional value present (`full`) or absent."""
    sample: BusinessEvent = _sample(inlined(contract_of(event)), event, full)
    return sample


_LOGICAL_SAMPLES: dict[str, Any] = {
    "date": date(2024, 2, 29),
    "time-micros": time(12, 30, 0, 1),
    "timestamp-micros": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    "timestamp-millis": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    "local-timestamp-micros": datetime(2024, 2, 29, 12, 30),  # noqa: DTZ001 - this type has no zone
    "uuid": UUID("6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"),
}
_SAMPLES: dict[str, Any] = {
    "boolean": True, "int": 1, "long": 1, "float": 1.0, "double": 1.0, "string": "text", "bytes": b"bytes"
}  # fmt: skip


def _sample(schema: Any, cls: Any, full: bool) -> Any:
    if isinstance(schema, list):
        other = next(branch for branch in schema if branch != "null")
        return _sample(other, _argument(cls, 0), full) if full else None
    if isinstance(schema, str):
        return _SAMPLES[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return Decimal(1).scaleb(-int(schema.get("scale", 0)))
    if logical is not None:
        return _LOGICAL_SAMPLES[logical]
    if kind in _COMPLEX_SAMPLES:
        return _COMPLEX_SAMPLES[kind](schema, cls, full)
    return _sample(kind, cls, full)


def _sample_record(schema: Any, cls: Any, full: bool) -> Any:
    types = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    fields = [(types[field["name"]], field["type"]) for field in schema["fields"]]
    return cls(**{field.name: _sample(inner, field.type, full) for field, inner in fields})


_COMPLEX_SAMPLES: dict[str, Callable[[Any, Any, bool], Any]] = {
    "record": _sample_record,
    "array": lambda schema, cls, full: (_sample(schema["items"], _argument(cls, 0), full),) if full else (),
    "map": lambda schema, cls, full: (
        {"key": _sample(schema["values"], _argument(cls, 1), full)} if full else {}
    ),
    "enum": lambda schema, _cls, _full: schema["symbols"][0],
    "fixed": lambda schema, _cls, _full: bytes(schema["size"]),
}


def _argument(cls: Any, index: int) -> Any:
    arguments = [one for one in getattr(cls, "__args__", ()) if one is not type(None)]
    return arguments[index] if index < len(arguments) else None
