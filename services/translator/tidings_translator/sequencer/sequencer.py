"""Runs the sequencer's stage: technical topics in, change sets out; one member of its group works at a time.

It wires `Assembler` (complete transactions) and `Router` (change sets) to Kafka. What they must remember is a changelog
topic, written in the same Kafka transaction as the change sets and restored when partitions are assigned.
"""

import asyncio
import time

from tidings_domain.aggregate.rows import time_columns
from tidings_domain.errors import SequenceError
from tidings_domain.loading.domain import Domain
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.registry import RegistryClient
from tidings_service import Retry, get_logger
from tidings_translator.base import metrics
from tidings_translator.base.naming import ORIGINAL
from tidings_translator.base.records import Batch, Output
from tidings_translator.base.settings import SequencerSettings
from tidings_translator.kafka.topics import TopicPlan
from tidings_translator.ledger.records import LedgerReader
from tidings_translator.sequencer.assembly.spill import limit_spill, spilled_bytes
from tidings_translator.sequencer.emission import Emission
from tidings_translator.sequencer.intake import Intake
from tidings_translator.sequencer.session import Session, Sessions
from tidings_translator.sequencer.topic_plans import sequencer_plans
from tidings_translator.stage.protocols import StageParts

log = get_logger("tidings_translator.sequencer")

_PASS_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
"""A transaction that waits longer for its rows is told of in /readyz."""


class Sequencer:
    """The work of the sequencer's stage.

    Args:
        settings: its own.
        domain: with the aggregates.
        stage: the parts that it uses.
        filling: it is this one that fills the generation from the lakehouse's log.
    """

    def __init__(
        self, settings: SequencerSettings, domain: Domain, stage: StageParts, *, filling: bool = False
    ) -> None:
        if settings.transactions == "none" and settings.generation != ORIGINAL:
            raise SequenceError(
                "a generation is compared and promoted at a commit position, which rows without transactions have not",
                hint="unset TIDINGS_GENERATION or TIDINGS_TRANSACTIONS",
            )
        limit_spill(settings.spill_directory, settings.spill_max_bytes, settings.spill_free_bytes)
        self._settings = settings
        self._stage = stage
        self._tables = frozenset(domain.tables)
        access = settings.registry_access
        registry = RegistryClient(access.url, **access.client_arguments())
        decoder = EnvelopeDecoder(registry, times=time_columns(domain.aggregates.values()))
        self._sessions = Sessions(settings, domain, stage, decoder)
        self._intake = Intake(
            decoder,
            settings.dead_letters_topic,
            settings.max_unreadable_in_a_row,
        )
        self._emission = Emission(settings, stage)
        self._looked_at = self._passed_at = 0.0
        self._missed = -1
        """The last generation of the group of which a batch was dropped."""
        self._warned_waiting: str | None = None
        self._warned_missing = False
        self._filled = filling
        """Another than the original generation may read the topics."""

    # --- topics

    def source_topics(self, topics: dict[str, int]) -> tuple[list[str], str | None]:
        """The transaction topic, and the topics of tables that are mapped; those without rows yet come later."""
        settings = self._settings
        if settings.generation != ORIGINAL:
            start = f"`tidings-translator generations start {settings.generation}`"
            if settings.change_sets_topic not in topics:
                return [], start
            if not self._may_begin():
                return [], f"the end of {start}, which reads what the lakehouse has written"
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
        """See `sequencer_plans`."""
        return sequencer_plans(self._settings)

    def _may_begin(self) -> bool:
        """Whether a generation that is filled from the lakehouse's log has been; looked up while it has not."""
        if not self._filled:
            reader = LedgerReader(self._settings.kafka_access, self._settings.source)
            try:
                self._filled = reader.catch_up().is_filled(self._settings.generation)
            finally:
                reader.close()
        return self._filled

    async def _discover(self) -> None:
        """Read topics of mapped tables that have appeared since."""
        have = await asyncio.to_thread(self._stage.topics.partitions)
        names, _ = self.source_topics(have)
        self._sessions.check_partitions(have)
        if self._stage.consumer.subscribe(names):
            log.info("new topics", topics=names)

    # --- batches

    async def handle(self, batch: Batch) -> None:
        """Take in a batch and commit what has become complete.

        Raises:
            SequenceError: going on would lose something.
        """
        session = await self._sessions.of(batch.generation)
        if session is None:
            self._missed = batch.generation
            return
        if session.generation == self._missed:
            raise SequenceError(
                f"records of {batch.partition} came before it was known that the partitions are ours",
                hint="nothing has moved; start it again",
                retry=Retry.TIMED,
            )
        if session.gate.ended:
            return
        partition = batch.partition
        start = session.next_offsets[partition]
        records = [record for record in batch.records if record.offset >= start]
        if not records:
            return
        session.next_offsets[partition] = records[-1].offset + 1
        letters: list[Output] = []
        if partition.topic == self._settings.transaction_topic:
            self._intake.take_markers(session, partition, records, letters)
        else:
            metrics.SEQUENCER_ROWS.labels(partition.topic).inc(len(records))
            self._intake.take_rows(session, partition, records, letters)
        await self._emit(session, letters)

    async def _emit(self, session: Session, letters: list[Output]) -> None:
        if not await self._emission.emit(session, letters):
            self._sessions.drop()

    async def finish(self) -> tuple[int, str | None]:
        """Commit the offsets as they are now, whatever came out; the commit LSN, and what the next transaction lacks."""
        session = self._sessions.current
        if session is None:
            return 0, None
        await self._emission.settle(session)
        return session.progress.commit_lsn or 0, session.assembler.waiting.describe()

    # --- ticks

    def unrestored(self) -> int:
        """All partitions that are ours until the session has begun: they have one state."""
        return len(self._stage.consumer.assignment()) if self._sessions.current is None else 0

    async def tick(self) -> None:
        """Look for new topics, end a snapshot, give up what can't complete, and say how it goes."""
        # Also while no batch comes: a promotion, a gap and the metrics wait for nobody.
        await self._sessions.of(self._stage.consumer.membership().generation)
        session = self._sessions.current
        now = time.monotonic()
        missing = session.assembler.waiting.missing_tables() if session is not None else set()
        if now - self._looked_at > (0.5 if missing else self._settings.discovery_seconds):
            self._looked_at = now
            await self._discover()
        if session is None or self._stage.sink.is_lost(session.generation):
            self._stage.health.set("transactions", True)
            return
        await self._sessions.follow_ledger(session)
        if session.assembler.wants_ends:
            session.assembler.set_ends(
                await asyncio.to_thread(self._stage.offsets.ends, session.next_offsets)
            )
        self._pass(session, now)
        await self._emit(session, [])
        self._measure(session, now)

    def _pass(self, session: Session, now: float) -> None:
        """Take note of what is never delivered (control records): it is read, too, and retention may delete it."""
        unread = session.assembler.waiting.unread_below()
        everywhere = now - self._passed_at >= _PASS_SECONDS
        if everywhere:
            self._passed_at = now
        elif not unread:
            return
        for partition, position in self._stage.consumer.passed(session.generation).items():
            if everywhere or partition in unread:
                session.assembler.reached(partition, position)

    def _measure(self, session: Session, now: float) -> None:
        assembler = session.assembler
        metrics.SEQUENCER_OPEN_TRANSACTIONS.set(assembler.open_transactions)
        metrics.SEQUENCER_BUFFERED_ROWS.set(assembler.buffer.rows)
        metrics.SEQUENCER_BUFFERED_BYTES.set(assembler.buffer.bytes)
        metrics.SEQUENCER_SPILLED_ROWS.set(assembler.buffer.spilled_rows)
        metrics.SEQUENCER_SPILLED_BYTES.set(spilled_bytes(self._settings.spill_directory))
        metrics.SEQUENCER_SNAPSHOT_ROWS.set(assembler.waiting.snapshot_rows)
        metrics.SEQUENCER_DUPLICATES.inc(assembler.duplicates)
        assembler.duplicates = 0
        metrics.STATE_ENTRIES.labels("sequencer").set(len(session.memory))
        since = assembler.waiting.oldest_since()
        age = 0.0 if since is None else now - since
        metrics.SEQUENCER_OPEN_AGE.set(0.0 if session.gate.ended else age)
        missing_since = assembler.waiting.missing_since()
        lacking = 0.0 if missing_since is None else now - missing_since
        metrics.SEQUENCER_MISSING_ROWS_AGE.set(0.0 if session.gate.ended else lacking)
        waiting = assembler.waiting.describe()
        stuck = waiting is not None and age > _PATIENCE_SECONDS and not session.gate.shut
        if lacking > self._settings.missing_rows_seconds and not self._warned_missing:
            self._warned_missing = True
            log.error(
                "rows of a transaction are missing",
                waiting=waiting,
                seconds=round(lacking, 1),
                hint="has the connector lost or dropped them (a Filter, errors.tolerance)? TIDINGS_ON_MISSING_ROWS=give_up"
                " gives such transactions up, visibly",
            )
        self._warned_missing = self._warned_missing and missing_since is not None
        if stuck and waiting != self._warned_waiting:
            log.warning("no transaction can be completed", waiting=waiting, seconds=round(age, 1))
        self._warned_waiting = waiting if stuck else None
        self._stage.health.set("transactions", not stuck, f"{waiting} since {age:.0f} s" if stuck else "")
