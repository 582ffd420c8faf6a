"""Fills a generation from the lakehouse's log: the sequencer itself, with a directory in Kafka's place.

What it makes is as if a sequencer of this generation had read the topics so far: change sets, what must be remembered, and
the offsets from which the technical topics are needed, each in one Kafka transaction under the sequencer's own transactional
id. So the sequencer that is started then goes on in the topics where the log ends, without gap or repeat: an offset in the
log is the offset in the topic. A run that was ended in its middle is repeated, with the same history or a later one.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tidings_domain.aggregate.rows import time_columns
from tidings_domain.loading.domain import Domain
from tidings_service import Health
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Batch, Output, Partition
from tidings_translator.base.settings import DAY_SECONDS, SequencerSettings
from tidings_translator.generations.from_lake.history import Lake, LakePartition
from tidings_translator.generations.generations import Generations, source_topics
from tidings_translator.kafka.offsets import Offsets, PartitionOffsets
from tidings_translator.kafka.topics import Topics
from tidings_translator.kafka.transactions import Membership, TransactionalProducer
from tidings_translator.ledger.ledger import Ledger, Started, check_name
from tidings_translator.ledger.records import GenerationAdmin
from tidings_translator.sequencer.sequencer import Sequencer

_BATCH = 500
_PENDING = 1_000
_SESSION = 1
_NOTIFY_SECONDS = 10.0
_QUIET_ROUNDS = 3
"""So often nothing new may come of it before the log is at its end: a snapshot's end takes two ticks."""

Notify = Callable[[str], None]


class _Sink:
    """Gathers what the sequencer makes and commits it, with offsets of a group that has no members."""

    def __init__(self, producer: TransactionalProducer, member: Membership) -> None:
        self._producer = producer
        self._member = member
        self._outputs: list[Output] = []
        self._offsets: dict[Partition, int] = {}
        self._state: dict[tuple[Partition, bytes], bytes | None] = {}
        self._alive = False

    async def begin_life(self) -> None:
        if not self._alive:
            self._producer.begin_life()
            self._alive = True

    def is_lost(self, _generation: int) -> bool:
        return False

    async def add(
        self,
        _generation: int,
        offsets: Mapping[Partition, int],
        outputs: Iterable[Output] = (),
        *,
        state: Mapping[tuple[Partition, bytes], bytes | None] | None = None,
        on_commit: Callable[[], None] | None = None,
    ) -> bool:
        del on_commit
        self._outputs += outputs
        self._offsets.update(offsets)
        self._state.update(state or {})
        if len(self._outputs) + len(self._state) >= _PENDING:
            self.commit()
        return True

    def commit(self) -> None:
        """Commit what was gathered."""
        if not self._offsets:
            return
        changelog = [
            Output(partition.topic, key, value, None, partition.partition)
            for (partition, key), value in self._state.items()
        ]
        self._producer.transact(self._outputs + changelog, self._offsets, self._member)
        self._outputs, self._offsets, self._state = [], {}, {}


class _LakeOffsets:
    """Committed offsets of Kafka's; the ends are the log's, where it has the partition."""

    def __init__(self, offsets: Offsets, lake: Lake) -> None:
        self._offsets = offsets
        self._lake = lake

    def partition_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, PartitionOffsets]:
        """Kafka's retention is nothing to the log: it holds its partitions from their beginnings."""
        found = self._offsets.partition_offsets(partitions)
        return {one: at._replace(start=0, end=max(at.end, at.committed or 0)) for one, at in found.items()}

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        wanted = list(partitions)
        spans = self._lake.spans
        ends = self._offsets.ends([one for one in wanted if one not in spans])
        return ends | {one: spans[one][1] + 1 for one in wanted if one in spans}


class _LakeConsumer:
    """The directory as the only member of a consumer group."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self.partitions: dict[Partition, LakePartition] = {}
        self.paused: set[Partition] = set()

    def membership(self) -> Membership:
        return self._member._replace(generation=_SESSION)

    def assignment(self) -> set[Partition]:
        return set(self.partitions)

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused = set(partitions)

    def subscribe(self, _topics: Iterable[str]) -> bool:
        return False

    def passed(self, _generation: int) -> dict[Partition, int]:
        return {one: partition.position for one, partition in self.partitions.items()}


class _LakeStage:
    """What the sequencer's work uses of a `Stage`."""

    name = "sequencer"

    def __init__(self, settings: SequencerSettings, lake: Lake, kafka_offsets: Offsets) -> None:
        self.settings = settings
        self.health = Health()
        self.topics = Topics(settings.kafka_access)
        self.offsets = _LakeOffsets(kafka_offsets, lake)
        member = Membership(settings.group, "", -1, None)
        producer = TransactionalProducer(
            settings.kafka_access,
            settings.group,
            transaction_timeout_seconds=settings.transaction_timeout_seconds,
        )
        self.sink = _Sink(producer, member)
        self.consumer = _LakeConsumer(member)
        self.committed: dict[Partition, int] = {}

    def note_generation(self, ledger: Ledger, detail: str, *, ended: bool) -> None:
        """Nobody looks."""

    def note_committed(self, _offsets: dict[Partition, int]) -> Callable[[], None]:
        return lambda: None


class Filling:
    """Fills one generation.

    Args:
        settings: the sequencer's, of the generation.
        domain: the generation's rules.
        lake: what the lakehouse has written.
    """

    def __init__(self, settings: SequencerSettings, domain: Domain, lake: Lake) -> None:
        self._settings = settings
        self._domain = domain
        self._lake = lake
        self._offsets = Offsets(settings.kafka_access, settings.group)
        self._stage = _LakeStage(settings, self._lake, self._offsets)

    def fill(self, notify: Notify) -> tuple[int, dict[Partition, int]]:
        """Read the log to its end.

        Returns:
            The commit LSN that it has got to, and from which offset each partition is needed in Kafka.

        Raises:
            GenerationError: the log cannot be put together to transactions.
        """
        try:
            commit_lsn = asyncio.run(self._fill(notify))
            return commit_lsn, self._offsets.committed(list(self._lake.spans))
        finally:
            self._offsets.close()

    async def _fill(self, notify: Notify) -> int:
        stage, settings = self._stage, self._settings
        topics = source_topics(settings.source, self._domain)
        mine = sorted(partition for partition in self._lake.spans if partition.topic in topics)
        await stage.sink.begin_life()  # another run of the command is over now
        committed = self._offsets.committed(mine)
        stage.consumer.partitions = {one: self._lake.open(one, committed[one]) for one in mine}
        work = Sequencer(settings, self._domain, stage, filling=True)
        stage.topics.create(work.topic_plans(stage.topics.partitions()), replication=settings.replication)
        readers = stage.consumer.partitions
        moved = told = time.monotonic()
        patience = settings.malformed_grace_seconds + 30
        records = quiet = 0
        while quiet < _QUIET_ROUNDS:
            read = 0
            for partition, reader in readers.items():
                if partition not in stage.consumer.paused and not reader.exhausted:
                    batch = reader.next(_BATCH)
                    if batch:
                        read += len(batch)
                        await work.handle(Batch(partition, _SESSION, batch))
            await work.tick()
            records += read
            now = time.monotonic()
            if read:
                moved, quiet = now, 0
            elif all(reader.exhausted for reader in readers.values()):
                quiet += 1
            elif now - moved > patience:
                _, waiting = await work.finish()
                raise GenerationError(f"the log cannot be put together to transactions: {waiting}")
            else:
                await asyncio.sleep(0.05)
            if now - told > _NOTIFY_SECONDS:
                told = now
                notify(f"{records} records read")
        commit_lsn, _ = await work.finish()
        stage.sink.commit()
        notify(f"{records} records read")
        return commit_lsn


def start_from_lake(
    settings: SequencerSettings,
    domain: Domain,
    directory: Path,
    notify: Notify,
    *,
    partitions: int | None = None,
) -> Started:
    """Start a generation (`settings.generation`) with the lakehouse's log; its processes wait until this is done.

    A run that was ended in its middle is repeated, also with a history that was written later.

    Raises:
        GenerationError: history would have a gap, or the name cannot be used.
    """
    name = check_name(settings.generation)
    generations = Generations(settings.kafka_access, settings.source, replication=settings.replication)
    read, admin = generations.read_topics(domain), GenerationAdmin(settings.kafka_access)
    lake = Lake(directory, settings.source, time_columns(domain.aggregates.values()))
    lake.check(
        source_topics(settings.source, domain),
        settings.transaction_topic,
        firsts=admin.first_offsets(read),
        topic_ids=admin.topic_ids(read),
    )
    started = generations.start(
        name,
        domain,
        partitions=settings.partitions,
        exactly=partitions,
        from_lake=True,
        kept_seconds=settings.change_sets_days * DAY_SECONDS,
    )
    if generations.ledger().is_filled(name):
        return started
    commit_lsn, needed = Filling(settings, domain, lake).fill(notify)
    # Kafka may have deleted more meanwhile.
    for partition, first in sorted(admin.first_offsets(read).items()):
        if first > needed.get(partition, 0):
            raise GenerationError(
                f"history is not whole: {partition} is needed from offset {needed.get(partition, 0)} on, and Kafka's begins"
                f" at {first}",
                hint="let the lakehouse catch up, write its history again to another directory, and repeat this",
            )
    generations.filled(name, commit_lsn)
    return started
