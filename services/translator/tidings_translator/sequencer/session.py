"""Restores and keeps what belongs to one membership of the sequencer in its consumer group.

Whoever gets the partitions next begins with the offsets, the memory and the ledger as they were committed, and makes the
same of them. All that outlives its generation is the memory, where it is certainly what was committed.
"""

import asyncio
import time
from collections.abc import Mapping

from tidings_domain.errors import SequenceError
from tidings_domain.evaluation.tracing import Traces
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.router import Router
from tidings_envelope.decode import EnvelopeDecoder
from tidings_service import get_logger
from tidings_translator.base.errors import GapError
from tidings_translator.base.fault_points import reached
from tidings_translator.base.naming import ORIGINAL
from tidings_translator.base.records import Output, Partition
from tidings_translator.base.settings import SequencerSettings
from tidings_translator.kafka.offsets import PartitionOffsets
from tidings_translator.kafka.reading import RecordReader, first_records, read_partition
from tidings_translator.ledger.gate import Gate, fact_record
from tidings_translator.ledger.ledger import Fact
from tidings_translator.ledger.other_sources import check_alone
from tidings_translator.ledger.partition_count import partitions_of
from tidings_translator.ledger.records import LedgerReader
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.assembly.first_records import FIRST_MARKERS, FirstRecords, look
from tidings_translator.sequencer.assembly.progress import Progress
from tidings_translator.sequencer.assembly.single_rows import SingleRows
from tidings_translator.sequencer.changelog import Changelog
from tidings_translator.stage.beginnings import note_beginning, position_of
from tidings_translator.stage.protocols import StageParts

log = get_logger("tidings_translator.sequencer_session")

READ = "\0read"
"""As the table of remembered rows: from which offset each partition was read first. No table has such a name."""


class Session:
    """The partitions of one generation of the group, and everything derived from what was committed."""

    def __init__(
        self,
        generation: int,
        changelog: Changelog,
        assembler: Assembler,
        router: Router,
        gate: Gate,
        traces: Traces,
        partitions: int,
        first: list[Output],
    ) -> None:
        self.generation = generation
        self.changelog = changelog
        self.memory = changelog.memory
        self.progress = changelog.progress
        self.assembler = assembler
        self.router = router
        self.gate = gate
        self.traces = traces
        self.partitions = partitions
        """Of the change sets: those that count."""
        self.first = first
        """What is to be told with the first that comes out."""
        self.next_offsets: dict[Partition, int] = {}
        self.sent_offsets: dict[Partition, int] = {}
        self.unreadable_in_a_row: dict[str, int] = {}
        """Topic to the number of its last records that were unreadable."""
        self.added = self.committed = 0
        """Kafka transactions' contents that were handed to the sink, and how many of them are committed."""
        self.sent_progress = changelog.take_progress()
        """As it was handed to the sink last, or restored."""

    def changelog_of_next(self, generation: int) -> Changelog | None:
        """What is remembered, if the generation that follows may go on with it instead of reading the changelog again.

        That is when all of it is committed, and no generation was between in which somebody else could have written.
        """
        if generation != self.generation + 1 or self.committed != self.added or self.memory.changes:
            return None
        for key, progress in self.sent_progress.items():
            self.changelog.load(key, progress)  # rows that were read and had not come out are read again
        return self.changelog

    @property
    def waits(self) -> bool:
        """The gate lets nothing out. A transaction that has begun to come out in parts does so to its end first: it belongs
        to one side of a cut as a whole."""
        return self.gate.shut and self.progress.parts is None


class Sessions:
    """The session there is: another one for each generation of the group."""

    def __init__(
        self, settings: SequencerSettings, domain: Domain, stage: StageParts, decoder: EnvelopeDecoder
    ) -> None:
        self._settings = settings
        self._decoder = decoder
        self._domain = domain
        self._stage = stage
        self._tables = frozenset(domain.tables)
        self._changelog = Partition(settings.sequencer_state_topic, 0)
        self._ledger: LedgerReader | None = None
        self.current: Session | None = None
        """None before the first, and after one has lost its partitions."""

    async def of(self, generation: int) -> Session | None:
        """The generation's session, restored when it has just begun; None when the generation is over."""
        if self._stage.sink.is_lost(generation):
            return None
        if self.current is None or self.current.generation != generation:
            self.current = await self._restore(generation)
        return self.current

    async def _restore(self, generation: int) -> Session | None:
        partitions = self._stage.consumer.assignment()
        if self._stage.consumer.membership().generation != generation or not partitions:
            return None
        reached("assigned")
        started = time.monotonic()
        before = self.current
        self.drop()
        await self._stage.sink.begin_life()
        partition_offsets = await asyncio.to_thread(self._stage.offsets.partition_offsets, partitions)
        gate, count, first = await asyncio.to_thread(self._open_gate)
        kept = None if before is None else before.changelog_of_next(generation)
        del before  # two memories at a time may be too much
        changelog = await asyncio.to_thread(self._read_changelog) if kept is None else kept
        memory, progress = changelog.memory, changelog.progress
        committed = self._begin(partition_offsets, changelog)
        single = self._settings.transactions == "none"
        if progress.rows and not single:
            raise SequenceError(
                "this source was read row by row so far, and positions of transactions do not go on from there",
                hint="leave TIDINGS_TRANSACTIONS=none, or remove the sequencer's state and offsets to begin anew",
            )
        first_records = FirstRecords()
        if progress.commit_lsn is None and not single:
            first_records = await asyncio.to_thread(self._first_records, partition_offsets, committed)
        assembler = (SingleRows if single else Assembler)(
            self._tables,
            progress,
            committed,
            {p.topic: self._table_of(p.topic) for p in partitions},
            max_buffered_rows=self._settings.max_buffered_rows,
            max_buffered_bytes=self._settings.max_buffered_bytes,
            read_ahead_rows=self._settings.read_ahead_rows,
            grace_seconds=self._settings.malformed_grace_seconds,
            give_up_seconds=self._settings.give_up_seconds,
            spill_directory=self._settings.spill_directory,
            snapshot_skew_seconds=self._settings.snapshot_skew_seconds,
            roots=frozenset(cls.__table__ for cls in self._domain.aggregates.values()),
            first=first_records,
        )
        session = Session(
            generation,
            changelog,
            assembler,
            Router(self._domain, memory, progress),
            gate,
            Traces(self._settings.trace_column),
            count,
            first,
        )
        session.next_offsets = dict(committed)
        session.sent_offsets = {
            p: at.committed for p, at in partition_offsets.items() if at.committed is not None
        }
        self._stage.committed.update(committed)
        reached("restored")
        log.info(
            "partitions assigned",
            partitions=len(partitions),
            generation=generation,
            remembered=len(memory),
            kept=changelog is kept,
            seconds=round(time.monotonic() - started, 3),
        )
        return session

    def _begin(
        self, partition_offsets: Mapping[Partition, PartitionOffsets], changelog: Changelog
    ) -> dict[Partition, int]:
        """The next offset to read of each partition; those that are new are remembered with it.

        Raises:
            GapError: something was deleted before it was read.
        """
        memory, progress = changelog.memory, changelog.progress
        # An older version remembered nothing of partitions; Kafka forgets a group as a whole.
        forgotten = progress.commit_lsn is not None and not any(
            at.committed is not None for at in partition_offsets.values()
        )
        positions = {}
        for partition, at in partition_offsets.items():
            known = memory.row(READ, str(partition)) is not None
            positions[partition] = position = position_of(partition, at, known=known or forgotten)
            if at.committed is None:
                self._check_history(partition, position, progress)
                note_beginning(self._stage.name, partition, position)
            if not known:
                memory.set_row(READ, str(partition), {"from": position})
        return positions

    def _first_records(
        self, partition_offsets: Mapping[Partition, PartitionOffsets], starts: Mapping[Partition, int]
    ) -> FirstRecords:
        markers: list[tuple[Partition, int]] = []
        rows: dict[Partition, int] = {}
        for partition, start in starts.items():
            end = partition_offsets[partition].end
            if partition.topic == self._settings.transaction_topic:
                markers += [(partition, at) for at in range(start, min(end, start + FIRST_MARKERS))]
            elif start < end:
                rows[partition] = start
        kafka = self._settings.kafka_access
        reader = RecordReader(kafka)
        try:
            found = reader.read(markers)
        finally:
            reader.close()
        told = [(one.value, one.headers) for one in found.values()]
        read = [(one.value, one.headers) for one in first_records(kafka, rows).values()]
        return look(self._decoder, told, read)

    def _check_history(self, partition: Partition, start: int, progress: Progress) -> None:
        name = self._settings.generation
        if start > 0 and name != ORIGINAL and progress.commit_lsn is None:
            raise GapError(
                f"{partition}: its log begins at {start}, so that the history of generation '{name}' is not whole",
                hint="retention has deleted since `generations start`; discard this generation, and start another one"
                " from the lakehouse's log (--from-lake)",
            )

    def drop(self) -> None:
        """The generation is over: what was not committed is somebody else's."""
        if self.current is not None:
            self.current.assembler.close()
        self.current = None

    def _table_of(self, topic: str) -> str | None:
        return (
            None
            if topic == self._settings.transaction_topic
            else topic.removeprefix(f"{self._settings.source}.")
        )

    async def follow_ledger(self, session: Session) -> None:
        """Obey what the ledger of generations has been told since."""
        assert self._ledger is not None
        if await asyncio.to_thread(self._ledger.poll):
            session.gate.look()
        self._stage.note_generation(self._ledger.ledger, session.gate.detail, ended=session.gate.ended)

    def _open_gate(self) -> tuple[Gate, int, list[Output]]:
        # As with the memory below: whoever could have written another fact is fenced by now.
        settings = self._settings
        if self._ledger is None:
            self._ledger = LedgerReader(settings.kafka_access, settings.source)
        ledger = self._ledger.catch_up()
        ledger.check_runs(settings.generation)
        have = self._stage.topics.partitions()
        count = partitions_of(have, ledger, settings)
        name, topic, domain = settings.generation, settings.ledger_topic, self._domain.name
        first = []
        if ledger.fact("domain", domain, name) is None:
            check_alone(settings.kafka_access, have, settings.source, domain)
            first.append(fact_record(topic, Fact(0), "domain", domain, name))
        if ledger.fact("partitions", name) is None:
            first.append(fact_record(topic, Fact(0, count), "partitions", name))
        return Gate(ledger, name, topic, (settings.change_sets_topic, count)), count, first

    def check_partitions(self, have: Mapping[str, int]) -> None:
        """Refuse to go on when topics have got more partitions since.

        Raises:
            GenerationError: they have.
        """
        if self._ledger is not None:
            partitions_of(have, self._ledger.ledger, self._settings)

    def _read_changelog(self) -> Changelog:
        # After the committed offsets were read with require_stable nobody of an older generation can commit any more,
        # but the commit markers of the last one may still be on their way to the changelog: hence the high watermark.
        changelog = Changelog()
        end = self._stage.offsets.ends([self._changelog])[self._changelog]
        for key, value, _ in read_partition(self._settings.kafka_access, self._changelog, end):
            if key is not None:
                changelog.load(key, value)
        return changelog
