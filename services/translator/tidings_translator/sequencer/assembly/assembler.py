"""Puts rows and transaction markers together to complete transactions, in commit order. Pure: no Kafka, no clock.

Rows of one transaction are spread over topics and partitions and arrive in any order; the END markers, which are in one
partition, give the commit order and say how many rows each table has. A transaction is complete when every table that
is read has its number of rows; then, and when all before it are complete, it comes out. Tables that nobody reads are
left out of the count, so their topics need not be read.

What Debezium (and capture) repeat after a crash is recognised:

* an END whose commit LSN is not above the last one that came out,
* a row with a `total_order` that its transaction already has,
* a row of a finished transaction: the last commit before it (`source.sequence`) is older than the last one that came
  out, or its transaction id is among the lately finished and its LSN below that commit. (Transaction ids alone would
  not do, because they start again after four billion.)

What never comes is never waited for in silence. A transaction that lacks rows longer than the grace has its tables' partitions
read up to where they ended after its END: only then its rows can't come any more, or stand behind a writer that is away. It
is given up as a whole where unreadable rows explain what it lacks (`losses`), or capture has told that it could not publish
them; where nothing explains it, it waits and says so, or is given up after some time, as configured. So is one whose own END
never came although later ones have.

The ids ``txid:lsn`` are joined on the txid, since their LSN differs within a transaction; END's is the commit LSN.

Memory: `paused` names partitions that ran ahead of the transaction topic and must wait. A transaction that is large has its
rows on disk, but for the last ones, and comes out as `SpilledRows`.

A snapshot's row tells what was true behind all that its partition held before it, so it comes out behind the transactions
that have rows there: it must not anticipate what they are about to say.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidings_domain.errors import RowError
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.envelope import Envelope, TransactionMarker, lsn_of, txid_of
from tidings_envelope.gtid import Gtid, gtid_of
from tidings_envelope.headers.left_out import LeftOut
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.back_pressure import BackPressure
from tidings_translator.sequencer.assembly.buffer import Buffer
from tidings_translator.sequencer.assembly.first_records import NOTHING_KNOWN, FirstRecords
from tidings_translator.sequencer.assembly.losses import Losses
from tidings_translator.sequencer.assembly.progress import Beginning, Progress
from tidings_translator.sequencer.assembly.repeats import check_history, is_repeated_row
from tidings_translator.sequencer.assembly.snapshot_barrier import SnapshotBarrier
from tidings_translator.sequencer.assembly.spill import PlacedRow
from tidings_translator.sequencer.assembly.transactions import (
    Assembled,
    LostTransaction,
    OpenTransaction,
    Place,
)
from tidings_translator.sequencer.assembly.waiting import Waiting


class Assembler:
    """See the module's text. Times are seconds of any monotonic clock.

    Args:
        tables: ``schema.table`` of the tables that are read.
        progress: as it was stored with the last transaction that came out.
        partitions: next offset of every partition that is read.
        table_of: topic to table; None for the transaction topic.
        grace_seconds: how long after its END a transaction's rows may still be on their way to Kafka.
        give_up_seconds: how long a transaction may lack rows that nothing explains, after all partitions of its tables were
            read; None waits for ever.
        max_buffered_rows: as many rows wait in memory; a transaction with more than a quarter of these goes to disk.
        max_buffered_bytes: the same in bytes of memory, whichever is reached first.
        spill_directory: where; None is the system's directory for temporary files.
        snapshot_skew_seconds: what the clocks of the connector and the database may differ.
        roots: tables whose rows come out first when a stream begins anew.
        first: what the first records say, where nothing was read yet.
    """

    assembles = True
    """Rows wait for the others of their transaction."""

    def __init__(
        self,
        tables: frozenset[str],
        progress: Progress,
        partitions: Mapping[Partition, int],
        table_of: Mapping[str, str | None],
        *,
        max_buffered_rows: int = 500_000,
        max_buffered_bytes: int = 256 << 20,
        read_ahead_rows: int = 20_000,
        grace_seconds: float = 5.0,
        give_up_seconds: float | None = None,
        spill_directory: Path | None = None,
        snapshot_skew_seconds: float = 2.0,
        roots: frozenset[str] = frozenset(),
        first: FirstRecords = NOTHING_KNOWN,
    ) -> None:
        self.progress = progress
        self.duplicates = 0
        self.buffer = Buffer(max_buffered_rows, max_buffered_bytes, spill_directory)
        self._tables = tables
        self._open: dict[int, OpenTransaction] = {}
        self._pending: deque[OpenTransaction] = deque()
        self._out: list[Assembled] = []
        self._out_from: dict[Partition, int] = {}
        """The first offset of what is in `_out`: nothing may come out now, and who comes next must read it again."""
        self._places = {p: Place(table_of[p.topic], offset) for p, offset in partitions.items()}
        self._losses = Losses(progress, self._places, grace_seconds, give_up_seconds)
        self._barrier = SnapshotBarrier(
            progress, self._places, spill_directory, round(snapshot_skew_seconds * 1000), roots, first
        )
        self.waiting = Waiting(self._open, self._pending, self._places, self._losses, self._barrier)
        self._back_pressure = BackPressure(
            self._places, self._pending, self.buffer, self.waiting, read_ahead_rows
        )

    # --- what comes in

    def row(
        self,
        partition: Partition,
        offset: int,
        envelope: Envelope,
        now: float,
        key: bytes | None = None,
        as_of: int | None = None,
    ) -> None:
        """A change event of a technical topic; `key` is its record's, `as_of` what its headers say (`tidings_envelope.headers.as_of`).

        Raises:
            RowError: it has no transaction.
            SequenceError: a large one cannot be kept on disk.
            DecodeError: its transaction id is no ``txid:lsn``.
        """
        place = self._places[partition]
        place.next_offset = offset + 1
        ref = envelope.transaction
        if ref is None or not self.assembles:
            if envelope.op == "r" or envelope.source.is_snapshot:
                self._snapshot_row(partition, offset, envelope, key, as_of)
            else:
                self._single_row(partition, offset, envelope)
            return
        if place.snapshots is not None:
            place.snapshots.supersede(key, envelope.source.ts_ms)
        txid = txid_of(ref.id)
        transaction = self._open.get(txid)
        if transaction is None:
            transaction = self._new_transaction(txid, PlacedRow(envelope, partition, offset), now)
            if transaction is None:
                return
        elif transaction.last_commit_lsn is None:
            transaction.last_commit_lsn = envelope.source.last_commit_lsn
        rows = transaction.rows
        order = ref.total_order
        if order in rows or (transaction.spilled is not None and order in transaction.spilled):
            self.duplicates += 1
            return
        self.buffer.add(transaction, order, PlacedRow(envelope, partition, offset))
        table = place.table or ""
        count = transaction.counts.get(table, 0) + 1
        transaction.counts[table] = count
        at = transaction.places.get(partition)
        if at is None:
            transaction.places[partition] = [1, offset]
            place.runs.append((offset, transaction))
            place.latest = transaction
            if (envelope.source.lsn or 0) >= self.progress.snapshot_lsn:
                place.streaming = True
        else:
            at[0] += 1
            at[1] = offset
        place.buffered += 1
        if transaction.end_lsn is not None and count <= transaction.needed.get(table, 0):
            transaction.missing -= 1

    def nothing(self, partition: Partition, offset: int) -> None:
        """A record that says nothing that is needed (a tombstone, a BEGIN), but it has been read."""
        self._places[partition].next_offset = offset + 1

    def marker(
        self,
        partition: Partition,
        offset: int,
        marker: TransactionMarker,
        now: float,
        left_out: LeftOut | None = None,
    ) -> None:
        """A record of the transaction topic; `left_out` is what capture says to have counted, but not published.

        Raises:
            SequenceError: history has moved back.
            DecodeError: its id is no ``txid:lsn``.
        """
        place = self._places[partition]
        place.next_offset = offset + 1
        if not marker.is_end:
            return
        txid, end_lsn = txid_of(marker.id), lsn_of(marker.id)
        gtid = gtid_of(marker.id) if "-" in marker.id else None
        last = self._last_end_lsn()
        if last is not None and end_lsn <= last:
            self._repeated_end(txid, end_lsn, gtid)
            return
        if gtid is not None:
            self.progress.note_server(gtid)
        if last is None:
            self.progress.first_end(end_lsn)
        self._losses.end_read(end_lsn)
        transaction = self._open.get(txid) or OpenTransaction(txid, now)
        self._open[txid] = transaction
        transaction.end(marker, end_lsn, (partition, offset), now, self._tables, left_out)
        place.runs.append((offset, transaction))
        self._pending.append(transaction)

    def unreadable(self, partition: Partition, offset: int) -> bool:
        """A record that could not be decoded, for the dead letters; False when these have it since before a restart."""
        place = self._places[partition]
        place.next_offset = offset + 1
        if place.table is None:
            return self._losses.note_marker(offset, self._last_end_lsn() or 0)
        return self._losses.note_row(partition, offset)

    # --- what comes out

    def take(self, now: float) -> Iterator[Assembled]:
        """What has become complete, in order. `progress`, `offsets` and so on are right when it is exhausted, and while a
        transaction that is on disk is out: then they tell of those before it."""
        self.buffer.free()
        while True:
            yield from self._taken_out()
            if not self._pending:
                return
            head = self._pending[0]
            if head.missing > 0:
                reason = self._losses.given_up(head, now)
                if reason is None:
                    return
                yield from self._passed_by(head)
                yield LostTransaction(head.txid, head.end_lsn, self.buffer.placed(head), reason, head.end_at)
            elif not self._barrier.is_passed(head):
                return
            else:
                yield from self._barrier.released()
                if self._barrier.is_releasing:
                    return
                yield from self._passed_by(head)
                yield self._complete(head)
            self._finish(head)

    def _passed_by(self, head: OpenTransaction) -> Iterator[Assembled]:
        """Transactions that were committed before one that comes out now, and are lost, for their END is missing: before it, as
        what they tell is older."""
        assert head.end_lsn is not None
        for passed, reason in self._losses.passed(head.end_lsn):
            if reason is None:
                self.duplicates += len(passed.rows)
            else:
                self._out.append(LostTransaction(passed.txid, None, self.buffer.placed(passed), reason))
            self._forget(passed)
        yield from self._taken_out()

    def _taken_out(self) -> list[Assembled]:
        """What is ready: it comes out now, and nobody has to read it again."""
        out, self._out, self._out_from = self._out, [], {}
        return out

    def _complete(self, head: OpenTransaction) -> CompleteTransaction:
        assert head.end_lsn is not None
        silent = self._barrier.is_silent(head)
        if head.spilled is not None:
            self.buffer.spill(head)
            return CompleteTransaction(head.txid, head.end_lsn, head.spilled, silent)
        rows = [head.rows[order].envelope for order in sorted(head.rows)]
        return CompleteTransaction(head.txid, head.end_lsn, rows, silent)

    def offsets(self) -> dict[Partition, int]:
        """For each partition the offset from which a successor must read."""
        ready = self._out_from
        return {
            partition: place.needed_from()
            if partition not in ready
            else min(place.needed_from(), ready[partition])
            for partition, place in self._places.items()
        }

    def paused(self) -> set[Partition]:
        """The partitions of which nothing should be fetched for now."""
        return self._back_pressure.paused()

    # --- the ends of partitions

    @property
    def wants_ends(self) -> bool:
        """The next transaction waits for what may be unread, a snapshot's rows or its own: give the ends of the partitions."""
        if not self._pending:
            return False
        head = self._pending[0]
        if head.missing > 0:
            return head.wants_ends
        return self._barrier.wants_ends(head)

    def set_ends(self, ends: Mapping[Partition, int]) -> None:
        """The partitions' high watermarks, asked for after `wants_ends` was true.

        A snapshot's rows were all written before the first marker, so they are below these; so are rows that the next
        transaction still lacks, if they have been written at all.
        """
        tables = {p: end for p, end in ends.items() if self._places[p].table is not None}
        head = self._pending[0] if self._pending else None
        if head is not None and head.wants_ends:
            head.wants_ends = False
            head.ends = {p: end for p, end in tables.items() if self._places[p].table in head.needed}
        else:
            self._barrier.set_ends(tables)

    def reached(self, partition: Partition, position: int) -> None:
        """Nothing is below `position` but what has been handed in (there are records that are never delivered)."""
        place = self._places[partition]
        place.next_offset = max(place.next_offset, position)

    # --- for people

    def take_beginnings(self) -> list[Beginning]:
        """Snapshots with which the stream has begun anew since the last call."""
        taken, self._barrier.beginnings = self._barrier.beginnings, []
        return taken

    @property
    def open_transactions(self) -> int:
        return len(self._open)

    # --- inside

    def _last_end_lsn(self) -> int | None:
        return self._pending[-1].end_lsn if self._pending else self.progress.commit_lsn

    def _single_row(self, partition: Partition, offset: int, envelope: Envelope) -> None:
        """A change that is not part of a transaction."""
        assert envelope.transaction is None
        raise RowError(
            f"the record at {partition} offset {offset} has no transaction block",
            hint="set provide.transaction.metadata=true in the connector",
        )

    def _snapshot_row(
        self, partition: Partition, offset: int, envelope: Envelope, key: bytes | None, as_of: int | None
    ) -> None:
        if self.assembles and self._barrier.keeps(partition, offset, key, envelope, as_of):
            return
        row, place = SnapshotRow(envelope), self._places[partition]
        if (before := place.youngest()) is None:
            self._ready(row, partition, offset)
        else:
            self.buffer.add_follower(before, partition, offset, row)
            place.buffered += 1
        if envelope.source.snapshot != "incremental":  # that has its place in the stream
            self._barrier.row(partition, offset, envelope.source.lsn or 0)

    def _new_transaction(self, txid: int, row: PlacedRow, now: float) -> OpenTransaction | None:
        """A transaction whose first row this is, or None for a row that has come too late."""
        source = row.envelope.source
        last_commit_lsn = source.last_commit_lsn
        if is_repeated_row(self.progress, txid, source):
            reason = None
            if self._losses.in_gap(txid, last_commit_lsn):
                reason = "the END marker of its transaction was unreadable"
            elif txid in self.progress.lost:
                reason = "its transaction had been given up when it came"
            if reason is not None:
                lost = LostTransaction(txid, None, [row], reason, may_be_old=self._may_be_old(row))
                self._ready(lost, row.partition, row.offset)
            else:
                self.duplicates += 1
            return None
        transaction = self._open[txid] = OpenTransaction(txid, now)
        transaction.last_commit_lsn = last_commit_lsn
        self._losses.opened(transaction, source.lsn or 0)
        return transaction

    def _may_be_old(self, row: PlacedRow) -> bool:
        """Whether its partition may have had rows of later transactions: an engine writes each partition in commit order."""
        latest = self._places[row.partition].latest
        if latest is None:
            return True  # it is the first since the start
        return (latest.last_commit_lsn or 0) > (row.envelope.source.last_commit_lsn or 0)

    def _repeated_end(self, txid: int, end_lsn: int, gtid: Gtid | None) -> None:
        self.duplicates += 1
        position = self.progress.commit_lsn
        stale = self._open.get(txid)
        if stale is not None and stale.end_lsn is None and (position is None or end_lsn <= position):
            self._forget(stale)
        if not self._losses.explains_end(end_lsn):
            check_history(self.progress, txid, end_lsn, gtid)

    def _finish(self, transaction: OpenTransaction) -> None:
        assert transaction.end_lsn is not None
        self._pending.popleft()
        self.progress.finish(transaction.txid, transaction.end_lsn)
        self._losses.finished(transaction)
        self._forget(transaction)

    def _forget(self, transaction: OpenTransaction) -> None:
        transaction.done = True
        del self._open[transaction.txid]
        for partition, (count, _) in transaction.places.items():
            self._places[partition].buffered -= count
        self.buffer.remove(transaction)
        for partition, offset, row in transaction.followers:
            self._places[partition].buffered -= 1
            self._ready(row, partition, offset)
        transaction.followers = []

    def _ready(self, one: Assembled, partition: Partition, offset: int) -> None:
        self._out.append(one)
        self._out_from[partition] = min(offset, self._out_from.get(partition, offset))

    def close(self) -> None:
        """Give back what is on disk."""
        self._barrier.close()
        self.buffer.close(self._open.values())
