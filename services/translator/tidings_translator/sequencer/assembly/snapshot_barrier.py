"""Lets a snapshot's rows out before the transactions that were committed after it. Pure but for the disk.

The first streamed transaction waits until the snapshot's rows have been read in every partition: up to where these ended
when it was complete, or to a row from after the snapshot. Rows of a snapshot in the middle of the stream are kept
(`kept_snapshots`), and come out before the first transaction that was committed after they were read, again when every
partition was read: what the stream has told of them is known only then.

A stream may begin anew with a snapshot. Debezium 3.7 does so at each start with ``snapshot.mode=always``, and when its first
snapshot was interrupted, since the slot is there already: it looks where the log ends, reads each table as it is by then, and
tells of what was committed after that place, and of nothing before it. So what was committed between the last transaction
and the snapshot is never told; what was committed while it was read is in its rows already and comes again, row by row as it
was. From the latter no event can be made that is certainly true: such transactions come out `silent` and build state alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tidings_domain.errors import RowError
from tidings_domain.routing.row_bytes import envelope_bytes
from tidings_domain.routing.transactions import SnapshotRow
from tidings_envelope.envelope import Envelope
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.first_records import NOTHING_KNOWN, FirstRecords
from tidings_translator.sequencer.assembly.kept_snapshots import KeptSnapshots, read_at_ms
from tidings_translator.sequencer.assembly.progress import Beginning, Progress
from tidings_translator.sequencer.assembly.transactions import OpenTransaction, Place

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
        roots: tables whose rows come out first when a stream begins anew.
        first: what the first records say, where nothing was read yet.
    """

    def __init__(
        self,
        progress: Progress,
        places: Mapping[Partition, Place],
        directory: Path | None,
        skew_ms: int,
        roots: frozenset[str] = frozenset(),
        first: FirstRecords = NOTHING_KNOWN,
    ) -> None:
        self._first = first
        progress.first_snapshot(progress.snapshot_lsn or first.snapshot_lsn or 0)
        self.beginnings: list[Beginning] = []
        """Those that nobody was told of."""
        self._roots = roots
        self._progress = progress
        self._places = places
        self._directory = directory
        self._skew_ms = skew_ms
        self._ends: dict[Partition, int] | None = None
        self._kept: dict[Partition, KeptSnapshots] = {}
        """Of the partitions that have any."""
        self._releasing: Iterator[SnapshotRow] | None = None

    # --- what comes in

    def keeps(
        self,
        partition: Partition,
        offset: int,
        key: bytes | None,
        envelope: Envelope,
        as_of: int | None,
    ) -> bool:
        """Whether a snapshot's row is kept until the stream has come to it; then that is done.

        Those of an incremental snapshot have their place in the stream, and those of a stream's first have nothing before them.

        Args:
            partition: where it was read.
            offset: there.
            key: of the record.
            envelope: the row.
            as_of: the position that it is as of, where its record says so.

        Raises:
            RowError: it does not say where it stands, and the stream has begun.
            SequenceError: the disk is full or not writable.
        """
        source = envelope.source
        if source.snapshot == "incremental":
            return False
        if source.lsn is None and source.sequence is None and self._progress.commit_lsn is not None:
            raise RowError(
                f"the row at {partition} offset {offset} was read by a snapshot that does not say as of which commit, and the"
                " stream has begun: nobody knows which of both is newer",
                hint="take the snapshot with Tidings' connector, provide.transaction.metadata=true and one GTID domain",
            )
        until, begins_anew = as_of, source.last_commit_lsn is None
        if begins_anew:
            until = source.lsn or 0
            if not self._begins_anew(until):
                return False
            self._note_beginning(until, 0 if as_of is not None else read_at_ms(envelope))
        place = self._places[partition]
        if place.snapshots is None:
            place.snapshots = self._kept[partition] = KeptSnapshots(self._directory, self._skew_ms)
        place.snapshots.add(offset, key, envelope, until, begins_anew=begins_anew)
        self._came(partition, offset)
        return True

    def row(self, partition: Partition, offset: int, lsn: int) -> None:
        """A row of the stream's first snapshot was read: there may be more, and no transaction behind it may pass them."""
        progress = self._progress
        if not progress.snapshot_open or lsn > progress.snapshot_lsn:
            progress.open_snapshot(lsn)
            for place in self._places.values():
                place.streaming = False
        self._came(partition, offset)

    def _came(self, partition: Partition, offset: int) -> None:
        """A row that was written after the ends were asked for: ask again."""
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
        self._progress.close_snapshot()
        if kept:
            assert head.end_lsn is not None
            self._releasing = self._release(head.end_ts_ms, head.end_lsn)
        return True

    def is_silent(self, head: OpenTransaction) -> bool:
        """Whether `head` was committed while a snapshot was read with which the stream begins anew."""
        beginning = self._progress.beginning
        if beginning is None or beginning.read_until_ms == 0:
            return False
        assert head.end_lsn is not None
        return head.end_lsn > beginning.lsn and head.end_ts_ms <= beginning.read_until_ms + self._skew_ms

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
        end_lsn = head.end_lsn
        assert end_lsn is not None
        return bool(self._kept) and any(kept.is_due(head.end_ts_ms, end_lsn) for kept in self._kept.values())

    def _begins_anew(self, lsn: int) -> bool:
        """Whether a snapshot's rows, which know of no commit before them, are not those of the stream's first snapshot."""
        progress = self._progress
        progress.first_snapshot(lsn)
        commit = progress.began_lsn or progress.commit_lsn or self._first.commit_lsn
        return lsn > progress.first_snapshot_lsn or (commit is not None and commit <= lsn)

    def _note_beginning(self, lsn: int, read_ms: int) -> None:
        progress = self._progress
        beginning = progress.beginning
        if beginning is None or beginning.lsn < lsn:
            anew = Beginning(lsn, progress.commit_lsn, read_ms)
            progress.begin_anew(anew)
            self.beginnings.append(anew)
        elif beginning.lsn == lsn and read_ms > beginning.read_until_ms:
            progress.begin_anew(Beginning(lsn, beginning.after, read_ms))

    def _release(self, committed_at_ms: int, end_lsn: int) -> Iterator[SnapshotRow]:
        position = self._progress.commit_lsn
        roots = self._roots
        for partition, kept in sorted(
            self._kept.items(), key=lambda one: self._places[one[0]].table not in roots
        ):
            for envelope, has_position, begins_anew in kept.due(committed_at_ms, end_lsn):
                yield SnapshotRow(envelope, None if has_position else position, begins_anew)
            if not kept:
                self._places[partition].snapshots = None
                del self._kept[partition]
