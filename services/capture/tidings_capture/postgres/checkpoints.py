"""Checkpoints: from "sent" to "stored" to "confirmed".

The order is what keeps a crash harmless: everything sent is acknowledged by Kafka, then the offset is written and
acknowledged, and only then may the slot be confirmed up to it. A crash between any two of them repeats records; none of
them loses one. So the slot is never ahead of the stored offset, and a slot that is has been moved by somebody else.
`checkpoint_transactions` makes the first two steps one.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidings_capture.cdc.fault_points import reached
from tidings_capture.postgres.history import History
from tidings_capture.postgres.offset import SourceOffset, encode_offset
from tidings_connect.kafka.producer import AcknowledgedProducer, RecordProducer
from tidings_connect.storage.offset_file import OffsetFile

_SLICE_SECONDS: Final = 0.05


class Checkpoints(ABC):
    """The stored position of one connector.

    Args:
        topic: the offsets topic.
        key: of the connector's offset in it.
        interval_seconds: how often a position is stored while records flow.
    """

    def __init__(self, topic: str, key: bytes, *, interval_seconds: float) -> None:
        self._topic = topic
        self._key = key
        self._interval = interval_seconds
        self._last = time.monotonic()
        self.transactions = 0
        """Kafka transactions committed; none where delivery is at least once."""
        self.stored: SourceOffset | None = None
        """The last offset that Kafka has acknowledged."""
        self.history: History | None = None
        """What every offset says it is a position of; None: what it says itself."""

    def signed(self, position: SourceOffset) -> SourceOffset:
        """A position that says what it is a position of."""
        return position if self.history is None else replace(position, history=self.history)

    @property
    def confirmed_lsn(self) -> int:
        """Up to where the slot may be confirmed; 0 before the first checkpoint."""
        return 0 if self.stored is None else self.stored.done_lsn

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

    def start_from(self, offset: SourceOffset) -> None:
        """An offset that was found in the topic."""
        self.stored = offset

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
    def take(self, position: SourceOffset) -> None:
        """Wait until everything sent is acknowledged, then write the position.

        Raises:
            BrokerError: Kafka refused a record.
        """

    @abstractmethod
    def take_and_wait(self, position: SourceOffset) -> None:
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


class AcknowledgedCheckpoints(Checkpoints):
    """At least once: offsets through a producer of their own, each after what it stands for was acknowledged.

    Args:
        records: the producer whose records a position stands for.
        offsets: writes to the offsets topic.
        on_wait: called while waiting for Kafka; keeps the source's connection alive, may raise to give up.
    """

    def __init__(
        self,
        records: RecordProducer,
        offsets: AcknowledgedProducer | OffsetFile,
        topic: str,
        key: bytes,
        *,
        interval_seconds: float,
        on_wait: Callable[[], None],
    ) -> None:
        super().__init__(topic, key, interval_seconds=interval_seconds)
        self._records = records
        self._offsets = offsets
        self._on_wait = on_wait
        self._written: SourceOffset | None = None

    @property
    def pending(self) -> bool:
        return self._written != self.stored

    def open(self) -> None:
        """Nothing to do."""

    def start_from(self, offset: SourceOffset) -> None:
        self.stored = self._written = offset

    def due(self, now: float, *, drained: bool = False, exact: bool = True) -> bool:  # noqa: ARG002 - only time counts
        return now - self._last >= self._interval

    def relieve(self, now: float) -> None:
        """Nothing to do: records need no position."""

    def take(self, position: SourceOffset) -> None:
        """Wait until everything sent is acknowledged, then write the position; `poll` sees it stored."""
        self._last = time.monotonic()
        position = self.signed(position)
        if position == self._written:
            return
        while not self._records.flush(_SLICE_SECONDS):
            self._on_wait()
        reached("records.acknowledged")
        self._written = position
        self._offsets.put(self._topic, self._key, encode_offset(position), lambda: self._stored(position))
        reached("offset.written")

    def take_and_wait(self, position: SourceOffset) -> None:
        self.take(position)
        while self.stored != self._written:
            self._offsets.flush(_SLICE_SECONDS)
            self._on_wait()

    def poll(self) -> None:
        self._records.poll()
        self._offsets.poll()

    def close(self) -> None:
        """Nothing to do."""

    def _stored(self, position: SourceOffset) -> None:
        self.stored = position
        reached("offset.stored")
