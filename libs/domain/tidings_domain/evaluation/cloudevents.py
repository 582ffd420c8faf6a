"""CloudEvents 1.0 in the Kafka protocol binding: in binary mode, where the attributes are headers and the value is the data
(Avro), or in structured mode, where the value is one JSON document of attributes and data.

Header values are UTF-8; the media type is in ``content-type`` (never ``ce_datacontenttype``). The time is the commit's,
so that the same change always gives the same bytes. Specification: cloudevents/spec 1.0.2, kafka-protocol-binding.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec

from tidings_domain.language.events import BusinessEvent, contract_of, topic_of
from tidings_domain.language.lifecycle import lifecycle_of, midnight

Headers = list[tuple[str, bytes]]

NAMESPACE = uuid5(NAMESPACE_URL, "urn:tidings:business-event")
"""The UUIDv5 namespace of all event ids."""
_NAMESPACE_BYTES = NAMESPACE.bytes
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The hex digit that holds RFC 9562's variant: its two upper bits are 10."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def event_id(topic: str, aggregate_id: str, place: str, rule: str, ordinal: int) -> str:
    """The id of an event: UUIDv5 of event name and major (the topic), aggregate id, commit position, rule and ordinal.

    The aggregate id, which may hold any character, comes last behind fields that hold no slash, so that different events
    never share a name.

    Args:
        topic: the event's.
        aggregate_id: the aggregate's.
        place: `place_of` the change set.
        rule: `rule_name` of the rule.
        ordinal: of the event among those that the rule has yielded of its class for this change set.
    """
    return _uuid(f"{topic}/{place}/{rule}/{ordinal}/{aggregate_id}")


def event_id_by_order(topic: str, aggregate_id: str, commit_lsn: int, ordinal: int) -> str:
    """The id that an event had before rules were part of it: by the rule's place among those that emit the event.

    Args:
        topic: the event's.
        aggregate_id: the aggregate's.
        commit_lsn: of the change set.
        ordinal: as in the CloudEvents sequence: a million for each rule before, and one for each event before.
    """
    return _uuid(f"{topic}/{commit_lsn:X}/{ordinal}/{aggregate_id}")


def former_id(topic: str, aggregate_id: str, sequence: str) -> str:
    """`event_id_by_order` of an event that has this CloudEvents sequence.

    Raises:
        ValueError: it is not a sequence of ours.
    """
    lsn, _, ordinal = sequence.partition("-")
    return event_id_by_order(topic, aggregate_id, int(lsn, 16), int(ordinal))


def _uuid(name: str) -> str:
    # uuid.uuid5 and str(UUID) take three times as long as this; the tests compare the two.
    digest = hashlib.sha1(_NAMESPACE_BYTES + name.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANT[digest[16]]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def rule_name(rule_id: str) -> str:
    """A rule's id as a part of an event's id: without slashes."""
    return quote(rule_id, safe="")


def place_of(commit_lsn: int, rows: Iterable[str] = ()) -> str:
    """A change set's commit position as a part of its events' ids.

    Args:
        commit_lsn: of the change set.
        rows: what tells a snapshot's change set from the others of its aggregate: see `AggregatePlan.snapshot_rows`.
    """
    names = "\0".join(rows)
    if not names:
        return f"{commit_lsn:X}"
    return f"{commit_lsn:X}.{hashlib.sha1(names.encode(), usedforsecurity=False).hexdigest()[:16]}"


def commit_time(ts_us: int) -> datetime:
    """The datetime (UTC) of a commit time in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=ts_us)


def time_text(at: datetime) -> str:
    """A UTC datetime in RFC 3339 with microseconds and Z."""
    return at.isoformat(timespec="microseconds")[:26] + "Z"


def data_schema(event: type[BusinessEvent]) -> str:
    """The URI that names the contract; it changes with the major version, as CloudEvents asks."""
    return f"urn:tidings:schema:{event.__domain__}:{event.__event__}:v{event.__major__}"


class HeaderTemplate:
    """The headers of one event version; only id, time, subject and sequence differ from event to event."""

    def __init__(self, event: type[BusinessEvent], source: str) -> None:
        self._fixed: Headers = [
            ("ce_specversion", b"1.0"),
            ("ce_type", topic_of(event).encode()),
            ("ce_source", source.encode()),
            ("ce_dataschema", data_schema(event).encode()),
            ("content-type", b"application/avro"),
            *_deprecation(event),
        ]

    def headers(self, event_id: str, time: bytes, subject: bytes, sequence: bytes) -> Headers:
        """All headers of one event.

        Args:
            event_id: a UUID's text.
            time: `time_text` of the commit.
            subject: the aggregate's id.
            sequence: the commit position as text that sorts (CloudEvents' sequence extension).
        """
        return [
            *self._fixed,
            ("ce_id", event_id.encode()),
            ("ce_time", time),
            ("ce_subject", subject),
            ("ce_sequence", sequence),
        ]


def _deprecation(event: type[BusinessEvent]) -> Headers:
    """The deprecation extension's attributes, for a version whose contract says that it is deprecated."""
    lifecycle = lifecycle_of(contract_of(event))
    if lifecycle.deprecated is None:
        return []
    headers = [("ce_deprecated", b"true"), ("ce_deprecationfrom", _day_text(lifecycle.deprecated))]
    if lifecycle.sunset is not None:
        headers.append(("ce_deprecationsunset", _day_text(lifecycle.sunset)))
    if lifecycle.migration is not None:
        headers.append(("ce_deprecationmigration", lifecycle.migration.encode()))
    return headers


def _day_text(day: date) -> bytes:
    return midnight(day).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


STRUCTURED_HEADERS: Headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
"""The headers of an event in structured mode."""


def structured(event: BusinessEvent, headers: Headers) -> bytes:
    """An event in the structured mode's JSON format: for consumers that read no Avro.

    Decimals are strings, times RFC 3339, bytes base64. Format: cloudevents/spec 1.0.2, json-format.

    Args:
        headers: the same event's headers in binary mode.
    """
    attributes: dict[str, Any] = {
        name.removeprefix("ce_"): value.decode() for name, value in headers if name.startswith("ce_")
    }
    if "deprecated" in attributes:
        attributes["deprecated"] = True
    return msgspec.json.encode({**attributes, "datacontenttype": "application/json", "data": event})


def source_of(domain: str, aggregate: str) -> str:
    """The URI reference that names where events of an aggregate come from: ``/tidings/shop/order``."""
    return f"/tidings/{domain}/{aggregate.lower()}"
