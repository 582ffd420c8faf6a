"""What the business topics hold, compared with what the history says."""

import json
from collections import defaultdict
from typing import Any

from confluent_kafka import KafkaException

from bikes.events import OrderPaidV1, OrderPlacedV1, OrderPlacedV2, PaymentTakenBackV1
from bikes.history import Transaction, expected_events
from bikes.processes import StageProcess, wait_for
from bikes.topics import Published, read_events

EVENTS = (OrderPlacedV1, OrderPlacedV2, OrderPaidV1, PaymentTakenBackV1)


def contracts(name: str) -> dict[str, Any]:
    """Topic to Avro schema, for a domain of that name."""
    return {f"{name}.{e.__event__}.v{e.__major__}": json.loads(e.__contract__) for e in EVENTS}


def expected(name: str, transactions: list[Transaction]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Topic to aggregate id to payloads in commit order."""
    events = expected_events(transactions)
    return {topic.replace("bikes.", f"{name}.", 1): by_id for topic, by_id in events.items()}


def count(events: dict[str, dict[str, list[dict[str, Any]]]]) -> int:
    return sum(len(payloads) for by_id in events.values() for payloads in by_id.values())


def published(bootstrap: str, name: str) -> list[Published]:
    return read_events(bootstrap, contracts(name))


def in_order(events: list[Published]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """As `expected`: per topic and key in the order of the partition."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        found[event.topic][event.key].append(event.payload)
    return {topic: dict(by_id) for topic, by_id in found.items()}


def shadow(bootstrap: str, name: str, generation: str) -> list[Published]:
    """What a generation has said that does not publish, by business topic; nothing while a topic is being created."""
    own = f"tidings.{name}.generation.{generation}.events."
    found = {f"{own}{topic}": schema for topic, schema in contracts(name).items()}
    try:
        events = read_events(bootstrap, found)
    except (KafkaException, AssertionError):
        return []
    return [Published(e.topic.removeprefix(own), e.key, e.event_id, e.payload, e.headers) for e in events]


def check_shadow(
    bootstrap: str,
    name: str,
    generation: str,
    transactions: list[Transaction],
    alive: tuple[StageProcess, ...],
) -> None:
    """A generation says what follows from these transactions, in the order of each aggregate, and nothing twice."""
    want = expected(name, transactions)
    wait_for(
        lambda: len(shadow(bootstrap, name, generation)) >= count(want),
        "events",
        seconds=150,
        every=0.5,
        alive=alive,
    )
    events = shadow(bootstrap, name, generation)
    assert in_order(events) == want
    assert len({event.event_id for event in events}) == len(events)
