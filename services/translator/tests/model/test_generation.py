"""The ledger and the gate: two sequencers that agree on a cut, in every order in which they can get to act."""

import asyncio
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from tidings_domain import Aggregate, Domain
from tidings_domain.errors import SequenceError
from tidings_domain.evaluation.tracing import Traces
from tidings_domain.language.rules import Rule
from tidings_domain.language.sites import Site
from tidings_domain.routing.router import Router
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Output, Partition
from tidings_translator.base.settings import SequencerSettings
from tidings_translator.ledger.gate import Gate, fact_record
from tidings_translator.ledger.ledger import (
    CUT_KEY,
    Cut,
    Fact,
    Ledger,
    Promotion,
    Started,
    check_name,
    decode_cut,
)
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.changelog import Changelog
from tidings_translator.sequencer.emission import Emission
from tidings_translator.sequencer.session import Session
from tidings_translator.translation.history import check_history, rules_since_the_beginning

if TYPE_CHECKING:
    from tidings_translator.stage.protocols import StageParts

LEDGER = "ledger"
PARTITIONS = 2


def told(ledger: Ledger, key: str, value: msgspec.Struct) -> None:
    ledger.load(key.encode(), msgspec.json.encode(value))


class Sequencer:
    """A sequencer that reads the commits 1, 2, 3, …; what it has committed survives `restart`, the rest does not."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger = ledger
        self.name = name
        self.committed = 0
        self.let_out: list[int | Cut] = []
        self.restart()

    def restart(self) -> None:
        self.gate = Gate(self.ledger, self.name, LEDGER, (f"{self.name}-sets", PARTITIONS))

    def step(self, upto: int, *, killed: bool = False) -> None:
        """Read up to commit `upto` and commit what follows; or be killed before the transaction is committed."""
        self.gate.look()
        outputs: list[Output | int] = []
        position = self.committed
        if not self.gate.shut:
            for commit in range(self.committed + 1, upto + 1):
                outputs += self.gate.before(commit)
                outputs.append(commit)
                position = commit
        outputs += self.gate.after(position)
        if killed:
            self.restart()
            return
        self.committed = position
        for output in outputs:
            if isinstance(output, int):
                self.let_out.append(output)
            elif output.topic == LEDGER:
                self.ledger.load(output.key or b"", output.value or b"")
            elif output.partition == 0:
                assert output.key == CUT_KEY
                self.let_out.append(decode_cut(output.value or b""))


class Translator:
    """Publishes what its sequencer lets out, in both partitions at its own pace; all commits are in each of them."""

    def __init__(self, sequencer: Sequencer, mode: str) -> None:
        self.sequencer = sequencer
        self.modes = [mode] * PARTITIONS
        self.done = [0] * PARTITIONS
        self.published: list[list[int]] = [[] for _ in range(PARTITIONS)]

    def step(self, partition: int, count: int) -> None:
        for what in self.sequencer.let_out[self.done[partition] :][:count]:
            self.done[partition] += 1
            if isinstance(what, Cut):
                self.modes[partition] = what.mode
                kind = "live" if what.mode == "live" else "passed"
                record = fact_record(LEDGER, Fact(what.at), kind, self.sequencer.name, partition)
                self.sequencer.ledger.load(record.key or b"", record.value or b"")
            elif self.modes[partition] == "live":
                self.published[partition].append(what)


@pytest.mark.parametrize("seed", range(50))
def test_every_commit_is_published_once_and_in_order_whoever_acts_first(seed: int) -> None:
    """The business topic is one list for both generations here: the order in which they publish is the topic's order."""
    chance = random.Random(seed)
    ledger = Ledger()
    told(ledger, "generation/new", Started("shop", "shop", ""))
    old, new = Sequencer(ledger, "original"), Sequencer(ledger, "new")
    translators = [Translator(old, "live"), Translator(new, "shadow")]
    topic: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for translator in translators:
        translator.published = topic
    end, promoted_at, steps = 0, chance.randint(0, 60), 0
    while ledger.live != "new" or not all(one and one[-1] == end for one in topic):
        steps += 1
        assert steps < 5_000, f"seed {seed}: stands still at {topic}"
        if steps < 300:
            end += chance.randint(0, 2)
        elif not end:
            end = 1
        if steps > promoted_at and ledger.promotion is None:
            told(ledger, "promotion", Promotion("original", "new"))
        actor = chance.randrange(4)
        if actor < 2:
            sequencer = (old, new)[actor]
            sequencer.step(chance.randint(min(sequencer.committed, end), end), killed=chance.random() < 0.2)
            if chance.random() < 0.2:
                sequencer.restart()
        else:
            translators[actor - 2].step(chance.randrange(PARTITIONS), chance.randint(0, 5))
    assert topic == [list(range(1, end + 1))] * PARTITIONS, f"seed {seed}"
    assert ledger.status("original") == "retired"
    assert ledger.status("new") == "live"
    assert ledger.under_way is None
    stopped, switched = ledger.fact("stopped", "original"), ledger.fact("switched", "new")
    assert stopped is not None
    assert switched is not None
    assert stopped.at == switched.at


def test_a_sequencer_that_is_beyond_the_cut_publishes_nothing() -> None:
    ledger = Ledger()
    told(ledger, "promotion", Promotion("original", "new"))
    told(ledger, "held/new", Fact(5))
    told(ledger, "stopped/original", Fact(5, 0))
    with pytest.raises(SequenceError, match="beyond the cut"):
        Gate(ledger, "new", LEDGER, ("sets", 1)).after(6)


def test_who_may_run() -> None:
    ledger = Ledger()
    ledger.check_runs("original")
    with pytest.raises(GenerationError, match="was not started"):
        ledger.check_runs("new")
    told(ledger, "generation/new", Started("shop", "shop", ""))
    ledger.check_runs("new")
    assert ledger.status("new") == "shadow"
    assert ledger.status("original") == ledger.live.replace("original", "live")
    told(ledger, "generation/original", Started("", "", "", discarded=True))
    with pytest.raises(GenerationError, match="was discarded"):
        ledger.check_runs("original")


def domain_of(**rules: bool) -> Domain:
    """A domain with rules of these names, which need history or not."""
    made = tuple(
        Rule(name, Aggregate, (), lambda _: None, Site("rules.py", line), history=history)
        for line, (name, history) in enumerate(rules.items(), 1)
    )
    return Domain("shop", "shop", {}, made, {}, {}, {})


def test_a_rule_that_needs_history_must_have_been_there_from_the_beginning() -> None:
    check_history(domain_of(placed=False), None, "original")
    stored = rules_since_the_beginning(domain_of(placed=False, paid=True))
    assert stored is not None
    assert rules_since_the_beginning(domain_of(placed=False)) is None
    check_history(domain_of(paid=True), stored, "original")
    for known in (None, stored):
        with pytest.raises(GenerationError, match=r"'third' \(rules.py:2\) needs all of history.*'autumn'"):
            check_history(domain_of(placed=False, third=True), known, "autumn")


@pytest.mark.parametrize("name", ["original", "", "Capital", "a.b", "a" * 41, "-a", "a/b"])
def test_names_that_a_generation_cannot_have(name: str) -> None:
    with pytest.raises(GenerationError):
        check_name(name)


class Emitted:
    """Stands for the stage: keeps what the sequencer puts into Kafka transactions."""

    def __init__(self) -> None:
        self.sink = self.consumer = self
        self.outputs: list[Output] = []
        self.paused: set[Partition] = set()

    async def add(self, _generation: int, _offsets: Any, outputs: Iterable[Output], **_rest: Any) -> bool:
        self.outputs += outputs
        return True

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused = set(partitions)

    def note_committed(self, _offsets: Any) -> None:
        return None


def test_a_transaction_in_parts_is_finished_before_the_cut_also_by_a_successor() -> None:
    """Half of it has come out before a crash: whoever goes on reads its rows again and must not stop before the rest."""
    ledger, place = Ledger(), Partition("s.transaction", 0)
    told(ledger, "promotion", Promotion("original", "new"))
    told(ledger, "held/new", Fact(30))
    changelog, stage = Changelog(), Emitted()
    memory, progress = changelog.memory, changelog.progress
    progress.finish(1, 40)
    progress.part_out(50, 1, 3, 0)
    settings = SequencerSettings(kafka="k", registry="http://127.0.0.1:1", domain="d", source="s")
    domain = Domain("d", "d", {}, (), {}, {}, {})
    emission = Emission(settings, cast("StageParts", stage))
    assembler = Assembler(frozenset(), progress, {place: 0}, {place.topic: None})
    gate = Gate(ledger, "original", LEDGER, ("sets", PARTITIONS))
    session = Session(
        1, changelog, assembler, Router(domain, memory, progress), gate, Traces(None), PARTITIONS, []
    )
    session.next_offsets = {place: 0}

    assert asyncio.run(emission.emit(session, []))
    assert stage.outputs == []
    progress.parts_done()
    progress.finish(2, 50)
    assert asyncio.run(emission.emit(session, []))
    cuts = [decode_cut(output.value or b"") for output in stage.outputs if output.key == CUT_KEY]
    assert cuts == [Cut("retired", 50)] * PARTITIONS
    assert stage.outputs[-1] == fact_record(LEDGER, Fact(50, PARTITIONS), "stopped", "original")
    assert stage.paused == {place}

    # The new one, too: it is held only when the transaction is out.
    ledger = Ledger()
    told(ledger, "promotion", Promotion("original", "new"))
    progress.part_out(60, 1, 3, 0)
    session.gate = Gate(ledger, "new", LEDGER, ("sets", PARTITIONS))
    assert session.gate.shut
    assert not session.waits
    assert asyncio.run(emission.emit(session, []))
    assert stage.paused == set()
    progress.parts_done()
    progress.finish(3, 60)
    assert session.waits
    assert asyncio.run(emission.emit(session, []))
    assert stage.outputs[-1] == fact_record(LEDGER, Fact(60), "held", "new")
