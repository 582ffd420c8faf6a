"""Runs the translator's stage: change sets in, business events out, with each aggregate's state.

Change set and state topics have the same number of partitions, so that a member has the state of what it is given. The
state is held in memory; its changes go into the transaction that publishes what followed from them, and are read back
when a partition is assigned.
"""

import asyncio
import functools
import time
from collections.abc import Mapping

from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.language.events import BusinessEvent, contract_of, topic_of
from tidings_domain.language.lifecycle import lifecycle_of, midnight
from tidings_domain.loading.domain import Domain
from tidings_envelope.registry import RegistryClient
from tidings_service import get_logger
from tidings_translator.base import metrics
from tidings_translator.base.errors import BrokerError, GapError, StopError
from tidings_translator.base.fault_points import reached
from tidings_translator.base.naming import ORIGINAL
from tidings_translator.base.records import Batch, Partition
from tidings_translator.base.settings import TranslatorSettings
from tidings_translator.dead_letters.report import report, report_closed
from tidings_translator.kafka.offsets import PartitionOffsets
from tidings_translator.kafka.reading import read_partition
from tidings_translator.kafka.topics import TopicPlan
from tidings_translator.ledger.gate import fact_record
from tidings_translator.ledger.ledger import CUT_KEY, Fact, Mode, decode_cut
from tidings_translator.ledger.partition_count import partitions_of
from tidings_translator.ledger.records import LedgerReader
from tidings_translator.readers.groups import Readers
from tidings_translator.readers.versions import ReaderMetrics, live_versions
from tidings_translator.stage.beginnings import BEGUN_KEY, position_of
from tidings_translator.stage.stage import Stage
from tidings_translator.translation.contracts import event_plans, register_contracts, translator_plans
from tidings_translator.translation.held_metrics import HeldMetrics
from tidings_translator.translation.history import HISTORY_KEY, check_history, rules_since_the_beginning
from tidings_translator.translation.policies import Policies
from tidings_translator.translation.publishing import BatchResult, Publisher
from tidings_translator.translation.shard import Shard, ShardContext

log = get_logger("tidings_translator.translation")
shard_log = get_logger("tidings_translator.shard")

_STOP_SECONDS = 10.0
_PASS_SECONDS = 5.0
_COUNT_SECONDS = 3.0
"""How often Kafka is asked for the number of partitions."""


class Translator:
    """The work of the translator's stage."""

    def __init__(self, settings: TranslatorSettings, domain: Domain, stage: Stage) -> None:
        self._settings = settings
        self._domain = domain
        self._stage = stage
        self._shards: dict[Partition, Shard] = {}
        self._headers: dict[str, bytes] = {}
        self._versions = live_versions(domain)
        self._readers = Readers(settings.kafka_access)
        self._reader_metrics = ReaderMetrics()
        self._asked_for_readers_at = -1e9
        self._passed_at = self._counted_at = 0.0
        self._partitions = 0
        """Of the change sets: those that count."""
        self._names = {topic_of(e): (e.__event__, f"v{e.__major__}") for e in domain.event_classes()}
        self._shadows = {topic: settings.shadow_topic(topic) for topic in self._names}
        self._ledger: LedgerReader | None = None
        self._context = ShardContext(
            Evaluator(domain),
            Policies(domain, settings.on_failure, settings.on_bad_rows, settings.on_missing_references),
            Publisher(self._headers, self._shadows, as_json=settings.cloudevents_mode == "structured"),
            settings.dead_letters_topic,
            settings.max_held_bytes,
        )
        self._held_metrics = HeldMetrics()
        self._warned_partial: set[str] = set()
        self._history = rules_since_the_beginning(domain)

    def register_contracts(self, registry: RegistryClient) -> None:
        """Register every live version's contract; a value's first bytes name it.

        Raises:
            RegistryError: the registry is away, or refuses an incompatible contract.
        """
        for event in self._domain.event_classes():
            show_lifecycle(event)
        self._headers.update(register_contracts(self._domain, registry))

    # --- topics

    def source_topics(self, topics: dict[str, int]) -> tuple[list[str], str | None]:
        """The change sets' topic, which the sequencer creates."""
        name = self._settings.change_sets_topic
        return ([name], None) if name in topics else ([], name)

    def topic_plans(self, topics: dict[str, int]) -> list[TopicPlan]:
        """State (partitioned like the change sets), dead letters, the ledger, and a topic for every event version."""
        settings = self._settings
        # A shadow creates the business topics when it is to publish: see `handle`.
        topics_for = self._names if settings.generation == ORIGINAL else self._shadows.values()
        return translator_plans(settings, topics[settings.change_sets_topic], topics_for)

    # --- batches

    async def handle(self, batch: Batch) -> None:
        """Evaluate a batch of change sets and commit what followed.

        Raises:
            TranslatorError: the domain or the stored state does not fit; nothing has moved.
        """
        if self._stage.sink.is_lost(batch.generation):
            return
        partition = batch.partition
        shard = self._shards.get(partition)
        if shard is None or shard.generation != batch.generation:
            shard = await self._restore(partition, batch.generation)
            if shard is None:
                return
        records = [record for record in batch.records if record.offset >= shard.next_offset]
        if not records:
            return
        result = BatchResult()
        if not shard.begun:
            result.state[shard.changelog, BEGUN_KEY] = b"%d" % shard.next_offset
            shard.begun = True
        if shard.next_offset == 0 and self._history is not None:
            result.state[shard.changelog, HISTORY_KEY] = self._history
        stopped: StopError | None = None
        for record in records:
            if record.key == CUT_KEY and record.value is not None:
                self._cut(shard, partition, record.value, result)
                continue
            try:
                shard.take(record, result)
            except StopError as error:
                stopped = error  # what comes before it is committed
                break
        if result.goes_live:
            await self._create_business_topics()
        shard.next_offset = record.offset if stopped else record.offset + 1
        offsets = {partition: shard.next_offset}
        _report(result)
        await self._stage.sink.add(
            batch.generation,
            offsets,
            result.outputs,
            state=result.state,
            on_commit=lambda: self._committed(shard, result, offsets),
        )
        if stopped is not None:
            await self._stage.sink.drain(_STOP_SECONDS)
            raise stopped

    def _cut(self, shard: Shard, partition: Partition, value: bytes, result: BatchResult) -> None:
        """From here on this partition is published, or done with; the ledger is told in the same transaction."""
        cut = decode_cut(value)
        shard.mode = cut.mode
        result.goes_live = cut.mode == "live"
        result.state[shard.changelog, CUT_KEY] = cut.mode.encode()
        settings = self._settings
        fact = "live" if cut.mode == "live" else "passed"
        number = partition.partition
        result.outputs.append(
            fact_record(settings.ledger_topic, Fact(cut.at), fact, settings.generation, number)
        )
        log.info("the cut between generations", partition=str(partition), mode=cut.mode, commit_lsn=cut.at)

    async def _create_business_topics(self) -> None:
        plans = event_plans(self._settings, self._names)
        await asyncio.to_thread(self._stage.topics.create, plans, replication=self._settings.replication)

    def _committed(self, shard: Shard, result: BatchResult, offsets: dict[Partition, int]) -> None:
        self._stage.committed.update(offsets)
        [shard.committed] = offsets.values()
        for aggregate, count in result.change_sets.items():
            metrics.TRANSLATOR_CHANGE_SETS.labels(aggregate).inc(count)
        self._report_partial(result.partial)
        for topic, count in result.events.items():
            metrics.TRANSLATOR_EVENTS.labels(*self._names[topic]).inc(count)
        for topic, count in result.shadows.items():
            metrics.TRANSLATOR_SHADOW_EVENTS.labels(*self._names[topic]).inc(count)
        now_us = time.time() * 1e6
        for commit_time_us in result.commit_times_us:
            metrics.TRANSLATOR_LATENCY.observe(max(now_us - commit_time_us, 0) / 1e6)

    def _report_partial(self, partial: Mapping[str, int]) -> None:
        for aggregate, count in partial.items():
            metrics.TRANSLATOR_PARTIAL.labels(aggregate).inc(count)
        for aggregate in partial.keys() - self._warned_partial:
            self._warned_partial.add(aggregate)
            log.warning(
                "changes of aggregates that were there before anything was known of them: their rules did not run; a snapshot"
                " of their tables, the root's last, makes them known (this is told once, and counted)",
                aggregate=aggregate,
            )

    # --- generations

    async def _restore(self, partition: Partition, generation: int) -> Shard | None:
        if self._stage.consumer.membership().generation != generation:
            return None
        mine = self._stage.consumer.assignment()
        self._shards = {p: s for p, s in self._shards.items() if s.generation == generation or p in mine}
        reached("assigned")
        started = time.monotonic()
        await self._stage.sink.begin_life()
        await asyncio.to_thread(self._look_at_ledger)
        if partition.partition >= self._partitions:
            return None  # one of those that are ignored: nothing is in them
        partition_offsets = await asyncio.to_thread(self._stage.offsets.partition_offsets, [partition])
        at = partition_offsets[partition]
        before = self._shards.get(partition)
        kept = before is not None and at.committed is not None and before.is_as_committed(at.committed)
        if before is not None and kept:
            shard = before
            shard.generation = generation
            position_of(partition, at, known=True)
        else:
            self._shards.pop(partition, None)  # its room is for what is read now
            shard = await self._read_shard(partition, generation, at)
        self._shards[partition] = shard
        self._stage.committed[partition] = shard.next_offset
        reached("restored")
        log.info(
            "partition assigned",
            partition=str(partition),
            generation=generation,
            next_offset=shard.next_offset,
            aggregates=len(shard.states),
            held=len(shard.held),
            mode=shard.mode,
            kept=kept,
            seconds=round(time.monotonic() - started, 3),
        )
        return shard

    async def _read_shard(self, partition: Partition, generation: int, at: PartitionOffsets) -> Shard:
        changelog = Partition(self._settings.state_topic, partition.partition)
        mode: Mode = "live" if self._settings.generation == ORIGINAL else "shadow"
        shard = Shard(self._context, partition, changelog, generation, at.committed or 0, mode)
        await asyncio.to_thread(self._read_states, shard)
        if position_of(partition, at, known=shard.begun) > 0 and at.committed is None:
            raise GapError(
                f"{partition}: its log begins at {at.start}, and no translator has read what was before",
                hint="retention was too short for how long no translator was there; docs/runbooks.md, 'After a gap'",
            )
        if shard.mode == "live" and self._settings.generation != ORIGINAL:
            await self._create_business_topics()
        return shard

    def _read_states(self, shard: Shard) -> None:
        # The end is the high watermark, and asked for after the committed offsets: see the sequencer's.
        end = self._stage.offsets.ends([shard.changelog])[shard.changelog]
        history: bytes | None = None
        for key, value, _ in read_partition(self._settings.kafka_access, shard.changelog, end):
            shard.begun = True
            if key is None:
                continue
            if key == CUT_KEY and value is not None:
                shard.mode = "live" if value == b"live" else "retired"
            elif key == HISTORY_KEY:
                history = value
            elif key == BEGUN_KEY:
                pass
            else:
                shard.load(key, value)
        shard.loaded()
        if shard.next_offset > 0:
            check_history(self._domain, history, self._settings.generation)

    def _look_at_ledger(self) -> None:
        if self._ledger is None:
            self._ledger = LedgerReader(self._settings.kafka_access, self._settings.source)
        self._ledger.catch_up().check_runs(self._settings.generation)
        self._check_partitions()

    def _check_partitions(self) -> None:
        """How many partitions count.

        Raises:
            GenerationError: the topics have another number.
        """
        assert self._ledger is not None
        have = self._stage.topics.partitions()
        self._partitions = partitions_of(have, self._ledger.ledger, self._settings)

    async def tick(self) -> None:
        """Measure the size of the state, and now and then who reads the business topics."""
        now = time.monotonic()
        await self._take_over()
        modes = {shard.mode for shard in self._shards.values()}
        if self._ledger is not None:
            await asyncio.to_thread(self._ledger.poll)
            if now - self._counted_at > _COUNT_SECONDS:
                self._counted_at = now
                await asyncio.to_thread(self._check_partitions)
            self._stage.note_generation(self._ledger.ledger, "", ended=modes == {"retired"})
        every = self._settings.readers_seconds
        # One member of the group is enough: the one that has the first partition.
        first = Partition(self._settings.change_sets_topic, 0)
        if (
            every
            and modes == {"live"}
            and first in self._stage.consumer.assignment()
            and now - self._asked_for_readers_at > every
        ):
            self._asked_for_readers_at = now
            await self._show_readers()
        await self._pass(now)
        shards = [shard for shard in self._shards.values() if not self._stage.sink.is_lost(shard.generation)]
        metrics.STATE_ENTRIES.labels("translator").set(sum(len(shard.states) for shard in shards))
        self._stage.health.set("aggregates", True, self._held_metrics.show(shards))

    def unrestored(self) -> int:
        """Partitions that are ours and have no state here yet; those that are ignored never have any."""
        mine = self._stage.consumer.assignment()
        return sum(
            1
            for one in mine
            if one not in self._shards and (not self._partitions or one.partition < self._partitions)
        )

    async def _take_over(self) -> None:
        """Look at each partition that is ours, also where no change set comes."""
        generation = self._stage.consumer.membership().generation
        for partition in sorted(self._stage.consumer.assignment()):
            shard = self._shards.get(partition)
            if not self._stage.sink.is_lost(generation) and (shard is None or shard.generation != generation):
                await self._restore(partition, generation)

    async def _pass(self, now: float) -> None:
        """Commit what is never delivered (control records) as read, too: retention may delete it."""
        if now - self._passed_at < _PASS_SECONDS:
            return
        self._passed_at = now
        for partition, shard in self._shards.items():
            position = self._stage.consumer.passed(shard.generation).get(partition, 0)
            if position > shard.next_offset and not self._stage.sink.is_lost(shard.generation):
                shard.next_offset = position
                offsets = {partition: position}
                done = functools.partial(self._committed, shard, BatchResult(), offsets)
                await self._stage.sink.add(shard.generation, offsets, on_commit=done)

    async def _show_readers(self) -> None:
        try:
            have = await asyncio.to_thread(self._stage.topics.partitions)
            topics = {one.topic: have[one.topic] for one in self._versions if one.topic in have}
            readers = await asyncio.to_thread(self._readers.of, topics)
        except BrokerError as error:
            # Not being allowed to look at groups is no reason to stop publishing.
            log.warning("who reads the business topics is not known", error=str(error))
            return
        self._reader_metrics.show(self._versions, readers, time.time())


def _report(result: BatchResult) -> None:
    """Count and log what became of letters in a batch."""
    for place, rule in result.repeated:
        shard_log.info("a letter that was dealt with before", place=place, rule=rule)
    for closed in result.closed:
        report_closed(closed)
    for letter in result.letters:
        report(letter)


def show_lifecycle(event: type[BusinessEvent]) -> None:
    """Put what a version's contract says of its end into the metrics."""
    lifecycle = lifecycle_of(contract_of(event))
    names = (event.__event__, f"v{event.__major__}")
    for day, metric in (
        (lifecycle.deprecated, metrics.TRANSLATOR_DEPRECATED),
        (lifecycle.sunset, metrics.TRANSLATOR_SUNSET),
    ):
        if day is not None:
            metric.labels(*names).set(midnight(day).timestamp())
