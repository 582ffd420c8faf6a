"""When the next transaction may come out although a snapshot was taken before it: its rows come first. Pure but for the disk.

The first streamed transaction waits until the snapshot's rows have been read in every partition: up to where these ended
when it was complete, or to a row from after the snapshot. Rows of a snapshot in the middle of the stream are kept
(`snapshot_hold`), and come out before the first transaction that was committed after they were read, again when every
partition was read: what the stream has told of them is known only then.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tidings_envelope.envelope import Envelope
from tidings_translator.records import Partition
from tidings_translator.row_bytes import envelope_bytes
from tidings_translator.snapshot_hold import HeldSnapshots
from tidings_translator.transactions import OpenTransaction, Place, Progress, SnapshotRow

_RELEASED_AT_ONCE = 10_000
"""Rows of a snapshot that come out in one go, and so in one Kafka transaction."""
_BYTES_AT_ONCE = 32 << 20
"""Of memory that they take, about."""


class SnapshotBarrier:
    """What stands between snapshots' rows and the stream.

    Args:
        progress: knows whether a snapshot may go on.
        places: the partitions that are read.
        directory: for rows that are kept and are many.
        skew_ms: what the clocks of the connector and the database may differ.
    """

    def __init__(
        self, progress: Progress, places: Mapping[Partition, Place], directory: Path | None, skew_ms: int
    ) -> None:
        self._progress = progress
        self._places = places
        self._directory = directory
        self._skew_ms = skew_ms
        self._ends: dict[Partition, int] | None = None
        self._kept: dict[Partition, HeldSnapshots] = {}
        """Of the partitions that have any."""
        self._releasing: Iterator[SnapshotRow] | None = None

    # --- what comes in

    def keep(self, partition: Partition, offset: int, key: bytes | None, envelope: Envelope) -> None:
        """A row of a snapshot in the middle of the stream.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        place = self._places[partition]
        if place.snapshots is None:
            place.snapshots = self._kept[partition] = HeldSnapshots(self._directory, self._skew_ms)
        place.snapshots.add(offset, key, envelope)

    def row(self, partition: Partition, offset: int, lsn: int) -> None:
        """A snapshot's row was read: there may be more."""
        progress = self._progress
        if not progress.snapshot_open or lsn > progress.snapshot_lsn:
            progress.snapshot_open = True
            progress.snapshot_lsn = max(progress.snapshot_lsn, lsn)
            for place in self._places.values():
                place.streaming = False
        if self._ends is not None and offset >= self._ends.get(partition, 0):
            self._ends = None

    # --- what may come out

    def wants_ends(self, head: OpenTransaction) -> bool:
        """`head` is complete, but may come after rows that are unread: give the ends of the partitions."""
        return self._ends is None and (self._is_open(head) or self._comes_after_kept(head))

    def set_ends(self, ends: Mapping[Partition, int]) -> None:
        """The ends of the tables' partitions, asked for after `wants_ends` was true."""
        self._ends = dict(ends)

    def unread(self, head: OpenTransaction | None) -> dict[Partition, int]:
        """Partitions that must be read up to an offset before `head` may come out."""
        places = self._places
        unread = {p: end for p, end in (self._ends or {}).items() if places[p].next_offset < end}
        if unread and (head is None or not self._comes_after_kept(head)):
            unread = {p: end for p, end in unread.items() if not places[p].streaming}
        return unread

    def is_passed(self, head: OpenTransaction) -> bool:
        """Whether `head` may come out, after what `released` gives."""
        kept = self._comes_after_kept(head)
        if self._releasing is not None or not (kept or self._is_open(head)):
            return True
        if not kept and all(place.streaming for place in self._places.values() if place.table is not None):
            self._ends = {}
        if self._ends is None or self.unread(head):
            return False
        self._ends = None
        self._progress.snapshot_open = False
        if kept:
            self._releasing = self._release(head.end_ts_ms)
        return True

    def released(self) -> Iterator[SnapshotRow]:
        """Kept rows that come now; when `is_releasing` after that, there are more, for the next time."""
        if self._releasing is None:
            return
        size = 0
        for count, row in enumerate(self._releasing, 1):
            yield row
            size += envelope_bytes(row.envelope)
            if count == _RELEASED_AT_ONCE or size >= _BYTES_AT_ONCE:
                return
        self._releasing = None

    @property
    def is_releasing(self) -> bool:
        return self._releasing is not None

    @property
    def rows_kept(self) -> int:
        """Rows that the stream has not come to yet."""
        return sum(map(len, self._kept.values()))

    def close(self) -> None:
        """Give back what is on disk."""
        for kept in self._kept.values():
            kept.close()

    # --- inside

    def _is_open(self, head: OpenTransaction) -> bool:
        """Whether `head` comes after a snapshot of which rows may still be unread."""
        assert head.end_lsn is not None
        return self._progress.snapshot_open and head.end_lsn > self._progress.snapshot_lsn

    def _comes_after_kept(self, head: OpenTransaction) -> bool:
        """Whether rows are kept that were read before `head` was committed."""
        return bool(self._kept) and any(kept.is_due(head.end_ts_ms) for kept in self._kept.values())

    def _release(self, committed_at_ms: int) -> Iterator[SnapshotRow]:
        position = self._progress.commit_lsn
        for partition, kept in list(self._kept.items()):
            for _, envelope in kept.due(committed_at_ms):
                yield SnapshotRow(envelope, position)
            if not kept:
                self._places[partition].snapshots = None
                del self._kept[partition]
