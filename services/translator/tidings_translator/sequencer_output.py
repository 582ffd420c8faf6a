"""The sequencer's way out: complete transactions become change sets in Kafka transactions, large ones in several of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from tidings_envelope.envelope import Envelope
from tidings_service import get_logger
from tidings_translator import metrics
from tidings_translator.changes import ChangeSet, encode_change_set
from tidings_translator.dead_letters import dead_letter
from tidings_translator.fault_points import reached
from tidings_translator.kafka import read_records
from tidings_translator.memory import PROGRESS_KEY
from tidings_translator.partition_count import partition_of
from tidings_translator.records import MAX_RECORD_BYTES, Output, Partition
from tidings_translator.sequencer_session import Session
from tidings_translator.settings import SequencerSettings
from tidings_translator.spill import SpilledRows
from tidings_translator.stage import Stage
from tidings_translator.transactions import CompleteTransaction, LostTransaction, SnapshotRow

log = get_logger(__name__)

_MOST_PARTS = 256
"""Of a large transaction; each is a file."""
_ROOM_BYTES = 64 * 1024
"""For a record's key and framing."""
_OFFSETS_SECONDS = 1.0
"""How often offsets are committed when nothing else is to be."""


class Emission:
    """Lets out what a session's assembler has completed."""

    def __init__(self, settings: SequencerSettings, stage: Stage) -> None:
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
        outputs = session.first + letters
        session.first = []
        self._partitions = session.partitions
        transactions = 0
        made: Counter[str] = Counter()
        gate, progress = session.gate, session.memory.progress
        for assembled in () if session.waits else session.assembler.take(time.monotonic()):
            if isinstance(assembled, CompleteTransaction):
                transactions += 1
                outputs += gate.before(assembled.commit_lsn)
                if isinstance(assembled.rows, SpilledRows):
                    # What came before it goes first: from here on, offsets and progress tell of this one's parts.
                    if not await self._add(session, outputs, session.memory.take_changes()):
                        return False
                    outputs = []
                    if not await self._emit_parts(session, assembled, made):
                        return False
                    continue
                sets = session.traces.hand_on(assembled.txid, session.router.change_sets(assembled))
            elif isinstance(assembled, SnapshotRow):
                sets = session.router.snapshot_row(assembled)
            else:
                outputs += await self._lost(session, assembled)
                continue
            for change_set in sets:
                outputs.append(self._output(change_set))
                made[change_set.aggregate] += 1
        if progress.parts is None:
            outputs += gate.after(progress.commit_lsn or 0)
        for aggregate, count in made.items():
            metrics.SEQUENCER_CHANGE_SETS.labels(aggregate).inc(count)
        metrics.SEQUENCER_TRANSACTIONS.inc(transactions)
        _warn(session)
        offsets = session.assembler.offsets()
        moved = {p: offset for p, offset in offsets.items() if session.sent_offsets.get(p) != offset}
        now = time.monotonic()
        if not outputs and not transactions and (not moved or now - self._sent_at < _OFFSETS_SECONDS):
            self._hold(session)
            return True
        if not await self._add(session, outputs, session.memory.take_changes()):
            return False
        self._hold(session)
        return True

    async def settle(self, session: Session) -> None:
        """Put what must be remembered and the offsets as they are now into the next Kafka transaction."""
        await self._add(session, [], session.memory.take_changes())

    async def _add(self, session: Session, outputs: list[Output], changes: dict[bytes, bytes | None]) -> bool:
        """Put outputs, state and the offsets as they are now into the next Kafka transaction; False: all is dropped."""
        offsets = session.assembler.offsets()
        session.sent_offsets = offsets
        session.added += 1
        session.progress = {key: value for key, value in changes.items() if key == PROGRESS_KEY}
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
        progress, lsn, rows = session.memory.progress, transaction.commit_lsn, len(transaction.rows)
        done, count = 0, min(rows // self._settings.part_rows + 1, _MOST_PARTS)
        if progress.parts is not None and progress.parts[0] == lsn:
            _, done, count = progress.parts
        log.info("large transaction", txid=transaction.txid, rows=rows, parts=count, done=done)
        parts = session.router.parts(transaction, self._settings.spill_directory, count)
        number = 0
        try:
            while (sets := await asyncio.to_thread(next, parts, None)) is not None:
                number += 1
                if number <= done:
                    continue
                sets = session.traces.hand_on(transaction.txid, sets, last=False)
                for change_set in sets:
                    made[change_set.aggregate] += 1
                progress.parts = (lsn, number, count)
                outputs = await asyncio.to_thread(list, map(self._output, sets))
                if not await self._add(session, outputs, session.memory.take_progress()):
                    return False
                reached("part.added")
        finally:
            await asyncio.to_thread(parts.close)
        while session.memory.changes > self._settings.part_rows:
            if not await self._add(session, [], session.memory.take_changes(self._settings.part_rows)):
                return False
        progress.parts = None
        return True

    def _output(self, change_set: ChangeSet) -> Output:
        key = f"{change_set.aggregate}/{change_set.id}".encode()
        value = encode_change_set(change_set)
        if len(key) + len(value) > MAX_RECORD_BYTES - _ROOM_BYTES:
            return dead_letter(
                self._settings.dead_letters_topic,
                stage="transaction",
                error="TooLarge",
                reason=f"what the transaction did to one aggregate has {len(value)} bytes; {MAX_RECORD_BYTES} are allowed",
                partition=Partition(self._settings.change_sets_topic, 0),
                offset=-1,
                key=key,
                value=None,
                aggregate=change_set.aggregate,
                id=change_set.id,
                txid=change_set.txid,
                commit_lsn=change_set.commit_lsn,
            )
        partition = partition_of(key, self._partitions)
        return Output(self._settings.change_sets_topic, key, value, None, partition)

    async def _lost(self, session: Session, lost: LostTransaction) -> list[Output]:
        """The END marker and the rows of a transaction that can't be completed, as dead letters; what the rows say of keys is
        still true."""
        places: list[tuple[Partition, int]] = [] if lost.end is None else [lost.end]

        def envelopes() -> Iterator[Envelope]:
            for row in lost.rows:
                places.append((row.partition, row.offset))
                yield row.envelope

        session.router.learn(envelopes())
        originals = await asyncio.to_thread(read_records, self._settings.kafka, places)
        letters = []
        for place in places:
            key, value = originals.get(place, (None, None))
            letters.append(
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
        return letters

    def _hold(self, session: Session) -> None:
        # What is fetched while nothing may come out would only fill memory.
        self._stage.consumer.hold(session.next_offsets if session.waits else session.assembler.held())


def _warn(session: Session) -> None:
    for table, lsn in session.router.take_truncated().items():
        log.warning(
            "TRUNCATE does not say which rows a table had: its aggregates stay as they were",
            table=table,
            lsn=lsn,
        )
    if session.router.too_many_wait and not session.router.told_of_waiting:
        session.router.told_of_waiting = True
        log.warning("a snapshot has read many rows before those that they refer to: some get these later")
