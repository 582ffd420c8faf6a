"""The sequencer: technical topics in, change sets out; the only member of its group at work.

It wires `Assembler` (complete transactions) and `Router` (change sets) to Kafka. What they must remember is a changelog
topic, written in the same Kafka transaction as the change sets and restored when partitions are assigned.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import Envelope
from tidings_envelope.errors import DecodeError, RegistryError
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import HEADER_BYTES
from tidings_service import Retry, get_logger
from tidings_translator import metrics
from tidings_translator.assembly import Assembler
from tidings_translator.changes import ChangeSet, encode_change_set
from tidings_translator.dead_letters import dead_letter
from tidings_translator.domain import Domain
from tidings_translator.errors import SequenceError
from tidings_translator.fault_points import reached
from tidings_translator.generation import ORIGINAL
from tidings_translator.generation_gate import Gate
from tidings_translator.kafka import TopicPlan, read_partition, read_records
from tidings_translator.kafka_generations import LedgerReader
from tidings_translator.memory import Memory
from tidings_translator.records import MAX_RECORD_BYTES, Batch, FetchedRecord, Output, Partition
from tidings_translator.routing import Router
from tidings_translator.settings import SequencerSettings
from tidings_translator.single_rows import SingleRows
from tidings_translator.spill import SpilledRows
from tidings_translator.stage import Stage
from tidings_translator.tracing import Traces
from tidings_translator.transactions import CompleteTransaction, LostTransaction, SnapshotRow

log = get_logger(__name__)

_PATIENCE_SECONDS = 10.0
"""A transaction that waits longer for its rows is told of in /readyz."""
_JSON_BEGIN = b'{"status":"BEGIN"'
"""How the first field of a marker looks: Debezium's schema puts the status first."""
_AVRO_BEGIN = b"\x0aBEGIN"
_MOST_PARTS = 256
"""Of a large transaction; each is a file."""
_ROOM_BYTES = 64 * 1024
"""For a record's key and framing."""
_OFFSETS_SECONDS = 1.0
"""How often offsets are committed when nothing else is to be."""


def _is_begin(value: bytes) -> bool:
    """Whether it is certainly a BEGIN marker; these are half of the markers, and END tells all that they do."""
    if value[:1] == b"\0":
        return value[HEADER_BYTES : HEADER_BYTES + len(_AVRO_BEGIN)] == _AVRO_BEGIN
    return value.startswith(_JSON_BEGIN)


class _Session:
    """What belongs to one generation of the group: the partitions, and everything derived from what was committed."""

    def __init__(
        self,
        generation: int,
        memory: Memory,
        assembler: Assembler,
        router: Router,
        gate: Gate,
        traces: Traces,
    ) -> None:
        self.generation = generation
        self.memory = memory
        self.assembler = assembler
        self.router = router
        self.gate = gate
        self.traces = traces
        self.next_offsets: dict[Partition, int] = {}
        self.sent_offsets: dict[Partition, int] = {}
        self.unreadable_in_a_row = 0

    @property
    def waits(self) -> bool:
        """The gate lets nothing out. A transaction that has begun to come out in parts does so to its end first: it belongs
        to one side of a cut as a whole."""
        return self.gate.shut and self.memory.progress.parts is None


class Sequencer:
    """The work of the sequencer's stage."""

    def __init__(self, settings: SequencerSettings, domain: Domain, stage: Stage) -> None:
        if settings.transactions == "none" and settings.generation != ORIGINAL:
            raise SequenceError(
                "a generation is compared and promoted at a commit position, which rows without transactions have not",
                hint="unset TIDINGS_GENERATION or TIDINGS_TRANSACTIONS",
            )
        self._settings = settings
        self._domain = domain
        self._stage = stage
        self._decoder = EnvelopeDecoder(RegistryClient(settings.registry))
        self._tables = frozenset(domain.tables)
        self._changelog = Partition(settings.sequencer_state_topic, 0)
        self._session: _Session | None = None
        self._looked_at = 0.0
        self._sent_at = 0.0
        self._told_waiting: str | None = None
        self._ledger: LedgerReader | None = None

    # --- topics

    def _table_of(self, topic: str) -> str | None:
        return (
            None
            if topic == self._settings.transaction_topic
            else topic.removeprefix(f"{self._settings.source}.")
        )

    def source_topics(self, topics: dict[str, int]) -> tuple[list[str], str | None]:
        """The transaction topic, and the topics of tables that are mapped; those without rows yet come later."""
        settings = self._settings
        if settings.generation != ORIGINAL and settings.change_sets_topic not in topics:
            return [], f"`tidings-translator generations start {settings.generation}`"
        transactions = settings.transaction_topic
        wanted = [f"{settings.source}.{table}" for table in sorted(self._tables)]
        there = [topic for topic in wanted if topic in topics]
        if settings.transactions == "none":
            return there, None if there else f"a topic of a table, such as {wanted[0]}"
        if transactions not in topics:
            return [], transactions
        if topics[transactions] != 1:
            raise SequenceError(
                f"topic {transactions} has {topics[transactions]} partitions, but its order is the commit order",
                hint="create it again with one partition",
            )
        return [transactions, *there], None

    def topic_plans(self, topics: dict[str, int]) -> list[TopicPlan]:  # noqa: ARG002 - nothing depends on them
        """The change sets, the state, the dead letters, the ledger of generations."""
        settings = self._settings
        return [
            TopicPlan(settings.change_sets_topic, settings.partitions),
            TopicPlan(settings.sequencer_state_topic, 1, compacted=True),
            TopicPlan(settings.dead_letters_topic, 1, unlimited=True),
            TopicPlan(settings.ledger_topic, 1, compacted=True),
        ]

    async def _discover(self) -> None:
        """Read topics of mapped tables that have appeared since."""
        have = await asyncio.to_thread(self._stage.topics.partitions)
        names, _ = self.source_topics(have)
        if self._stage.consumer.subscribe(names):
            log.info("new topics", topics=names)

    # --- batches

    async def handle(self, batch: Batch) -> None:
        """Take in a batch and commit what has become complete.

        Raises:
            SequenceError: going on would lose something.
        """
        session = await self._session_of(batch.generation)
        if session is None or session.gate.ended:
            return
        partition = batch.partition
        start = session.next_offsets[partition]
        records = [record for record in batch.records if record.offset >= start]
        if not records:
            return
        session.next_offsets[partition] = records[-1].offset + 1
        letters: list[Output] = []
        if partition.topic == self._settings.transaction_topic:
            self._take_markers(session, partition, records, letters)
        else:
            metrics.SEQUENCER_ROWS.labels(partition.topic).inc(len(records))
            self._take_rows(session, partition, records, letters)
        await self._emit(session, letters)

    def _take_rows(
        self, session: _Session, partition: Partition, records: list[FetchedRecord], letters: list[Output]
    ) -> None:
        decode, assembler, now = self._decoder.envelope, session.assembler, time.monotonic()
        take = assembler.row
        traces = session.traces
        reads_rows = traces.reads_rows
        for record in records:
            try:
                envelope = decode(record.value)
                if envelope is not None:
                    if reads_rows or record.headers:
                        traces.note(record.headers, envelope)
                    take(partition, record.offset, envelope, now)
                else:
                    assembler.nothing(partition, record.offset)
            except (DecodeError, RegistryError) as error:
                letters.append(self._unreadable(session, partition, record, error))
                assembler.unreadable(partition, record.offset, now)
            else:
                session.unreadable_in_a_row = 0

    def _take_markers(
        self, session: _Session, partition: Partition, records: list[FetchedRecord], letters: list[Output]
    ) -> None:
        assembler, now = session.assembler, time.monotonic()
        for record in records:
            value = record.value
            if value is None or _is_begin(value):
                assembler.nothing(partition, record.offset)
                continue
            try:
                assembler.marker(partition, record.offset, self._decoder.marker(value), now)
            except (DecodeError, RegistryError) as error:
                letters.append(self._unreadable(session, partition, record, error))
                assembler.unreadable(partition, record.offset, now)
            else:
                session.unreadable_in_a_row = 0

    def _unreadable(
        self,
        session: _Session,
        partition: Partition,
        record: FetchedRecord,
        error: DecodeError | RegistryError,
    ) -> Output:
        """A record that no second try will make readable; a registry that is away is another matter.

        Raises:
            RegistryError: the registry did not answer.
            SequenceError: too many one after the other.
        """
        if error.retry == Retry.TIMED:
            raise error
        session.unreadable_in_a_row += 1
        if session.unreadable_in_a_row > self._settings.max_unreadable_in_a_row:
            raise SequenceError(
                f"{session.unreadable_in_a_row} records one after the other are unreadable, up to {partition} offset"
                f" {record.offset}: {error}",
                hint="is TIDINGS_REGISTRY the one these topics were written with? TIDINGS_MAX_UNREADABLE_IN_A_ROW",
            ) from error
        return dead_letter(
            self._settings.dead_letters_topic,
            stage="decode",
            error=type(error).__name__,
            reason=str(error),
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
        )

    async def _emit(self, session: _Session, letters: list[Output]) -> None:
        """Put what is complete, what must be remembered, and the offsets into the next Kafka transaction."""
        outputs = letters
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
                        return
                    outputs = []
                    if not await self._emit_parts(session, assembled, made):
                        return
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
        offsets = session.assembler.offsets()
        moved = {p: offset for p, offset in offsets.items() if session.sent_offsets.get(p) != offset}
        now = time.monotonic()
        if not outputs and not transactions and (not moved or now - self._sent_at < _OFFSETS_SECONDS):
            self._hold(session)
            return
        if await self._add(session, outputs, session.memory.take_changes()):
            self._hold(session)

    async def _add(
        self, session: _Session, outputs: list[Output], changes: dict[bytes, bytes | None]
    ) -> bool:
        """Put outputs, state and the offsets as they are now into the next Kafka transaction; False: all is dropped."""
        offsets = session.assembler.offsets()
        session.sent_offsets = offsets
        self._sent_at = time.monotonic()
        kept = await self._stage.sink.add(
            session.generation,
            offsets,
            outputs,
            state={(self._changelog, key): value for key, value in changes.items()},
            on_commit=self._stage.note_committed(offsets),
        )
        if not kept:
            self._session = None
            session.assembler.close()
        return kept

    async def _emit_parts(
        self, session: _Session, transaction: CompleteTransaction, made: Counter[str]
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
        if len(value) > MAX_RECORD_BYTES - _ROOM_BYTES:
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
        return Output(self._settings.change_sets_topic, key, value)

    async def _lost(self, session: _Session, lost: LostTransaction) -> list[Output]:
        """The rows of a transaction that can't be completed, as dead letters; what they say of keys is still true."""
        places: list[tuple[Partition, int]] = []

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

    # --- generations

    async def _session_of(self, generation: int) -> _Session | None:
        """The generation's session, restored when it has just begun; None when the generation is over."""
        if self._stage.sink.is_lost(generation):
            return None
        if self._session is None or self._session.generation != generation:
            self._session = await self._restore(generation)
        return self._session

    async def _restore(self, generation: int) -> _Session | None:
        partitions = self._stage.consumer.assignment()
        if self._stage.consumer.membership().generation != generation or not partitions:
            return None
        reached("assigned")
        started = time.monotonic()
        if self._session is not None:
            self._session.assembler.close()
        await self._stage.sink.begin_life()
        committed = await asyncio.to_thread(self._stage.offsets.committed, partitions)
        gate = await asyncio.to_thread(self._open_gate)
        memory = await asyncio.to_thread(self._read_memory)
        single = self._settings.transactions == "none"
        if memory.progress.rows and not single:
            raise SequenceError(
                "this source was read row by row so far, and positions of transactions do not go on from there",
                hint="leave TIDINGS_TRANSACTIONS=none, or remove the sequencer's state and offsets to begin anew",
            )
        assembler = (SingleRows if single else Assembler)(
            self._tables,
            memory.progress,
            committed,
            {p.topic: self._table_of(p.topic) for p in partitions},
            max_buffered_rows=self._settings.max_buffered_rows,
            read_ahead_rows=self._settings.read_ahead_rows,
            grace_seconds=self._settings.malformed_grace_seconds,
            spill_directory=self._settings.spill_directory,
        )
        session = _Session(
            generation,
            memory,
            assembler,
            Router(self._domain, memory),
            gate,
            Traces(self._settings.trace_column),
        )
        session.next_offsets = dict(committed)
        session.sent_offsets = dict(committed)
        self._stage.committed.update(committed)
        reached("restored")
        log.info(
            "partitions assigned",
            partitions=len(partitions),
            generation=generation,
            remembered=len(memory),
            seconds=round(time.monotonic() - started, 3),
        )
        return session

    def _open_gate(self) -> Gate:
        # As with the memory below: whoever could have written another fact is fenced by now.
        settings = self._settings
        if self._ledger is None:
            self._ledger = LedgerReader(settings.kafka, settings.source)
        ledger = self._ledger.catch_up()
        ledger.check_runs(settings.generation)
        change_sets = settings.change_sets_topic
        partitions = self._stage.topics.partitions()[change_sets]
        return Gate(ledger, settings.generation, settings.ledger_topic, (change_sets, partitions))

    def _read_memory(self) -> Memory:
        # After the committed offsets were read with require_stable nobody of an older generation can commit any more,
        # but the commit markers of the last one may still be on their way to the changelog: hence the high watermark.
        memory = Memory()
        end = self._stage.offsets.ends([self._changelog])[self._changelog]
        for key, value in read_partition(self._settings.kafka, self._changelog, end):
            if key is not None:
                memory.load(key, value)
        return memory

    # --- ticks

    async def tick(self) -> None:
        """Look for new topics, end a snapshot, give up what can't complete, and say how it goes."""
        session = self._session
        now = time.monotonic()
        missing = session.assembler.missing_tables() if session is not None else set()
        if now - self._looked_at > (0.5 if missing else self._settings.discovery_seconds):
            self._looked_at = now
            await self._discover()
        if session is None or self._stage.sink.is_lost(session.generation):
            self._stage.health.set("transactions", True)
            return
        await self._follow_ledger(session)
        if session.assembler.wants_ends:
            session.assembler.set_ends(
                await asyncio.to_thread(self._stage.offsets.ends, session.next_offsets)
            )
        for partition in session.assembler.unread_below():
            position = await self._stage.consumer.quiet_position(partition)
            if position is not None:
                session.assembler.reached(partition, position)
        await self._emit(session, [])
        self._measure(session, now)

    async def _follow_ledger(self, session: _Session) -> None:
        assert self._ledger is not None
        if await asyncio.to_thread(self._ledger.poll):
            session.gate.look()
        self._stage.note_generation(self._ledger.ledger, session.gate.detail, ended=session.gate.ended)

    def _hold(self, session: _Session) -> None:
        # What is fetched while nothing may come out would only fill memory.
        self._stage.consumer.hold(session.next_offsets if session.waits else session.assembler.held())

    def _measure(self, session: _Session, now: float) -> None:
        assembler = session.assembler
        metrics.SEQUENCER_OPEN_TRANSACTIONS.set(assembler.open_transactions)
        metrics.SEQUENCER_BUFFERED_ROWS.set(assembler.buffered_rows)
        metrics.SEQUENCER_SPILLED_ROWS.set(assembler.spilled_rows)
        metrics.SEQUENCER_DUPLICATES.inc(assembler.duplicates)
        assembler.duplicates = 0
        metrics.STATE_ENTRIES.labels("sequencer").set(len(session.memory))
        since = assembler.oldest_since()
        age = 0.0 if since is None else now - since
        metrics.SEQUENCER_OPEN_AGE.set(0.0 if session.gate.ended else age)
        waiting = assembler.waiting_for()
        stuck = waiting is not None and age > _PATIENCE_SECONDS and not session.gate.shut
        if stuck and waiting != self._told_waiting:
            log.warning("no transaction can be completed", waiting=waiting, seconds=round(age, 1))
        self._told_waiting = waiting if stuck else None
        self._stage.health.set("transactions", not stuck, f"{waiting} since {age:.0f} s" if stuck else "")
