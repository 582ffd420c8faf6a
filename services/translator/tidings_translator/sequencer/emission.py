"""Writes complete transactions as change sets into Kafka transactions, large ones into several."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from tidings_domain.changes import ChangeSet, encode_change_set
from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES, MAX_VALUE_BYTES
from tidings_domain.routing.row_bytes import envelope_bytes
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow, TooLarge
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger
from tidings_translator.base import metrics
from tidings_translator.base.fault_points import reached
from tidings_translator.base.records import Output, Partition
from tidings_translator.base.settings import SequencerSettings
from tidings_translator.dead_letters.letters import dead_letter
from tidings_translator.dead_letters.report import report
from tidings_translator.kafka.reading import Original, RecordReader
from tidings_translator.ledger.partition_count import partition_of
from tidings_translator.sequencer.assembly.progress import PROGRESS_KEY
from tidings_translator.sequencer.assembly.spill import DiskBuckets, PlacedRow, SpilledRows
from tidings_translator.sequencer.assembly.transactions import LostTransaction
from tidings_translator.sequencer.session import Session
from tidings_translator.stage.protocols import StageParts

log = get_logger("tidings_translator.sequencer_output")

_MOST_PARTS = 256
"""Of a large transaction; each is a file."""
_ROOM_BYTES = 64 * 1024
"""For a record's key and framing."""
_SUBJECT = 200
"""Characters of an id that tell letters apart."""
_PORTION_ROWS = 1_000
"""Letters of a transaction that is given up in one Kafka transaction."""
_OFFSETS_SECONDS = 1.0
"""How often offsets are committed when nothing else is to be."""


class Emission:
    """Lets out what a session's assembler has completed."""

    def __init__(self, settings: SequencerSettings, stage: StageParts) -> None:
        self._settings = settings
        self._stage = stage
        self._changelog = Partition(settings.sequencer_state_topic, 0)
        self._sent_at = 0.0
        self._partitions = 1

    async def emit(self, session: Session, letters: list[Output]) -> bool:
        """Put what is complete, what must be remembered, and the offsets into the next Kafka transaction.

        Returns:
            False when the generation of the group is over: all that was not committed is dropped.
        """
        going = _Going(session.first + letters)
        session.first = []
        self._partitions = session.partitions
        transactions = 0
        gate, progress = session.gate, session.progress
        for assembled in () if session.waits else session.assembler.take(time.monotonic()):
            if isinstance(assembled, CompleteTransaction):
                transactions += 1
                if assembled.silent:
                    metrics.SEQUENCER_SILENT_TRANSACTIONS.inc()
                on = await self._transaction(session, assembled, going)
            else:
                on = await self._other(session, assembled, going)
            if not on:
                return False
        going.add(self._rows_too_large(session))
        if progress.parts is None:
            going.add(gate.after(progress.commit_lsn or 0))
        for aggregate, count in going.made.items():
            metrics.SEQUENCER_CHANGE_SETS.labels(aggregate).inc(count)
        metrics.SEQUENCER_TRANSACTIONS.inc(transactions)
        _warn(session)
        offsets = session.assembler.offsets()
        moved = {p: offset for p, offset in offsets.items() if session.sent_offsets.get(p) != offset}
        now = time.monotonic()
        if not going.outputs and not transactions and (not moved or now - self._sent_at < _OFFSETS_SECONDS):
            self._pause(session)
            return True
        if not await self._add(session, going.outputs, session.changelog.take_changes()):
            return False
        self._pause(session)
        return True

    async def _transaction(self, session: Session, transaction: CompleteTransaction, going: "_Going") -> bool:
        """Let a transaction's change sets go, behind what goes already; False: the generation is over."""
        spilled = isinstance(transaction.rows, SpilledRows)
        going.add(session.gate.before(transaction.commit_lsn))
        whole = self._settings.transactions == "whole"
        if spilled or (whole and going.bytes >= self._settings.part_bytes):
            # What came before it goes first, while offsets and progress tell of that.
            if not await self._add(session, going.outputs, session.changelog.take_changes()):
                return False
            going.clear()
        if spilled:
            return await self._emit_parts(session, transaction, going.made)
        self._go(session.traces.hand_on(transaction.txid, session.router.change_sets(transaction)), going)
        return True

    async def _other(
        self, session: Session, assembled: SnapshotRow | LostTransaction, going: "_Going"
    ) -> bool:
        """The same of a snapshot's row, or of a transaction that is given up."""
        if isinstance(assembled, SnapshotRow):
            self._go(session.router.snapshot_row(assembled), going)
            return True
        return await self._lost(session, assembled, going)

    def _go(self, sets: list[ChangeSet], going: "_Going") -> None:
        going.made.update(one.aggregate for one in sets)
        going.add([self._output(one) for one in sets])

    async def settle(self, session: Session) -> None:
        """Put what must be remembered and the offsets as they are now into the next Kafka transaction."""
        await self._add(session, [], session.changelog.take_changes())

    async def _add(self, session: Session, outputs: list[Output], changes: dict[bytes, bytes | None]) -> bool:
        """Put outputs, state and the offsets as they are now into the next Kafka transaction; False: all is dropped."""
        offsets = session.assembler.offsets()
        session.sent_offsets = offsets
        session.added += 1
        session.sent_progress = {key: value for key, value in changes.items() if key == PROGRESS_KEY}
        self._sent_at = time.monotonic()
        note = self._stage.note_committed(offsets)

        def on_commit() -> None:
            note()
            session.committed += 1

        return await self._stage.sink.add(
            session.generation,
            offsets,
            outputs,
            state={(self._changelog, key): value for key, value in changes.items()},
            on_commit=on_commit,
        )

    async def _emit_parts(
        self, session: Session, transaction: CompleteTransaction, made: Counter[str]
    ) -> bool:
        """A transaction that is on disk, in several Kafka transactions; False: the generation is over.

        None of its input is committed before the last part. What is remembered of its rows is not stored before all parts
        are, so that who has to begin again finds the memory that it began with, and makes the same parts.
        """
        assert isinstance(transaction.rows, SpilledRows)
        settings = self._settings
        progress, lsn, rows = session.progress, transaction.commit_lsn, len(transaction.rows)
        done, of_next, count = (
            0,
            0,
            max(rows // settings.part_rows, transaction.rows.size_bytes // settings.part_bytes),
        )
        count = min(count + 1, _MOST_PARTS)
        if progress.parts is not None and progress.parts[0] == lsn:
            _, done, count = progress.parts
            of_next = progress.part_sets
        log.info("large transaction", txid=transaction.txid, rows=rows, parts=count, done=done)
        parts = session.router.parts(transaction, DiskBuckets(settings.spill_directory, count))
        number = 0
        try:
            while (sets := await asyncio.to_thread(next, parts, None)) is not None:
                number += 1
                if number <= done:
                    continue
                sets = session.traces.hand_on(transaction.txid, sets, last=False)
                start = of_next if number == done + 1 else 0
                for change_set in sets[start:]:
                    made[change_set.aggregate] += 1
                while True:
                    outputs, start = await asyncio.to_thread(self._some, sets, start)
                    outputs += self._rows_too_large(session)
                    whole = start == len(sets)
                    progress.part_out(lsn, number if whole else number - 1, count, 0 if whole else start)
                    if not await self._add(session, outputs, session.changelog.take_progress()):
                        return False
                    reached("part.added")
                    if whole:
                        break
                del sets, outputs  # two parts at a time may be too much
        finally:
            await asyncio.to_thread(parts.close)
        while session.memory.changes:
            some = session.changelog.take_changes(settings.part_rows, settings.part_bytes)
            if not await self._add(session, [], some):
                return False
        progress.parts_done()
        return True

    def _some(self, sets: list[ChangeSet | TooLarge], start: int) -> tuple[list[Output], int]:
        """The records of change sets from `start` on, for one Kafka transaction; the number of the first that is not there."""
        outputs: list[Output] = []
        size = 0
        while start < len(sets) and size < self._settings.part_bytes:
            output = self._output(sets[start])
            outputs.append(output)
            size += len(output.value or b"")
            start += 1
        return outputs, start

    def _rows_too_large(self, session: Session) -> list[Output]:
        """Letters about rows that others refer to, and cannot get."""
        return [
            report(
                dead_letter(
                    self._settings.dead_letters_topic,
                    stage="transaction",
                    error="TooLarge",
                    reason=f"a row of {table} that others refer to has {size} bytes; {MAX_VALUE_BYTES} are allowed",
                    partition=Partition(f"{self._settings.source}.{table}", 0),
                    offset=-1,
                    key=key.encode(),
                    value=None,
                    subject=f"{table}/{key[:_SUBJECT]}",
                    commit_lsn=session.progress.commit_lsn,
                )
            )
            for (table, key), size in session.router.take_too_large().items()
        ]

    def _output(self, change_set: ChangeSet | TooLarge) -> Output:
        key = f"{change_set.aggregate}/{change_set.id}".encode()
        if isinstance(change_set, ChangeSet):
            value = encode_change_set(change_set)
            size = len(key) + len(value)
            if size <= MAX_RECORD_BYTES - _ROOM_BYTES:
                partition = partition_of(key, self._partitions)
                return Output(self._settings.change_sets_topic, key, value, None, partition)
        else:
            size = change_set.size
        return report(
            dead_letter(
                self._settings.dead_letters_topic,
                stage="transaction",
                error="TooLarge",
                reason=f"what the transaction did to one aggregate has {size} bytes; {MAX_RECORD_BYTES} are allowed",
                partition=Partition(self._settings.change_sets_topic, 0),
                offset=-1,
                key=key,
                value=None,
                subject=f"{change_set.aggregate}/{change_set.id[:_SUBJECT]}@{change_set.commit_lsn:X}",
                aggregate=change_set.aggregate,
                id=change_set.id,
                txid=change_set.txid,
                commit_lsn=change_set.commit_lsn,
            )
        )

    async def _lost(self, session: Session, lost: LostTransaction, going: "_Going") -> bool:
        """The END marker and the rows of a transaction that can't be completed, as dead letters; what the rows say of keys is
        still true.

        All but the last portion come out by themselves, with the offsets as they were: who has to begin again writes them
        again, and a later letter about a record takes the place of an earlier one.

        Returns:
            False when the generation of the group is over.
        """
        letters: list[Output] = []
        end = [] if lost.end is None else [lost.end]
        reader = RecordReader(self._settings.kafka_access)
        try:
            for some in _portions(lost.rows, self._settings.part_bytes // 2):
                if letters and not await self._stage.sink.add(
                    session.generation, session.sent_offsets, letters
                ):
                    return False
                session.router.learn((row.envelope for row in some), may_be_old=lost.may_be_old)
                places = [*end, *((row.partition, row.offset) for row in some)]
                end = []
                originals = await asyncio.to_thread(reader.read, places)
                letters = [self._letter(lost, place, originals.get(place)) for place in places]
        finally:
            await asyncio.to_thread(reader.close)
        going.add(letters)
        return True

    def _letter(
        self, lost: LostTransaction, place: tuple[Partition, int], original: Original | None
    ) -> Output:
        key, value, _ = original or (None, None, ())
        return report(
            dead_letter(
                self._settings.dead_letters_topic,
                stage="transaction",
                error="IncompleteTransaction",
                reason=lost.reason,
                partition=place[0],
                offset=place[1],
                key=key,
                value=value,
                txid=lost.txid,
                commit_lsn=lost.commit_lsn,
            )
        )

    def _pause(self, session: Session) -> None:
        # What is fetched while nothing may come out would only fill memory.
        self._stage.consumer.pause(session.next_offsets if session.waits else session.assembler.paused())


class _Going:
    """What goes into the next Kafka transaction."""

    def __init__(self, outputs: list[Output]) -> None:
        self.outputs: list[Output] = []
        self.bytes = 0
        self.made: Counter[str] = Counter()
        """Change sets of each aggregate, also of those that have gone."""
        self.add(outputs)

    def add(self, outputs: list[Output]) -> None:
        self.outputs += outputs
        self.bytes += sum(len(output.value or b"") for output in outputs)

    def clear(self) -> None:
        self.outputs.clear()
        self.bytes = 0


def _portions(rows: Iterable[PlacedRow], most_bytes: int) -> Iterator[list[PlacedRow]]:
    """The rows in lists that take about as much memory; at least one list."""
    portion: list[PlacedRow] = []
    size = 0
    for row in rows:
        if size >= most_bytes or len(portion) == _PORTION_ROWS:
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += envelope_bytes(row.envelope)
    yield portion


def _warn(session: Session) -> None:
    for beginning in session.assembler.take_beginnings():
        metrics.SEQUENCER_BEGAN_ANEW.inc()
        told = beginning.after
        log.error(
            "the stream begins anew with a snapshot",
            snapshot=lsn_to_text(beginning.lsn),
            last_commit=None if told is None else lsn_to_text(told),
            hint="the connector tells of nothing that was committed between the two, so no events of it come, nor of what is"
            " committed while the snapshot is read; docs/runbooks.md, TidingsStreamBeganAnew",
        )
    for table, lsn in session.router.take_truncated().items():
        log.warning(
            "TRUNCATE does not say which rows a table had: its aggregates stay as they were",
            table=table,
            lsn=lsn,
        )
    if session.router.too_many_wait and not session.router.warned_of_waiting:
        session.router.warned_of_waiting = True
        log.warning("a snapshot has read many rows before those that they refer to: some get these later")
