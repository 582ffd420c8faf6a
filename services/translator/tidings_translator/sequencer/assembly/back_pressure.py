"""Decides of which partitions nothing should be fetched for now."""

from collections.abc import Mapping, Sequence

from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.buffer import Buffer
from tidings_translator.sequencer.assembly.transactions import OpenTransaction, Place
from tidings_translator.sequencer.assembly.waiting import Waiting

_PENDING_ENDS = 20_000
"""Transactions whose END was read but not all rows; more pause the transaction topic."""


class BackPressure:
    """Pauses a partition that ran ahead, until half of what it may hold is left.

    Args:
        places: the partitions that are read.
        pending: transactions whose END was read, in commit order.
        buffer: keeps their rows.
        waiting: knows what the next transaction waits for.
        read_ahead_rows: as many rows of a partition may wait.
    """

    def __init__(
        self,
        places: Mapping[Partition, Place],
        pending: Sequence[OpenTransaction],
        buffer: Buffer,
        waiting: Waiting,
        read_ahead_rows: int,
    ) -> None:
        self._places = places
        self._pending = pending
        self._buffer = buffer
        self._waiting = waiting
        self._read_ahead_rows = read_ahead_rows
        self._paused: set[Partition] = set()

    def paused(self) -> set[Partition]:
        """The partitions to be paused as of now."""
        head = self._pending[0] if self._pending else None
        short = head.short() if head is not None and head.missing > 0 else {}
        # Where memory is full, only what completes the head is worth reading.
        limit = self._read_ahead_rows if self._buffer.has_room else 0
        unread = self._waiting.unread_below()
        paused = set()
        for partition, place in self._places.items():
            before = partition in self._paused
            if place.table is None:
                full = len(self._pending) > (_PENDING_ENDS // 2 if before else _PENDING_ENDS)
            else:
                full = place.buffered > (limit // 2 if before else limit)
                full = full and place.table not in short and partition not in unread
            if full:
                paused.add(partition)
        self._paused = paused
        return paused
