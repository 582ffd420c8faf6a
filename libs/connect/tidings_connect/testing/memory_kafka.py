"""Kafka in memory, for `memory_worker`: topics, offsets, transactions. Nothing is on its way to anywhere."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidings_connect.data.records import Record
from tidings_connect.errors import FencedError
from tidings_connect.kafka.topic_creation import TopicGroup
from tidings_connect.testing.memory_group import MemoryTopics

OFFSETS: Final = "offsets"
"""The topic of source offsets."""


class MemoryKafka:
    """Topics and offsets. Outlives tasks, as Kafka does."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Record]] = {}
        self.offsets: dict[bytes, bytes] = {}
        self.inputs = MemoryTopics()
        """What sinks read."""
        self.epochs: dict[str, int] = {}
        """Who has each transactional.id: only its last producer can commit."""
        self.lock = threading.Lock()

    def take_over(self, transactional_id: str) -> int:
        """Fence whoever has the id, and return the epoch of its new producer."""
        with self.lock:
            self.epochs[transactional_id] = self.epochs.get(transactional_id, 0) + 1
            return self.epochs[transactional_id]


class MemoryProducer:
    """Records are acknowledged when the task waits for it; what was not is lost in a crash."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka
        self._queued: list[tuple[str, Record]] = []

    def send(self, topic: str, records: Sequence[Record]) -> None:
        self._queued += [(topic, record) for record in records]

    def send_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,  # noqa: ARG002 - a topic has one here
        timestamp: int | None,  # noqa: ARG002 - nobody reads it
    ) -> None:
        self.send(topic, [(key, value, [(name, data or b"") for name, data in headers])])

    def poll(self) -> None:
        """Nothing is acknowledged by itself, so that a crash loses as much as it can."""

    def hurry(self, now: float) -> bool:  # noqa: ARG002 - what is on its way is not acknowledged
        return False

    def flush(self, seconds: float) -> bool:  # noqa: ARG002 - at once
        for topic, record in self._queued:
            self._kafka.topics.setdefault(topic, []).append(record)
        self._queued.clear()
        return True

    def outstanding(self) -> int:
        return len(self._queued)


class MemoryTransactions(MemoryProducer):
    """Records and offsets are seen at the commit, all of them or none; a producer that was fenced commits nothing.

    Args:
        transactional_id: of the task.
    """

    timeout_seconds = 60.0

    def __init__(self, kafka: MemoryKafka, transactional_id: str) -> None:
        super().__init__(kafka)
        self._id = transactional_id
        self._epoch = 0
        self.commits = 0

    @property
    def dirty(self) -> bool:
        return bool(self._queued)

    def open(self) -> None:
        self._epoch = self._kafka.take_over(self._id)

    def open_seconds(self, now: float) -> float:  # noqa: ARG002 - none takes long
        return 0.0

    def flush(self, seconds: float) -> bool:  # noqa: ARG002 - acknowledged, and not seen yet
        return True

    def commit(self) -> None:
        with self._kafka.lock:
            if self._kafka.epochs[self._id] != self._epoch:
                raise FencedError(f"another producer has taken over transactional.id={self._id}")
            for topic, (key, value, headers) in self._queued:
                if topic != OFFSETS:
                    self._kafka.topics.setdefault(topic, []).append((key, value, headers))
                elif key is not None and value is not None:
                    self._kafka.offsets[key] = value
                elif key is not None:
                    self._kafka.offsets.pop(key, None)
        self._queued.clear()
        self.commits += 1

    def close(self) -> None:
        self._queued.clear()


class MemoryOffsets:
    """An offset is stored at the next poll; until then a crash loses it."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka
        self._queued: list[tuple[bytes, bytes | None, Callable[[], None]]] = []

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:  # noqa: ARG002
        self._queued.append((key, value, on_stored))

    def poll(self) -> None:
        queued, self._queued = self._queued, []
        for key, value, on_stored in queued:
            if value is None:
                self._kafka.offsets.pop(key, None)
            else:
                self._kafka.offsets[key] = value
            on_stored()

    def flush(self, seconds: float) -> None:  # noqa: ARG002 - at once
        self.poll()


class MemoryTopicMaker:
    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka

    def topics(self) -> set[str]:
        return set(self._kafka.topics)

    def create_topics(self, topics: Mapping[str, TopicGroup]) -> set[str]:
        for topic in topics:
            self._kafka.topics.setdefault(topic, [])
        return set(topics)

    def ensure_topic(
        self,
        name: str,
        *,
        partitions: int,  # noqa: ARG002 - a topic has one here
        replication_factor: int,  # noqa: ARG002
        config: Mapping[str, str],  # noqa: ARG002
    ) -> None:
        self._kafka.topics.setdefault(name, [])
