"""Checkpoints: from "sent" to "stored" to "confirmed".

The order is what keeps a crash harmless: everything sent is acknowledged by Kafka, then the offset is written and
acknowledged, and only then may the slot be confirmed up to it. A crash between any two of them repeats records; none of
them loses one. So the slot is never ahead of the stored offset, and a slot that is has been moved by somebody else.
"""

import time
from collections.abc import Callable
from typing import Final

from tidings_capture.kafka import AcknowledgedProducer, RecordProducer
from tidings_capture.source_offset import SourceOffset, encode_offset

_SLICE_SECONDS: Final = 0.05


class Checkpoints:
    """The stored position of one connector.

    Args:
        records: the producer whose records a position stands for.
        offsets: writes to the offsets topic.
        on_wait: called while waiting for Kafka; keeps the source's connection alive, may raise to give up.
    """

    def __init__(
        self,
        records: RecordProducer,
        offsets: AcknowledgedProducer,
        topic: str,
        key: bytes,
        *,
        interval_seconds: float,
        on_wait: Callable[[], None],
    ) -> None:
        self._records = records
        self._offsets = offsets
        self._topic = topic
        self._key = key
        self._interval = interval_seconds
        self._on_wait = on_wait
        self._written: SourceOffset | None = None
        self._last = time.monotonic()
        self.stored: SourceOffset | None = None
        """The last offset that Kafka has acknowledged."""

    @property
    def confirmed_lsn(self) -> int:
        """Up to where the slot may be confirmed; 0 before the first checkpoint."""
        return 0 if self.stored is None else self.stored.done_lsn

    @property
    def pending(self) -> bool:
        """Whether an offset was written that is not acknowledged yet."""
        return self._written != self.stored

    def start_from(self, offset: SourceOffset) -> None:
        """An offset that was found in the topic."""
        self.stored = self._written = offset

    def due(self, now: float) -> bool:
        """Whether the interval has passed."""
        return now - self._last >= self._interval

    def take(self, position: SourceOffset) -> None:
        """Wait until everything sent is acknowledged, then write the position; `poll` sees it stored.

        Raises:
            BrokerError: Kafka refused a record.
        """
        self._last = time.monotonic()
        if position == self._written:
            return
        while not self._records.flush(_SLICE_SECONDS):
            self._on_wait()
        self._written = position
        self._offsets.put(self._topic, self._key, encode_offset(position), lambda: self._stored(position))

    def take_and_wait(self, position: SourceOffset) -> None:
        """Write the position and wait until it is stored."""
        self.take(position)
        while self.stored != self._written:
            self._offsets.flush(_SLICE_SECONDS)
            self._on_wait()

    def poll(self) -> None:
        """Serve the acknowledgements that have arrived.

        Raises:
            BrokerError: Kafka refused a record or an offset.
        """
        self._records.poll()
        self._offsets.poll()

    def _stored(self, position: SourceOffset) -> None:
        self.stored = position
