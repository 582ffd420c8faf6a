"""Starts, lists, promotes and discards generations, for the command.

The command only writes what is wanted into the ledger; the stages do it (see `ledger.gate`). So a command that is
killed leaves nothing half done: run it again.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from tidings_domain.loading.domain import Domain
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import ORIGINAL, group, ledger_topic, prefix
from tidings_translator.base.records import Partition
from tidings_translator.base.settings import DAY_SECONDS
from tidings_translator.generations.letters import check_discard, check_promotion, letters_of
from tidings_translator.kafka.topics import TopicPlan, Topics
from tidings_translator.ledger.ledger import Fact, Ledger, Promotion, Started, check_name, step_of
from tidings_translator.ledger.records import GenerationAdmin, LedgerReader, LedgerWriter, newest_value
from tidings_translator.sequencer.assembly.progress import PROGRESS_KEY, decode_progress

_STAGES = ("sequencer", "translator")
_LOOK_SECONDS = 0.3


def source_topics(source: str, domain: Domain) -> set[str]:
    """The technical topics that a generation with this domain reads, whether they exist or not."""
    return {f"{source}.transaction", *(f"{source}.{table}" for table in domain.tables)}


class GenerationOverview(msgspec.Struct, frozen=True):
    """How a generation is doing.

    Attributes:
        name: of the generation.
        status: live, shadow, taking over, handing over, retired, or discarded.
        package: the domain's Python package it was started with; empty for the original.
        started: when, RFC 3339; empty for the original.
        complete: the technical topics held all of history when it was started.
        commit_lsn: of the last transaction that its sequencer has let out; None before the first.
        behind_rows: technical records that its sequencer has still to read, about.
        behind_change_sets: change sets that its translators have still to read, about.
        processes: members of its consumer groups, sequencers and translators.
        cut: the commit LSN up to which (retired) or after which (live) its events are on the business topics.
    """

    name: str
    status: str
    package: str
    started: str
    complete: bool
    commit_lsn: int | None
    behind_rows: int
    behind_change_sets: int
    processes: tuple[int, int]
    cut: int | None


class Generations:
    """The generations of one source.

    Args:
        kafka: the cluster.
        source: the topic prefix.
        replication: of topics that are created.
    """

    def __init__(self, kafka: KafkaAccess, source: str, *, replication: int = 1) -> None:
        self._kafka = kafka
        self._source = source
        self._replication = replication
        self._topics = Topics(kafka)
        self._admin = GenerationAdmin(kafka)

    # --- start

    def start(
        self,
        name: str,
        domain: Domain,
        *,
        partitions: int,
        exactly: int | None = None,
        from_lake: bool = False,
        from_replay: bool = False,
        kept_seconds: float = 30 * DAY_SECONDS,
    ) -> Started:
        """Make room for a generation; its processes, which wait for this, then read the technical topics from the start.

        Args:
            name: of the new generation; names are used once.
            domain: with the rules of the new generation.
            partitions: of its change sets; where the live generation's exist, as many as those have.
            kept_seconds: how long Kafka keeps its change sets; 0 for ever.
            exactly: of its change sets and states, whatever the live generation has.
            from_lake: its processes wait until `filled` is told; history need not be in the topics.
            from_replay: likewise.

        Raises:
            GenerationError: the name cannot be used, or history is not whole.
        """
        check_name(name)
        have = self._topics.partitions()
        if not (from_lake or from_replay):
            self._check_history(have, domain)
        self._topics.create(
            [TopicPlan(ledger_topic(self._source), 1, compacted=True)], replication=self._replication
        )
        with LedgerWriter(self._kafka, self._source) as turn:
            ledger = self.ledger()
            known = ledger.generations.get(name)
            if known is not None and known.discarded:
                raise GenerationError(
                    f"generation '{name}' was discarded", hint="names are used once: take another"
                )
            if known is not None and (known.from_lake, known.from_replay) != (from_lake, from_replay):
                raise GenerationError(
                    f"generation '{name}' was started {known.way}",
                    hint="start it again in the same way, or take another name",
                )
            live = f"{prefix(self._source, ledger.live)}.change-sets"
            if known is None:
                known = Started(
                    domain.name, domain.package, _now(), from_lake=from_lake, from_replay=from_replay
                )
                turn.write(f"generation/{name}", known)
        # Last: the processes wait for it.
        count = exactly or have.get(live, partitions)
        change_sets = TopicPlan(f"{prefix(self._source, name)}.change-sets", count, kept_seconds=kept_seconds)
        self._topics.create([change_sets], replication=self._replication)
        return known

    def _check_history(self, have: dict[str, int], domain: Domain) -> None:
        transactions = f"{self._source}.transaction"
        if transactions not in have:
            raise GenerationError(
                f"there is no topic {transactions}", hint="is TIDINGS_SOURCE the connector's topic.prefix?"
            )
        firsts = self._admin.first_offsets(self._read_of(have, domain))
        short = sorted(str(partition) for partition, first in firsts.items() if first > 0)
        if short:
            raise GenerationError(
                f"history is not whole: Kafka has deleted the beginning of {', '.join(short)}",
                hint="rules would take the first change that is left of a row for its creation; keep technical topics"
                " (retention.ms=-1), begin with the lakehouse's log (--from-lake), or have a connector with another topic.prefix take a new snapshot",
            )

    def read_topics(self, domain: Domain) -> dict[str, int]:
        """Of the topics that a generation with this domain reads those that exist, with their partitions."""
        return self._read_of(self._topics.partitions(), domain)

    def _read_of(self, have: dict[str, int], domain: Domain) -> dict[str, int]:
        return {topic: have[topic] for topic in source_topics(self._source, domain) if topic in have}

    def filled(self, name: str, commit_lsn: int) -> None:
        """The lakehouse's log is read; the generation's processes may begin."""
        with LedgerWriter(self._kafka, self._source) as turn:
            turn.write(f"filled/{name}", Fact(commit_lsn))

    # --- look

    def ledger(self) -> Ledger:
        """What is agreed, as of now."""
        if ledger_topic(self._source) not in self._topics.partitions():
            return Ledger()
        reader = LedgerReader(self._kafka, self._source)
        try:
            return reader.catch_up()
        finally:
            reader.close()

    def overviews(self) -> list[GenerationOverview]:
        """Every generation there was, the original first."""
        ledger = self.ledger()
        have = self._topics.partitions()
        names = [ORIGINAL, *sorted(name for name in ledger.generations if name != ORIGINAL)]
        return [self._overview(name, ledger, have) for name in names]

    def _overview(self, name: str, ledger: Ledger, have: dict[str, int]) -> GenerationOverview:
        groups = tuple(group(stage, self._source, name) for stage in _STAGES)
        change_sets = f"{prefix(self._source, name)}.change-sets"
        transactions = f"{self._source}.transaction"
        members = self._admin.members(groups)
        started = ledger.generations.get(name)
        cut = ledger.fact("stopped", name) or ledger.fact("switched", name)
        gone = change_sets not in have
        return GenerationOverview(
            name,
            ledger.status(name),
            "" if started is None else started.package,
            "" if started is None else started.at,
            started is None or started.complete,
            None if gone else self.position(name, have),
            0 if gone else self._admin.behind(groups[0], {t: have[t] for t in [transactions] if t in have}),
            0 if gone else self._admin.behind(groups[1], {change_sets: have[change_sets]}),
            (members.get(groups[0], 0), members.get(groups[1], 0)),
            None if cut is None else cut.at,
        )

    def position(self, name: str, have: dict[str, int]) -> int | None:
        """The commit LSN that a generation's sequencer has got to."""
        topic = f"{prefix(self._source, name)}.sequencer-state"
        if topic not in have:
            return None
        value = newest_value(self._kafka, Partition(topic, 0), PROGRESS_KEY)
        return None if value is None else decode_progress(value).commit_lsn

    # --- promote

    def promote(self, name: str, *, max_behind: int, despite_letters: bool = False) -> Promotion:
        """Ask the stages to hand publishing over; what to watch then is `Ledger.under_way`.

        Args:
            name: of the generation that is to publish.
            max_behind: as many records either may have to read.
            despite_letters: held aggregates and dead letters are no reason to refuse.

        Raises:
            GenerationError: it is not there, not ready, or another promotion is under way.
        """
        with LedgerWriter(self._kafka, self._source) as turn:
            ledger = self.ledger()
            ledger.check_runs(name)
            under_way = ledger.under_way
            if under_way is not None:
                if under_way.new == name:
                    return under_way
                raise GenerationError(
                    f"'{under_way.old}' is handing over to '{under_way.new}'",
                    hint="wait for it, then try again",
                )
            if ledger.live == name:
                return ledger.promotion or Promotion(name, name)
            if ledger.status(name) != "shadow":
                raise GenerationError(
                    f"generation '{name}' is {ledger.status(name)}",
                    hint="wait until it has read what the lakehouse has written"
                    if ledger.status(name) == "filling"
                    else "start a new generation with its rules and promote that",
                )
            have = self._topics.partitions()
            if not despite_letters:
                letters = [
                    (one, letters_of(self._kafka, self._source, one, have)) for one in (ledger.live, name)
                ]
                check_promotion(letters[0], letters[1])
            for one in (ledger.live, name):
                self._check_ready(self._overview(one, ledger, have), max_behind)
            promotion = Promotion(ledger.live, name)
            turn.write("promotion", promotion)
            return promotion

    def _check_ready(self, overview: GenerationOverview, max_behind: int) -> None:
        for stage, members in zip(_STAGES, overview.processes, strict=True):
            if members == 0:
                raise GenerationError(
                    f"no {stage} of generation '{overview.name}' is running; nothing would be published until one is",
                    hint=f"start a tidings-{stage} with TIDINGS_GENERATION={overview.name}",
                )
        behind = overview.behind_rows + overview.behind_change_sets
        if behind > max_behind:
            raise GenerationError(
                f"generation '{overview.name}' is {behind} records behind; publishing would stand still meanwhile",
                hint="wait until it has caught up, or allow more with --max-behind",
            )

    def watch(self, promotion: Promotion, notify: Callable[[str], None], *, timeout_seconds: float) -> bool:
        """Follow a promotion, telling each step; whether it was finished in time."""
        reader = LedgerReader(self._kafka, self._source)
        said = ""
        deadline = time.monotonic() + timeout_seconds
        try:
            while True:
                ledger = reader.catch_up()
                step = step_of(ledger, promotion)
                if step != said:
                    notify(step)
                    said = step
                if ledger.live == promotion.new:
                    return True
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_SECONDS)
        finally:
            reader.close()

    # --- discard

    def discard(self, name: str, *, despite_letters: bool = False) -> list[str]:
        """Remove a shadow or retired generation: consumer groups, change sets, state, shadow topics.

        The dead letters of a generation that has published are kept. A generation that is discarded already is looked
        through again.

        Args:
            name: of the generation.
            despite_letters: remove it also if it has published and has left something that only it can publish.

        Returns:
            What was removed.

        Raises:
            GenerationError: it publishes, is about to, has processes, or has left something behind.
        """
        with LedgerWriter(self._kafka, self._source) as turn:
            ledger = self.ledger()
            started = ledger.generations.get(name)
            status = ledger.status(name)
            if started is None and name != ORIGINAL:
                ledger.check_runs(name)
            if status not in {"shadow", "filling", "retired", "discarded"}:
                raise GenerationError(
                    f"generation '{name}' is {status}",
                    hint="promote another one first" if status == "live" else "wait until that is finished",
                )
            have = self._topics.partitions()
            if status == "retired" and not despite_letters:
                check_discard(name, letters_of(self._kafka, self._source, name, have))
            groups = [group(stage, self._source, name) for stage in _STAGES]
            running = [one for one, members in self._admin.members(groups).items() if members]
            if running:
                raise GenerationError(
                    f"generation '{name}' has processes in {', '.join(running)}",
                    hint="stop them; Kafka counts one that has stopped until TIDINGS_SESSION_TIMEOUT_SECONDS are over",
                )
            if status != "discarded":
                known = started or Started("", "", "")
                turn.write(f"generation/{name}", msgspec.structs.replace(known, discarded=True))
        published = ledger.fact("stopped", name) is not None
        topics = [topic for topic in self._topics.partitions() if self._is_own(topic, name, published)]
        return [*self._admin.remove_groups(groups), *self._admin.remove_topics(topics)]

    def _is_own(self, topic: str, name: str, published: bool) -> bool:
        own = prefix(self._source, name)
        if published and topic == f"{own}.dead-letters":
            return False
        if name == ORIGINAL:
            return topic in {f"{own}.change-sets", f"{own}.sequencer-state", f"{own}.state"}
        return topic.startswith(f"{own}.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
