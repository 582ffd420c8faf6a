"""Reads all topics again for the check at the end of the demo; committed records only, as a subscriber does."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_shop.errors import DemoError
from tidings_stack.pipeline.tap import headers_of, quiet_settings, reading_settings

_SECONDS = 15.0
_POLL_SECONDS = 0.2
_LATENCIES = 50

Headers = Mapping[str, str]


@dataclass(slots=True)
class TopicCount:
    """What a topic holds for a reader of committed records."""

    records: int = 0
    ids: set[str] = field(default_factory=set)
    """The CloudEvents ids; as many as records when each event is there once."""


def topic_of(name: str, version: int) -> str:
    """``shop.order-placed.v1`` for version 1 of OrderPlaced."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
    return f"shop.{words}.v{version}"


def read_topics(bootstrap: str, topics: Iterable[str], *, seconds: float = 60.0) -> dict[str, TopicCount]:
    """Read topics from their beginning to their end, as a subscriber that reads committed records.

    Raises:
        DemoError: when the end is not reached within `seconds`.
    """
    counts = {topic: TopicCount() for topic in topics}
    present = AdminClient(quiet_settings(bootstrap)).list_topics(timeout=_SECONDS).topics
    partitions = [
        TopicPartition(topic, number, OFFSET_BEGINNING)
        for topic in counts
        if topic in present
        for number in present[topic].partitions
    ]
    if not partitions:
        return counts
    consumer = Consumer(
        reading_settings(bootstrap) | {"group.id": "tidings-demo-check", "enable.partition.eof": True}
    )
    open_partitions = {(part.topic, part.partition) for part in partitions}
    deadline = time.monotonic() + seconds
    try:
        consumer.assign(partitions)
        while open_partitions:
            if time.monotonic() > deadline:
                raise DemoError(
                    f"the end of {len(open_partitions)} partitions was not reached in {seconds:.0f} s"
                )
            for message in consumer.consume(1000, _POLL_SECONDS):
                _count(message, counts, open_partitions)
    finally:
        consumer.close()
    return counts


def _count(message: Message, counts: dict[str, TopicCount], open_partitions: set[tuple[str, int]]) -> None:
    error, topic, partition = message.error(), message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public constant
            raise DemoError(f"{topic} cannot be read: {error.str()}")
        open_partitions.discard((topic, partition))
        return
    count = counts[topic]
    count.records += 1
    count.ids.add(headers_of(message).get("ce_id", f"{partition}:{message.offset()}"))
