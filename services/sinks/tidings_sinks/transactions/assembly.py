"""Puts rows and markers together to whole transactions, in commit order. Pure but for the disk.

Rows of one transaction are spread over topics and partitions and come in any order; the markers, which stand in one partition,
say in which order transactions were committed and how many rows of each collection they have. A transaction is complete
when all rows have come of the collections that are read; it comes out when all before it have.

What a source writes again after a crash is left out: see `written`. What never comes is not waited for in silence: see `losses`.
Rows of snapshots have no transaction. Those of the first come out before all transactions; those of a later one behind the
transactions that have rows before them in their partition.

Memory: rows beyond the bound go to disk, those of the largest transaction first, and `paused` names the partitions that have
run ahead.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tidings_connect.data.subscription import Consumed, TopicPartition
from tidings_connect.task.sink import LeftOut, SinkRecord
from tidings_envelope.server_numbers import ServerNumbers
from tidings_sinks.errors import TransactionError
from tidings_sinks.transactions.events import (
    End,
    Reader,
    collection_of,
    is_incremental,
    place_in_words,
    reference_of,
    transaction_of,
)
from tidings_sinks.transactions.losses import Losses, Reaches, is_read
from tidings_sinks.transactions.options import TransactionSettings
from tidings_sinks.transactions.rows import Disk, Held, size_of
from tidings_sinks.transactions.units import Loose, Place, Transaction, Unit
from tidings_sinks.transactions.written import Written

_MOST_PENDING: Final = 20_000
"""Transactions whose end was read and that are not written; more pause the transaction topic."""
_SETTLE_SECONDS: Final = 1.0
"""After the first end, so long rows of the first snapshot may still be on their way to Kafka."""


class Assembly:
    """One source's. Times are seconds of any monotonic clock.

    Args:
        keeps: whether rows are kept as they stand in their topic, too.
    """

    def __init__(self, settings: TransactionSettings, *, keeps: bool = False) -> None:
        self._keeps = keeps
        self._settings = settings
        self._written = Written()
        self._last_end: int | None = None
        """Of the last transaction whose end was read, or of that."""
        self._reader = Reader()
        self._disk = Disk(settings.disk_bytes)
        self._places: dict[TopicPartition, Place] = {}
        self._open: dict[int, Transaction] = {}
        self._pending: deque[Transaction] = deque()
        """Those whose end was read, in commit order."""
        self._ready: deque[Unit] = deque()
        self._loose: Loose | None = None
        """The last of those that are ready, while rows are added to it."""
        self._losses = Losses(settings, self._places)
        self._first_snapshot = True
        """Whether rows of the first snapshot may still come."""
        self._changed_at = 0.0
        self._memory = 0
        self._paused: set[TopicPartition] = set()

    # What comes in

    def begin_behind(self, position: int | None, numbers: ServerNumbers) -> None:
        """Begin behind what the target has.

        Args:
            position: of its last transaction; None: it has none.
            numbers: of MariaDB's servers.
        """
        self._last_end = position
        self._written.begin_behind(position, numbers)
        self._first_snapshot = position is None

    def open(self, partitions: Mapping[TopicPartition, int], now: float) -> None:
        """These are read from an offset each; -1: it is not known.

        Raises:
            TransactionError: the transaction topic has several partitions.
        """
        for at, offset in partitions.items():
            if at.topic == self._settings.topic and at.partition != 0:
                raise TransactionError(
                    f"topic {at.topic} has several partitions, so that the transactions in it have no order",
                    hint="a transaction topic has one partition: make it anew, with the topics of its source",
                )
            self._places[at] = Place(offset)
        self._changed_at = now

    def close(self, partitions: Collection[TopicPartition]) -> bool:
        """These are read no more; whether nothing was kept that others go on with."""
        for at in partitions:
            self._places.pop(at, None)
        if self._places:
            return not (self._open or self._ready)
        self.forget()
        return True

    def forget(self) -> None:
        """Give back what is in memory and on disk."""
        for unit in self._units():
            unit.rows.close()
        self._open.clear()
        self._pending.clear()
        self._ready.clear()
        self._loose, self._memory, self._last_end = None, 0, self._written.position
        self._written.forget_read()

    def take(self, record: SinkRecord, consumed: Consumed | None, now: float) -> None:
        """A record; one that was taken before is nothing.

        Args:
            consumed: as it stands in its topic; None of one that only counts, because a transform has dropped it.

        Raises:
            TransactionError: it cannot be told which transaction it belongs to, or there is no room for it on disk.
        """
        place = self._places.get(record.original)
        if place is None or record.offset < place.next_offset:
            return
        if record.original.topic == self._settings.topic:
            self._marker(place, record, now)
        elif record.value is not None:
            self._row(place, record, consumed)
        place.next_offset = record.offset + 1

    def left_out(self, left: LeftOut, now: float) -> None:
        """A record that the task is not given.

        Raises:
            TransactionError: as `take`.
        """
        if left.record is not None:
            self.take(left.record, None, now)
            return
        place = self._places.get(left.at)
        if place is not None and left.offset >= place.next_offset:
            place.unreadable += 1
            place.next_offset = left.offset + 1

    def _marker(self, place: Place, record: SinkRecord, now: float) -> None:
        end = self._reader.end(record)
        if end is None:
            return
        if self._last_end is not None and end.position <= self._last_end:
            self._repeated_end(end, record)
            return
        transaction = self._open.get(end.txid)
        if transaction is None:
            transaction = self._open[end.txid] = Transaction(self._disk, end.txid, end.text)
        self._last_end = end.position
        transaction.text = end.text
        transaction.gtid = end.gtid
        self._written.end_read(end)
        transaction.end, transaction.ended_at = end.position, now
        counts = self._settings.counts
        transaction.needed = {name: count for name, count in end.counts.items() if count > 0 and counts(name)}
        place.runs.append((record.offset, transaction))
        self._pending.append(transaction)

    def _repeated_end(self, end: End, record: SinkRecord) -> None:
        if self._written.is_repeated_end(end, record):
            stale = self._open.get(end.txid)
            if stale is not None and stale.end is None:
                self._forget(stale)  # its rows were written before this task began

    def _row(self, place: Place, record: SinkRecord, consumed: Consumed | None) -> None:
        reference = reference_of(record)
        if reference is None:
            self._without_transaction(place, record, consumed)
            return
        txid, order = transaction_of(record, reference)
        transaction = self._open.get(txid)
        place.streaming = True
        if transaction is None or transaction.begin is None:
            begin = self._reader.place(record)
            if transaction is None and self._written.has_row(txid, begin):
                return
            if transaction is None:
                transaction = self._open[txid] = Transaction(self._disk, txid, str(reference["id"]))
            transaction.begin = begin
            self._losses.began(transaction)
        assert transaction.begin is not None
        if transaction.out or not transaction.rows.note(order):
            return
        place.latest_commit = max(place.latest_commit, transaction.begin.last_commit or -1)
        collection = collection_of(record)
        if not self._settings.counts(collection):
            raise TransactionError(
                f"{place_in_words(record)}: nothing says that rows of {collection} come by this topic",
                hint="name all collections that are read in tidings.transactions.collections",
            )
        transaction.counts[collection] = transaction.counts.get(collection, 0) + 1
        if record.original not in transaction.partitions:
            transaction.partitions.add(record.original)
            place.needed_by(record.offset, transaction)
        if consumed is not None:
            self._keep(place, transaction, order, record, consumed)

    def _without_transaction(self, place: Place, record: SinkRecord, consumed: Consumed | None) -> None:
        op = record.value["op"]
        if op == "m" or consumed is None:
            return
        if op != "r":
            raise TransactionError(
                f"{place_in_words(record)}: the change has no transaction",
                hint="set provide.transaction.metadata=true in the source's connector, and begin behind such records",
            )
        if not is_incremental(record):
            place.streaming = False
        before = place.youngest()
        if before is None or before.out:
            if self._loose is None:
                self._loose = Loose(self._disk)
                self._ready.append(self._loose)
            unit = self._loose
        else:
            unit = before.followers = before.followers or Loose(self._disk)
        place.needed_by(record.offset, unit)
        self._keep(place, unit, len(unit.rows), record, consumed)

    def _keep(self, place: Place, unit: Unit, order: int, record: SinkRecord, consumed: Consumed) -> None:
        size = size_of(consumed)
        unit.add(order, Held(record, consumed if self._keeps else None), size)
        place.waiting += 1
        self._memory += size
        if self._memory > self._settings.buffer_bytes:
            self._spill()

    def _spill(self) -> None:
        """Move rows to disk, those of the largest transactions first, until half of the memory is free."""
        for unit in sorted(self._units(), key=lambda unit: -unit.rows.memory_bytes):
            if self._memory <= self._settings.buffer_bytes // 2:
                return
            self._memory -= unit.rows.memory_bytes
            unit.rows.spill()

    def _units(self) -> list[Unit]:
        """All that are kept."""
        units: list[Unit] = [*self._open.values(), *(unit for unit in self._ready if isinstance(unit, Loose))]
        return units + [
            each.followers for each in self._open.values() if each.followers is not None and not each.out
        ]

    def paused(self) -> set[TopicPartition]:
        """The partitions of which nothing is to be read for now: those that have run ahead while memory is short."""
        if self._losses.waits:
            return set()
        head = self._pending[0] if self._pending else None
        short = {} if head is None else head.short
        found = set()
        for at, place in self._places.items():
            share = 4 if at in self._paused else 2  # what was paused goes on when half of that is free
            if at.topic == self._settings.topic:
                full = len(self._pending) > 2 * _MOST_PENDING // share
            else:
                full = self._memory > self._settings.buffer_bytes // share and place.waiting > 0
                full = full and not any(self._settings.carries(at.topic, name) for name in short)
            if full:
                found.add(at)
        self._paused = found
        return found

    # What comes out

    def ready(self, now: float, reaches: Reaches, most_rows: int) -> list[Unit]:
        """The next that are to become visible together, in order; empty: nothing is complete.

        Args:
            reaches: how far partitions go, and were read.
            most_rows: of all of them, but for a single one that has more, or is on disk.

        Raises:
            TransactionError: one is lost.
        """
        self._advance(now, reaches)
        self._loose = None
        found: list[Unit] = []
        count = 0
        for unit in self._ready:
            if found and (count + len(unit.rows) > most_rows or unit.rows.is_on_disk):
                break
            found.append(unit)
            count += len(unit.rows)
            if unit.rows.is_on_disk:
                break
        return found

    def offsets(self, units: Sequence[Unit] = ()) -> dict[TopicPartition, int]:
        """Where a successor begins to read, once some units are done; nothing of partitions that nothing is known of."""
        done = frozenset(units)
        return {at: place.needed_from(done) for at, place in self._places.items() if place.next_offset >= 0}

    def position_after(self, units: Sequence[Unit]) -> int | None:
        """The position of the last transaction that is written then."""
        return self._written.position_after(units)

    def numbers_after(self, units: Sequence[Unit]) -> ServerNumbers:
        """The last numbers of MariaDB's servers that are written then."""
        return self._written.numbers_after(units)

    def done(self, units: Sequence[Unit]) -> None:
        """The first of those that are ready are durable in the target."""
        self._written.done(units)
        for unit in units:
            assert self._ready[0] is unit
            self._ready.popleft()
            self._finish(unit)

    def _finish(self, unit: Unit) -> None:
        for at, count in unit.waiting.items():
            place = self._places.get(at)
            if place is not None:
                place.waiting -= count
        if isinstance(unit, Transaction):
            del self._open[unit.txid]
            self._written.finished(unit)
        self._memory -= unit.rows.memory_bytes
        unit.done = True
        unit.rows.close()

    def _forget(self, transaction: Transaction) -> None:
        """A transaction was written before this task began; what stands behind its rows comes out."""
        self._finish(transaction)
        self._release(transaction)

    def _release(self, transaction: Transaction) -> None:
        if transaction.followers is not None:
            self._ready.append(transaction.followers)
            self._loose = None

    def _advance(self, now: float, reaches: Reaches) -> None:
        """Have come out what is complete."""
        while self._pending:
            head = self._pending[0]
            assert head.end is not None
            for lost in self._losses.without_end(head.end, reaches):
                self._out(lost)
            if self._losses.waits:
                return
            if not head.is_complete and not self._losses.gives_up(head, now, self._changed_at, reaches):
                return
            if self._first_snapshot and not self._snapshot_is_over(head, now, reaches):
                return
            self._pending.popleft()
            self._out(head)

    def _out(self, transaction: Transaction) -> None:
        transaction.out = True
        self._ready.append(transaction)
        self._loose = None
        self._release(transaction)

    def _snapshot_is_over(self, head: Transaction, now: float, reaches: Reaches) -> bool:
        """Whether no row of the first snapshot is unread, so that transactions may follow."""
        if now - head.ended_at < _SETTLE_SECONDS:
            return False
        topic = self._settings.topic
        unsure = [at for at, place in self._places.items() if not place.streaming and at.topic != topic]
        self._first_snapshot = bool(unsure) and not is_read(unsure, reaches)
        return not self._first_snapshot
