"""Defines the ledger in which the generations of the rules agree on who publishes.

A generation is one sequencer and its translators with one version of the rules: own consumer groups, own change sets and
state, and, while it does not publish, shadow topics in place of the business topics. The one without a name is the
original. Everything of another begins with ``tidings.<source>.generation.<name>.``, so that it can be removed whole.

The ledger is a compacted topic with one partition, ``tidings.<source>.generations``; keys are text, values JSON:

| Key | Written by | Says |
|---|---|---|
| ``generation/<name>`` | the command | it was started, with what; or discarded |
| ``promotion`` | the command | the last promotion: from which to which |
| ``held/<new>`` | the new one's sequencer | nothing beyond this commit LSN comes out of it until it is released |
| ``stopped/<old>`` | the old one's sequencer | the cut: nothing beyond this commit LSN will ever come out of it |
| ``passed/<old>/<partition>`` | the old one's translator | all of this partition up to the cut is published |
| ``switched/<new>`` | the new one's sequencer | what comes out from here on is to be published |
| ``live/<new>/<partition>`` | the new one's translator | it publishes this partition |
| ``partitions/<name>`` | its sequencer | of change sets and states it has so many partitions, for good |
| ``filled/<name>`` | the command | the lakehouse's log is read, up to this commit LSN: the generation's processes may begin |
| ``corrected/<name>`` | the command | it has begun to publish corrective events, of commits up to this LSN |
| ``domain/<domain>/<name>`` | its sequencer | it makes this domain's events, and no other source did when it began (`other_sources`) |

Each fact is in the same Kafka transaction as that of which it speaks, so it holds if and only if it can be read; and each
is final, because a name is used once. docs/generations.md has the whole protocol, and why there is neither gap nor repeat.
"""

import re
from typing import Literal

import msgspec

from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import NAME, ORIGINAL

CUT_KEY = b"\0cut"
"""Key of a cut in the change sets, and of a partition's mode among the states; no aggregate's begins like this."""

Mode = Literal["live", "shadow", "retired"]
"""What a translator does with the events of a partition: publish, write to shadow topics, nothing any more."""


def check_name(name: str) -> str:
    """The name, if a new generation may have it.

    Raises:
        GenerationError: it may not.
    """
    if name == ORIGINAL or re.fullmatch(NAME, name) is None:
        raise GenerationError(
            f"'{name}' cannot be a generation's name",
            hint="lower-case letters, digits and hyphens, at most 40; 'original' is the one without a name",
        )
    return name


class Started(msgspec.Struct, frozen=True):
    """A generation.

    Attributes:
        domain: the domain's name, such as ``shop``; its topics begin with it.
        package: the Python package that `start` was run with.
        at: when, RFC 3339.
        complete: the technical topics held all of history then; else the state of some aggregates lacks rows.
        discarded: it is no more.
        from_lake: its sequencer's first part is read from the lakehouse's log, by the command.
        from_replay: what both stages begin with is written by the command, from the lakehouse's replay.
    """

    domain: str
    package: str
    at: str
    complete: bool = True
    discarded: bool = False
    from_lake: bool = False
    from_replay: bool = False

    @property
    def way(self) -> str:
        """Where its history comes from, for a person."""
        if self.from_replay:
            return "from the lakehouse's replay"
        return "from the lakehouse" if self.from_lake else "from the topics"


class Promotion(msgspec.Struct, frozen=True):
    """Publishing goes from one generation to another."""

    old: str
    new: str


class Fact(msgspec.Struct, frozen=True):
    """Something that is done: at which commit LSN, and in how many partitions of change sets (where that is needed)."""

    at: int
    partitions: int = 0


class Cut(msgspec.Struct, frozen=True):
    """A record between change sets, in every partition: what the translator does with those that follow it."""

    mode: Literal["live", "retired"]
    at: int
    """The commit LSN up to which (inclusive) the old generation publishes, and after which the new one does."""


def decode_cut(value: bytes) -> Cut:
    """The cut that a gate wrote.

    Raises:
        GenerationError: it is not a cut; nobody can say what the records behind it are to be.
    """
    try:
        return msgspec.json.decode(value, type=Cut)
    except msgspec.DecodeError as error:
        raise GenerationError("a cut among the change sets cannot be read") from error


class Ledger:
    """What the generations of one source have agreed."""

    def __init__(self) -> None:
        self.generations: dict[str, Started] = {}
        self.promotion: Promotion | None = None
        self._facts: dict[str, Fact] = {}

    def load(self, key: bytes, value: bytes) -> None:
        """Take in a record.

        Raises:
            GenerationError: it is not a record of the ledger.
        """
        name = key.decode(errors="replace")
        kind, _, which = name.partition("/")
        try:
            if kind == "generation":
                self.generations[which] = msgspec.json.decode(value, type=Started)
            elif name == "promotion":
                self.promotion = msgspec.json.decode(value, type=Promotion)
            else:
                self._facts[name] = msgspec.json.decode(value, type=Fact)
        except msgspec.DecodeError as error:
            raise GenerationError(f"the ledger's record '{name}' cannot be read") from error

    def fact(self, *name: object) -> Fact | None:
        """``fact("passed", "original", 0)``; None when it is not so yet."""
        return self._facts.get("/".join(map(str, name)))

    def is_filled(self, name: str) -> bool:
        """Whether the lakehouse's log is read, for a generation that begins with it."""
        started = self.generations.get(name)
        is_given = started is None or not (started.from_lake or started.from_replay)
        return is_given or self.fact("filled", name) is not None

    def everywhere(self, kind: str, generation: str, partitions: int) -> bool:
        """Whether a fact holds in every partition."""
        return all(self.fact(kind, generation, number) is not None for number in range(partitions))

    @property
    def domains(self) -> set[str]:
        """The domains whose events the generations make, but for those that were discarded."""
        facts = (name.split("/") for name in self._facts if name.startswith("domain/"))
        begun = {domain for _, domain, name in facts if not self._is_discarded(name)}
        return begun | {one.domain for name, one in self.generations.items() if not self._is_discarded(name)}

    @property
    def has_corrections(self) -> bool:
        """Whether corrective events may be on the business topics."""
        return any(name.startswith("corrected/") for name in self._facts)

    @property
    def under_way(self) -> Promotion | None:
        """The promotion that is not finished."""
        promotion = self.promotion
        return None if promotion is None or self._finished(promotion) else promotion

    @property
    def live(self) -> str:
        """The generation that publishes; while a promotion is under way, the one that published before."""
        promotion = self.promotion
        if promotion is None:
            return ORIGINAL
        return promotion.new if self._finished(promotion) else promotion.old

    def status(self, name: str) -> str:
        """A word for people."""
        promotion = self.under_way
        if self._is_discarded(name):
            return "discarded"
        if promotion is not None and self.hands_over(name):
            return "handing over" if name == promotion.old else "taking over"
        if not self.is_filled(name):
            return "filling"
        if name == self.live:
            return "live"
        if self.fact("stopped", name) is not None:
            return "retired"
        return "shadow"

    def hands_over(self, name: str) -> bool:
        """Whether a generation takes part in the promotion that is not finished."""
        promotion = self.under_way
        return promotion is not None and name in {promotion.old, promotion.new}

    def check_runs(self, name: str) -> None:
        """Whether a process of this generation may work.

        Raises:
            GenerationError: the generation was discarded, or never started.
        """
        if self._is_discarded(name):
            raise GenerationError(
                f"generation '{name}' was discarded; '{self.live}' publishes",
                hint=f"set TIDINGS_GENERATION={self.live}"
                if self.live != ORIGINAL
                else "unset TIDINGS_GENERATION",
            )
        if name not in self.generations and name != ORIGINAL:
            raise GenerationError(
                f"generation '{name}' was not started",
                hint=f"tidings-translator generations start {name}; or is TIDINGS_GENERATION wrong?",
            )

    def _is_discarded(self, name: str) -> bool:
        started = self.generations.get(name)
        return started is not None and started.discarded

    def _finished(self, promotion: Promotion) -> bool:
        switched = self.fact("switched", promotion.new)
        return switched is not None and self.everywhere("live", promotion.new, switched.partitions)


def step_of(ledger: Ledger, promotion: Promotion) -> str:
    """Where a promotion stands, in words."""
    old, new = promotion.old, promotion.new
    if ledger.live == new:
        fact = ledger.fact("switched", new)
        return f"'{new}' publishes" + ("" if fact is None else f" everything after commit {fact.at:X}")
    stopped = ledger.fact("stopped", old)
    if stopped is None:
        held = ledger.fact("held", new)
        return (
            f"waiting for the sequencer of '{new}' to stand still"
            if held is None
            else f"'{new}' stands still; waiting for the sequencer of '{old}' to get there and stop"
        )
    if not ledger.everywhere("passed", old, stopped.partitions):
        return f"the cut is at commit {stopped.at:X}; '{old}' publishes what is before it"
    return f"'{old}' has published all up to {stopped.at:X}; '{new}' comes up to it and goes on"
