"""Fills a generation from a replay: its shadow events, the states of its aggregates, and what its sequencer remembers.

What is there at the end is as if both stages of this generation had read the topics up to the replay's last commit. So those that
are started then go on behind it, without gap or repeat. Each part is one Kafka transaction under the sequencer's own
transactional id, with how far the files are written, among what the sequencer remembers; a run that was ended in its middle is
repeated and goes on there.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from tidings_domain.language.events import topic_of
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory
from tidings_envelope.registry import RegistryClient
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Output, Partition
from tidings_translator.base.settings import DAY_SECONDS, SequencerSettings, TranslatorSettings
from tidings_translator.generations.from_lake.filling import Notify
from tidings_translator.generations.from_replay.directory import Event, ReplayDirectory, State
from tidings_translator.generations.generations import Generations, source_topics
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.reading import read_partition
from tidings_translator.kafka.topics import Topics
from tidings_translator.kafka.transactions import Membership, TransactionalProducer
from tidings_translator.ledger.ledger import Started, check_name
from tidings_translator.ledger.partition_count import partition_of
from tidings_translator.ledger.records import GenerationAdmin
from tidings_translator.sequencer.changelog import Changelog
from tidings_translator.sequencer.session import READ
from tidings_translator.sequencer.topic_plans import sequencer_plans
from tidings_translator.translation.contracts import register_contracts, translator_plans

_WRITTEN = "\0replay"
"""As the table of remembered rows: of which replay the files are written, and how far. No table has such a name."""
_MOST_RECORDS = 5_000
_MOST_BYTES = 8 * 1024 * 1024
"""Of one Kafka transaction."""
_NOTIFY_SECONDS = 10.0


class Filling:
    """Fills one generation.

    Args:
        sequencer: the settings of its sequencer.
        translator: those of its translators.
        domain: its rules.
        replay: what the lakehouse has written.
    """

    def __init__(
        self,
        sequencer: SequencerSettings,
        translator: TranslatorSettings,
        domain: Domain,
        replay: ReplayDirectory,
    ) -> None:
        self._sequencer, self._translator = sequencer, translator
        self._domain = domain
        self._replay = replay
        self._state = Partition(sequencer.sequencer_state_topic, 0)
        self._memory = Memory()
        self._producer = TransactionalProducer(
            sequencer.kafka_access,
            sequencer.group,
            transaction_timeout_seconds=sequencer.transaction_timeout_seconds,
        )
        self._member = Membership(sequencer.group, "", -1, None)

    def fill(self, notify: Notify) -> None:
        """Write all that is not written yet."""
        settings = self._sequencer
        topics = Topics(settings.kafka_access)
        partitions = topics.partitions()[settings.change_sets_topic]
        events = map(topic_of, self._domain.event_classes())
        plans = [
            *sequencer_plans(settings),
            *translator_plans(self._translator, partitions, map(self._translator.shadow_topic, events)),
        ]
        topics.create(plans, replication=settings.replication)
        access = self._translator.registry_access
        with RegistryClient(access.url, **access.client_arguments()) as registry:
            frames = register_contracts(self._domain, registry)
        self._producer.begin_life()  # another run of the command is over now
        start = self._written()
        if start is None:
            return
        told, records = time.monotonic(), 0
        for outputs, place in self._parts(start, frames, partitions):
            written = {"replay": self._replay.digest, "file": place[0], "line": place[1]}
            self._memory.set_row(_WRITTEN, "", written)
            self._producer.transact([*outputs, *self._remembered()], {}, self._member)
            records += len(outputs)
            if time.monotonic() - told > _NOTIFY_SECONDS:
                told = time.monotonic()
                notify(f"{records} records written")
        self._finish(partitions)
        notify(f"{records} records written")

    def _written(self) -> tuple[int, int] | None:
        """The file and the line from which on nothing is written yet; None when all is.

        Raises:
            GenerationError: another replay was begun with.
        """
        offsets = Offsets(self._sequencer.kafka_access, self._sequencer.group)
        try:
            end = offsets.ends([self._state])[self._state]
        finally:
            offsets.close()
        changelog = Changelog()
        for key, value, _ in read_partition(self._sequencer.kafka_access, self._state, end):
            if key is not None:
                changelog.load(key, value)
        written = changelog.memory.row(_WRITTEN, "")
        if written is not None and written["replay"] != self._replay.digest:
            raise GenerationError(
                f"generation '{self._sequencer.generation}' was begun with another replay",
                hint="give the directory of that one, or discard the generation and start another one, under another name",
            )
        if changelog.progress.commit_lsn is not None:
            return None
        return (0, 0) if written is None else (written["file"], written["line"])

    def _parts(
        self, start: tuple[int, int], frames: dict[str, bytes], partitions: int
    ) -> Iterator[tuple[list[Output], tuple[int, int]]]:
        """What goes into one Kafka transaction each, and the place behind it."""
        outputs: list[Output] = []
        size = 0
        for file in range(start[0], len(self._replay.files)):
            first = start[1] if file == start[0] else 0
            line = first
            for line, one in enumerate(self._replay.lines(file, first), first + 1):
                output = self._output(one, frames, partitions)
                outputs.append(output)
                size += len(output.value or b"")
                if len(outputs) >= _MOST_RECORDS or size >= _MOST_BYTES:
                    yield outputs, (file, line)
                    outputs, size = [], 0
            if outputs:
                yield outputs, (file, line)
                outputs, size = [], 0

    def _output(
        self, one: Event | State | tuple[bytes, bytes], frames: dict[str, bytes], partitions: int
    ) -> Output:
        if isinstance(one, Event):
            topic = self._translator.shadow_topic(one.topic)
            return Output(topic, one.key, frames[one.topic] + one.body, one.headers)
        key, value = one
        if isinstance(one, State):
            return Output(self._translator.state_topic, key, value, None, partition_of(key, partitions))
        return Output(self._state.topic, key, value, None, self._state.partition)

    def _remembered(self) -> list[Output]:
        changes = self._memory.take_changes().items()
        return [Output(self._state.topic, key, value, None, self._state.partition) for key, value in changes]

    def _finish(self, partitions: int) -> None:
        """The progress and the offsets, with which the stages have begun."""
        translator = Membership(self._translator.group, "", -1, None)
        change_sets = self._sequencer.change_sets_topic
        nothing_read = {Partition(change_sets, number): 0 for number in range(partitions)}
        self._producer.transact([], nothing_read, translator)
        topics = source_topics(self._sequencer.source, self._domain)
        needed = {one: at for one, at in self._replay.needed.items() if one.topic in topics}
        for one in needed:
            self._memory.set_row(READ, str(one), {"from": 0})
        changelog = Changelog()
        changelog.progress = self._replay.progress()
        progress = [
            Output(self._state.topic, key, value, None, self._state.partition)
            for key, value in changelog.take_progress().items()
        ]
        self._producer.transact([*self._remembered(), *progress], needed, self._member)


def start_from_replay(
    sequencer: SequencerSettings,
    translator: TranslatorSettings,
    domain: Domain,
    directory: Path,
    notify: Notify,
    *,
    partitions: int | None = None,
    despite_letters: bool = False,
) -> Started:
    """Start a generation (`sequencer.generation`) at the commit up to which the lakehouse has replayed its rules; its processes wait
    until this is done.

    A run that was ended in its middle is repeated with the same directory.

    Args:
        sequencer: the settings of its sequencer.
        translator: those of its translators.
        domain: its rules.
        directory: what ``tidings-lakehouse replay --generation`` has written.
        notify: is told how far it is.
        partitions: see `Generations.start`.
        despite_letters: that change sets have failed in part, whose dead letters it will not have, is no reason to refuse.

    Raises:
        GenerationError: history would have a gap, or the name, or the directory, cannot be used.
    """
    name = check_name(sequencer.generation)
    if translator.cloudevents_mode != "binary":
        raise GenerationError(
            "a replay has its events in Avro, and TIDINGS_CLOUDEVENTS_MODE=structured publishes JSON",
            hint="begin with the log instead: tidings-lakehouse history, generations start --from-lake",
        )
    generations = Generations(sequencer.kafka_access, sequencer.source, replication=sequencer.replication)
    read, admin = generations.read_topics(domain), GenerationAdmin(sequencer.kafka_access)
    replay = ReplayDirectory(directory, sequencer.source, domain)
    if replay.letters and not despite_letters:
        raise GenerationError(
            f"{replay.letters} change sets have failed in part when they were replayed, and the generation would not have their dead"
            " letters",
            hint="mend the rules and replay again, begin with the log (--from-lake), or give --despite-letters",
        )
    topic_ids = admin.topic_ids(read)
    replay.check(read.keys(), firsts=admin.first_offsets(read), topic_ids=topic_ids)
    started = generations.start(
        name,
        domain,
        partitions=sequencer.partitions,
        exactly=partitions,
        from_replay=True,
        kept_seconds=sequencer.change_sets_days * DAY_SECONDS,
    )
    if generations.ledger().is_filled(name):
        return started
    Filling(sequencer, translator, domain, replay).fill(notify)
    # Kafka may have deleted more meanwhile.
    replay.check(read.keys(), firsts=admin.first_offsets(read), topic_ids=topic_ids)
    generations.filled(name, replay.commit_lsn)
    return started
