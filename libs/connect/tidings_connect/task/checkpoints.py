"""Checkpoints: from "sent" to "stored" to "confirmed". What a position is, only the task knows.

The order is what keeps a crash harmless: everything sent is acknowledged by Kafka, then the offset is written and
acknowledged, and only then may the source be told that it is stored. A crash between any two of them repeats records; none of
them loses one. So the source is never told more than what is stored.
`exactly_once` makes the first two steps one.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from tidings_connect.data.records import Producer
from tidings_envelope.fault_points import reached

P = TypeVar("P")

_SLICE_SECONDS: Final = 0.05


class OffsetWriter(Protocol):
    """Writes offsets, to a topic or to a file."""

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:
        """Queue one."""
        ...

    def poll(self) -> None:
        """Serve acknowledgements."""
        ...

    def flush(self, seconds: float) -> object:
        """Wait for acknowledgements."""
        ...


class Checkpoints(ABC, Generic[P]):
    """The stored position of one task.

    Args:
        topic: the offsets topic.
        encode: a position as it is stored: values by key, one for each partition of the source that the task reads.
        interval_seconds: how often a position is stored while records flow.
    """

    def __init__(
        self, topic: str, encode: Callable[[P], Mapping[bytes, bytes]], *, interval_seconds: float
    ) -> None:
        self._topic = topic
        self._encode = encode
        self._entries: Mapping[bytes, bytes] = {}
        self._interval = interval_seconds
        self._last = time.monotonic()
        self.transactions = 0
        """Kafka transactions committed; none where delivery is at least once."""
        self.stored: P | None = None
        """The last offset that Kafka has acknowledged."""
        self.sign: Callable[[P], P] = lambda position: position
        """What every position gets before it is stored, such as what it is a position of."""

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether something was written that is not stored yet."""

    @abstractmethod
    def open(self) -> None:
        """Called once, before the stored offset is read.

        Raises:
            BrokerError: Kafka refused, or did not answer.
        """

    def start_from(self, offset: P) -> None:
        """An offset that was found in the topic."""
        self.stored = offset
        self._entries = self._encode(offset)

    def _changed(self, entries: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Those entries of a position that are not stored as they are."""
        return [entry for entry in entries.items() if self._entries.get(entry[0]) != entry[1]]

    @abstractmethod
    def due(self, now: float, *, drained: bool = False, exact: bool = True) -> bool:
        """Whether it is time to take a position.

        Args:
            drained: everything that had arrived has been sent.
            exact: a restart from the position would repeat nothing that was sent, not even a marker.
        """

    @abstractmethod
    def relieve(self, now: float) -> None:
        """Called between the batches of a table that a snapshot reads, where there is no position to take."""

    @abstractmethod
    def take(self, position: P) -> None:
        """Wait until everything sent is acknowledged, then write the position.

        Raises:
            BrokerError: Kafka refused a record.
        """

    @abstractmethod
    def take_and_wait(self, position: P) -> None:
        """Write the position and wait until it is stored."""

    @abstractmethod
    def poll(self) -> None:
        """Serve the acknowledgements that have arrived.

        Raises:
            BrokerError: Kafka refused a record or an offset.
        """

    @abstractmethod
    def close(self) -> None:
        """What is not stored by now is not stored any more."""


class AcknowledgedCheckpoints(Checkpoints[P]):
    """At least once: offsets through a producer of their own, each after what it stands for was acknowledged.

    Args:
        records: the producer whose records a position stands for.
        offsets: writes to the offsets topic.
        on_wait: called while waiting for Kafka; keeps the source's connection alive, may raise to give up.
    """

    def __init__(
        self,
        records: Producer,
        offsets: OffsetWriter,
        topic: str,
        encode: Callable[[P], Mapping[bytes, bytes]],
        *,
        interval_seconds: float,
        on_wait: Callable[[], None],
    ) -> None:
        super().__init__(topic, encode, interval_seconds=interval_seconds)
        self._records = records
        self._offsets = offsets
        self._on_wait = on_wait
        self._written: P | None = None
        self._unacknowledged = 0

    @property
    def pending(self) -> bool:
        return self._written != self.stored

    def open(self) -> None:
        """Nothing to do."""

    def start_from(self, offset: P) -> None:
        super().start_from(offset)
        self._written = offset

    def due(self, now: float, *, drained: bool = False, exact: bool = True) -> bool:  # noqa: ARG002 - only time counts
        return now - self._last >= self._interval

    def relieve(self, now: float) -> None:
        """Nothing to do: records need no position."""

    def take(self, position: P) -> None:
        """Wait until everything sent is acknowledged, then write the position; `poll` sees it stored."""
        self._last = time.monotonic()
        position = self.sign(position)
        if position == self._written:
            return
        while not self._records.flush(_SLICE_SECONDS):
            self._on_wait()
        reached("records.acknowledged")
        self._written = position
        entries = self._encode(position)
        changed = self._changed(entries)
        self._entries = entries
        self._unacknowledged += len(changed)
        for key, value in changed:
            self._offsets.put(self._topic, key, value, lambda: self._acknowledged(position))
        if not self._unacknowledged:
            self.stored = position
        reached("offset.written")

    def take_and_wait(self, position: P) -> None:
        self.take(position)
        # Records may have no position, as those of a whole table.
        while not self._records.flush(_SLICE_SECONDS):
            self._on_wait()
        while self.stored != self._written:
            self._offsets.flush(_SLICE_SECONDS)
            self._on_wait()

    def poll(self) -> None:
        self._records.poll()
        self._offsets.poll()

    def close(self) -> None:
        """Nothing to do."""

    def _acknowledged(self, position: P) -> None:
        """A position is stored when all that it has written is, and all before it."""
        self._unacknowledged -= 1
        if not self._unacknowledged:
            self.stored = position
            reached("offset.stored")
