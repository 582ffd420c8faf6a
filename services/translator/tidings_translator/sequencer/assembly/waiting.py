"""Describes what transactions wait for, for metrics and for people."""

from collections.abc import Mapping, Sequence

from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.losses import Losses, in_words
from tidings_translator.sequencer.assembly.snapshot_barrier import SnapshotBarrier
from tidings_translator.sequencer.assembly.transactions import OpenTransaction, Place


class Waiting:
    """Looks at an assembler's parts and changes none.

    Args:
        transactions: those of which something is missing, by txid.
        pending: those whose END was read, in commit order.
        places: the partitions that are read.
        losses: decides what is given up.
        barrier: stands between snapshots' rows and the stream.
    """

    def __init__(
        self,
        transactions: Mapping[int, OpenTransaction],
        pending: Sequence[OpenTransaction],
        places: Mapping[Partition, Place],
        losses: Losses,
        barrier: SnapshotBarrier,
    ) -> None:
        self._open = transactions
        self._pending = pending
        self._places = places
        self._losses = losses
        self._barrier = barrier

    @property
    def snapshot_rows(self) -> int:
        """Rows of snapshots that the stream has not come to yet."""
        return self._barrier.rows_kept

    def oldest_since(self) -> float | None:
        """When the first record of the oldest incomplete transaction came."""
        return min((t.since for t in self._open.values()), default=None)

    def missing_since(self) -> float | None:
        """When the next transaction was found to lack rows that are in none of its tables' partitions; None when none is."""
        head = self._pending[0] if self._pending else None
        return None if head is None or head.missing <= 0 else head.looked_at

    def missing_tables(self) -> set[str]:
        """Tables of which a transaction waits for rows although none of their topics is read."""
        known = {place.table for place in self._places.values()}
        return {table for t in self._pending for table in t.needed if table not in known}

    def unread_below(self) -> dict[Partition, int]:
        """Partitions that must be read up to an offset before the next transaction can come out, or be given up."""
        head = self._pending[0] if self._pending else None
        unread = self._barrier.unread(head)
        if head is not None and head.missing > 0:
            unread |= self._losses.unread(head)
        return unread

    def describe(self) -> str | None:
        """What the next transaction in commit order lacks, in words; None when nothing waits."""
        if not self._pending:
            oldest = min(self._open.values(), key=lambda one: one.since, default=None)
            if oldest is not None:
                return f"{oldest} waits for its END marker"
            if kept := self.snapshot_rows:
                return f"{kept} rows of a snapshot wait for a transaction that was committed after they were read"
            return None
        head = self._pending[0]
        if short := head.short():
            where = ""
            if head.looked_at is not None:
                where = ", although all partitions of its tables were read to the end"
            if nowhere := sorted(self.missing_tables() & short.keys()):
                where = f"; no topic of {', '.join(nowhere)} is read"
            return f"{head} waits for {in_words(short)}{where}"
        if unread := self.unread_below():
            partition, end = next(iter(unread.items()))
            return f"{head} waits for the snapshot's rows in {partition} below offset {end}"
        return None
