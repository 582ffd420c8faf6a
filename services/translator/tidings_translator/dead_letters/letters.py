"""Writes and reads dead letters: records that could not be used, as they were, with the reason in their headers.

The value (and key) are the original bytes, so that a letter can be replayed. Headers, all UTF-8 text but the last:
``tidings_stage`` (decode, transaction, rows, rule, publish), ``tidings_reason``, ``tidings_error`` (the error's class),
``tidings_topic``, ``tidings_partition``, ``tidings_offset`` of the original, and where known ``tidings_rule``,
``tidings_event_id`` (of the one event that could not be published), ``tidings_subject`` (where there is no record), ``tidings_aggregate``, ``tidings_id``,
``tidings_txid``, ``tidings_commit_lsn``, ``tidings_policy`` (skip or hold), ``tidings_shadow`` (the generation did not publish), and ``tidings_state``: the aggregate's state
before the record, which a replay needs.

A letter is known by its `Origin`. A later letter of the same origin replaces it (a replay has failed again), and a
record without a value and with ``tidings_resolution`` (replayed, discarded) closes it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_translator.base.records import Headers, Output, Partition

_MOST_TEXT_BYTES = 4096
"""Of a header, and of a key beside a value that is left out: an id is whatever somebody has in a key column."""


class Origin(NamedTuple):
    """What a letter is about: a record, and of what followed from it the rule and the event.

    `subject` tells letters apart that are about no record: an aggregate and a commit position.
    """

    topic: str
    partition: int
    offset: int
    rule: str | None = None
    event_id: str | None = None
    subject: str | None = None


class DeadLetter(NamedTuple):
    """A letter to be produced, and what `report` counts and logs of it: no key, no value, no state."""

    output: Output
    stage: str
    error: str
    reason: str
    place: str
    """Topic, partition and offset of the original."""
    known: dict[str, str | int | None]


class Closed(NamedTuple):
    """What became of a letter, to be counted and logged by `report`."""

    outcome: str
    place: str
    rule: str | None


def dead_letter(
    topic: str,
    *,
    stage: str,
    error: str,
    reason: str,
    partition: Partition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    state: bytes | None = None,
    subject: str | None = None,
    **known: str | int | None,
) -> DeadLetter:
    """The record for the dead-letter topic; whoever hands it to Kafka reports it (`report`)."""
    headers: Headers = [
        ("tidings_stage", stage.encode()),
        ("tidings_reason", _text(reason)),
        ("tidings_error", error.encode()),
        *_origin_headers(Origin(partition.topic, partition.partition, offset, subject=subject)),
    ]
    headers += [(f"tidings_{name}", _text(str(what))) for name, what in known.items() if what is not None]
    key_bytes = len(key or b"")
    size = key_bytes + len(value or b"") + len(state or b"")
    if size > MAX_VALUE_BYTES:
        # A letter that does not fit into a record would stop everything; the original is at its position.
        headers.append(("tidings_left_out_bytes", str(size).encode()))
        value = state = None
        if key_bytes > _MOST_TEXT_BYTES:
            key = None
    if state is not None:
        headers.append(("tidings_state", state))
    return DeadLetter(
        Output(topic, key, value, headers), stage, error, reason, f"{partition}@{offset}", known
    )


def _text(text: str) -> bytes:
    """A header's value: cut off where it would be longer than a header should."""
    return text.encode(errors="replace")[:_MOST_TEXT_BYTES]


def resolution(topic: str, key: bytes | None, origin: Origin, outcome: str) -> Output:
    """The record that closes a letter."""
    headers: Headers = [("tidings_resolution", outcome.encode()), *_origin_headers(origin)]
    return Output(topic, key, None, headers)


def _origin_headers(origin: Origin) -> Headers:
    headers: Headers = [
        ("tidings_topic", origin.topic.encode()),
        ("tidings_partition", str(origin.partition).encode()),
        ("tidings_offset", str(origin.offset).encode()),
    ]
    if origin.rule is not None:
        headers.append(("tidings_rule", origin.rule.encode()))
    if origin.event_id is not None:
        headers.append(("tidings_event_id", origin.event_id.encode()))
    if origin.subject is not None:
        headers.append(("tidings_subject", _text(origin.subject)))
    return headers


class Letter(NamedTuple):
    """A record of the dead-letter topic, read back.

    Attributes:
        number: its offset, which is what people call it by.
        at_ms: when it was written, milliseconds since 1970.
        key: the original's.
        value: the original's; None where a reader was told to leave values out.
        headers: what is known of it, without ``tidings_`` and without the state.
        state: the aggregate's state before the record, where a replay needs it.
    """

    number: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]
    state: bytes | None

    @property
    def origin(self) -> Origin:
        """What it is about."""
        found = self.headers
        return Origin(
            found.get("topic", ""),
            int(found.get("partition", -1)),
            int(found.get("offset", -1)),
            found.get("rule"),
            found.get("event_id"),
            found.get("subject"),
        )

    @property
    def resolution(self) -> str | None:
        """How the letter of the same origin was closed; None for a letter."""
        return self.headers.get("resolution")

    @property
    def aggregate(self) -> str:
        """``Order/17``; empty where it is not known."""
        name = self.headers.get("aggregate")
        return f"{name}/{self.headers.get('id', '')}" if name else ""

    def known(self) -> dict[str, Any]:
        """What may be told of it to anybody: no key, no payload."""
        return {"number": self.number, "at_ms": self.at_ms, **self.headers}


def read_letter(
    number: int,
    at_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | str | None]],
    *,
    payload: bool = True,
) -> Letter:
    """A record of the topic as a `Letter`; `payload` False leaves out value and state."""
    texts: dict[str, str] = {}
    state: bytes | None = None
    for name, raw in headers:
        content = raw.encode() if isinstance(raw, str) else raw or b""
        if name == "tidings_state":
            state = content
        else:
            texts[name.removeprefix("tidings_")] = content.decode(errors="replace")
    if not payload:
        value = state = None
    return Letter(number, at_ms, key, value, texts, state)


def open_letters(records: Iterable[Letter]) -> list[Letter]:
    """The letters that nobody has dealt with, oldest first: the last of each origin, if it is not a resolution."""
    found: dict[Origin, Letter] = {}
    for record in records:
        found.pop(record.origin, None)
        if record.resolution is None:
            found[record.origin] = record
    return list(found.values())
