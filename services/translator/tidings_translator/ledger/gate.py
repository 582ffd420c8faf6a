"""Decides at which commit LSN a sequencer of one generation stops and the next one goes on. Pure: no I/O, no clock.

Both sequencers read the same transaction topic, so a commit LSN means the same to both. The new one is held first; then
the old one stops where it has got to, which is not before where the new one is held; when everything up to there is
published, the new one goes on, and says in the change sets from where on its own events count.
"""

import msgspec

from tidings_domain.errors import SequenceError
from tidings_translator.base.records import Output
from tidings_translator.ledger.ledger import CUT_KEY, Cut, Fact, Ledger


class Gate:
    """What may come out of one generation's sequencer, in one session.

    Args:
        ledger: as of now; after each change of it call `look`.
        generation: this sequencer's.
        ledger_topic: where its facts go.
        change_sets: the topic of its change sets, and the number of its partitions.
    """

    def __init__(
        self, ledger: Ledger, generation: str, ledger_topic: str, change_sets: tuple[str, int]
    ) -> None:
        self._ledger = ledger
        self._generation = generation
        self._ledger_topic = ledger_topic
        self._change_sets = change_sets
        self._said: set[str] = set()
        """The facts that this session has put into a transaction, committed or not: a lost session is lost whole."""
        self.shut = False
        """Nothing may come out for now."""
        self.ended = False
        """Nothing will come out any more."""
        self.detail = ""
        """Why, in words."""
        self._cut: int | None = None
        self._hold = False
        self._stop_from: int | None = None
        self.look()

    def look(self) -> None:
        """Follow the ledger."""
        ledger, me = self._ledger, self._generation
        self._cut, self._hold, self._stop_from, self.detail = None, False, None, ""
        self.ended = self._is_said("stopped")
        self.shut = self.ended
        if self.ended:
            self.detail = "retired"
            return
        promotion = ledger.promotion
        if promotion is None:
            return
        if promotion.old == me:
            held = ledger.fact("held", promotion.new)
            self._stop_from = None if held is None else held.at
            self.detail = f"handing over to {promotion.new}"
        elif promotion.new == me and not self._is_said("switched"):
            stopped = ledger.fact("stopped", promotion.old)
            if stopped is not None and ledger.everywhere("passed", promotion.old, stopped.partitions):
                self._cut = stopped.at
            else:
                self.shut = True
                self._hold = not self._is_said("held")
                self.detail = f"waits until {promotion.old} has published all up to the cut"

    def before(self, commit_lsn: int) -> list[Output]:
        """What must go out before a transaction."""
        if self._cut is None or commit_lsn <= self._cut:
            return []
        return self._switch(self._cut)

    def after(self, commit_lsn: int) -> list[Output]:
        """What must go out now that everything up to `commit_lsn` (0 for nothing yet) has.

        Raises:
            SequenceError: this generation is already beyond the cut; it publishes nothing.
        """
        if self._hold:
            self._hold = False
            return [self._say("held", Fact(commit_lsn))]
        if self._stop_from is not None and commit_lsn >= self._stop_from:
            self._stop_from = None
            self.ended = self.shut = True
            self.detail = "retired"
            return [*self._cuts(Cut("retired", commit_lsn)), self._say_all("stopped", commit_lsn)]
        if self._cut is not None and commit_lsn >= self._cut:
            if commit_lsn > self._cut:
                raise SequenceError(
                    f"generation '{self._generation}' has got to {commit_lsn:X}, beyond the cut at {self._cut:X}",
                    hint="nothing was published twice; discard this generation and start another",
                )
            return self._switch(self._cut)
        return []

    def _switch(self, at: int) -> list[Output]:
        self._cut = None
        return [*self._cuts(Cut("live", at)), self._say_all("switched", at)]

    def _is_said(self, kind: str) -> bool:
        return kind in self._said or self._ledger.fact(kind, self._generation) is not None

    def _say_all(self, kind: str, at: int) -> Output:
        return self._say(kind, Fact(at, self._change_sets[1]))

    def _say(self, kind: str, fact: Fact) -> Output:
        self._said.add(kind)
        return fact_record(self._ledger_topic, fact, kind, self._generation)

    def _cuts(self, cut: Cut) -> list[Output]:
        topic, partitions = self._change_sets
        value = msgspec.json.encode(cut)
        return [Output(topic, CUT_KEY, value, None, number) for number in range(partitions)]


def fact_record(topic: str, fact: Fact, *name: object) -> Output:
    """A fact as a record for the ledger."""
    return Output(topic, "/".join(map(str, name)).encode(), msgspec.json.encode(fact), None, 0)
