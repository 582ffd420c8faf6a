"""Topics byte by byte, for tests that look for what must not be in them."""

import time

from confluent_kafka import Consumer, TopicPartition

from tidings_stack.kafka import arrived

DEADLINE_SECONDS = 120


def read_raw(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All records of a topic so far."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "secured", "enable.partition.eof": True})
    try:
        metadata = consumer.list_topics(timeout=60).topics.get(topic)
        waiting = set(metadata.partitions) if metadata is not None else set()
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        found: list[tuple[bytes | None, bytes | None]] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while waiting and time.monotonic() < deadline:
            for message in arrived(consumer, 0.5):
                if message.error() is None:
                    found.append((message.key(), message.value()))  # type: ignore[arg-type]
                else:
                    waiting.discard(message.partition())
        return found
    finally:
        consumer.close()
