"""Reads keys from a topic, from its beginning to its end: what a topic tells of every key."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidings_connect.kafka.clients import Consumer
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, describe_failure
from tidings_connect.kafka.topics import NOT_THERE_YET, arrived, ends_of, partitions_of

_REQUEST_SECONDS: Final = 15.0
_BATCH: Final = 1000

Pair = tuple[bytes, bytes | None]
"""A record's key and value."""


class TopicKeys:
    """One reading of a topic, up to where it ended when the reading began; only what is committed.

    Args:
        settings: librdkafka's.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self.trimmed: list[int] = []
        """Partitions whose first records have been removed; known when the first batch was read."""

    def batches(self) -> Iterator[list[Pair]]:
        """Records with a key, each partition's in order. An empty batch: nothing has arrived for a while.

        Raises:
            BrokerError: the topic cannot be read.
        """
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "tidings-capture-keys",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "queued.max.messages.kbytes": 8192,
            },
            logger=LIBRDKAFKA_LOG,
        )
        try:
            yield from self._read(consumer)
        except KafkaException as error:
            raise describe_failure(
                f"cannot read {self._topic}", error, f"Read on topic {self._topic}"
            ) from error
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> Iterator[list[Pair]]:
        # Behind what is committed: what follows may belong to a transaction that this very task has yet to commit.
        partitions = partitions_of(consumer, self._topic)
        ends = ends_of(self._settings, self._topic, partitions, IsolationLevel.READ_COMMITTED)
        places = [TopicPartition(self._topic, number) for number in sorted(ends)]
        for place in places:
            marks = consumer.get_watermark_offsets(place, timeout=_REQUEST_SECONDS)
            if marks[0] > 0:
                self.trimmed.append(place.partition)
            place.offset = OFFSET_BEGINNING
        consumer.assign(places)
        waiting = {number for number, end in ends.items() if end}
        while waiting:
            pairs: list[Pair] = []
            for message in arrived(consumer, _BATCH, 0.5):
                if _at_end(message, ends):
                    waiting.discard(message.partition() or 0)
                key, value = message.key(), message.value()
                if message.error() is None and isinstance(key, bytes):
                    pairs.append((key, value if isinstance(value, bytes) else None))
            yield pairs


def _at_end(message: Message, ends: Mapping[int, int]) -> bool:
    """Whether the partition has been read up to its end; the last offsets may be markers, of which nothing comes."""
    error, end = message.error(), ends[message.partition() or 0]
    if error is None:
        return (message.offset() or 0) + 1 >= end
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
        return (message.offset() or 0) >= end
    if error.code() not in NOT_THERE_YET:
        raise KafkaException(error)
    return False
