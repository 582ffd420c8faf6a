"""Tells the server how far the slot may move: to what is stored, and in time for it to keep the connection."""

import time
from typing import Final

from tidings_capture.cdc.fault_points import reached
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.offsets.positions import Positions
from tidings_capture.postgres.streaming.stream import Stream
from tidings_capture.postgres.wire.assembler import Assembler

_SHORTEST_SECONDS: Final = 0.1


class SlotFeedback:
    """Speaks for the stream that is open, if one is.

    Args:
        every_seconds: ``status.update.interval.ms``.
    """

    def __init__(self, positions: Positions, every_seconds: float) -> None:
        self._positions = positions
        self._every = max(every_seconds, _SHORTEST_SECONDS)
        self._stream: tuple[Replication, Stream, Assembler | None] | None = None
        self._told_lsn = 0
        self._next = 0.0

    @property
    def streaming(self) -> bool:
        """Whether a stream is open."""
        return self._stream is not None

    @property
    def due(self) -> bool:
        """Whether more is stored than the server was told."""
        return self._positions.confirmed_lsn > self._told_lsn

    def attach(self, replication: Replication, stream: Stream, assembler: Assembler | None) -> None:
        """A stream was opened."""
        self._stream = (replication, stream, assembler)

    def detach(self) -> None:
        """The stream ended."""
        self._stream = None

    def tell(self, *, reply: bool = False) -> None:
        """Tell the server now.

        Args:
            reply: it is to answer where its WAL ends.
        """
        if self._stream is None:
            return
        replication, stream, assembler = self._stream
        confirmed = self._positions.confirmed_lsn
        told = confirmed if assembler is None else assembler.confirmable(confirmed)
        replication.send_status(max(stream.received_lsn, told), told, reply=reply)
        if confirmed > self._told_lsn:
            reached("slot.confirmed")
        self._told_lsn = confirmed
        self._next = time.monotonic() + self._every

    def tell_last(self) -> None:
        """Tell the server before the stream ends; what was confirmed then is confirmed again."""
        self._told_lsn = 0
        self.tell()

    def keep(self) -> None:
        """Tell the server if it is time."""
        if time.monotonic() >= self._next:
            self.tell()
