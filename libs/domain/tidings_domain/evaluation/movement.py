"""Works out what a change set changed in an aggregate, and what rules may see of it."""

from typing import Any

from tidings_domain.aggregate.knowledge import BEGINNING, NOTHING
from tidings_domain.aggregate.state import AggregatePlan, State
from tidings_domain.changes import ChangeSet
from tidings_domain.evaluation.cloudevents import commit_time, place_of
from tidings_domain.language.model import Aggregate
from tidings_domain.language.rules import Change


class Movement:
    """An aggregate before and after a change set, and what is not known of it.

    Args:
        plan: the aggregate's.
        state: its state before; None for none.
        stored: the same, decoded.
        change_set: what happens to it.

    Raises:
        RowError: a row does not fit the declared columns.
    """

    __slots__ = (
        "after",
        "before",
        "change_set",
        "found",
        "has_changed",
        "orphans_after",
        "plan",
        "unknown",
        "unknown_after",
    )

    def __init__(
        self, plan: AggregatePlan, state: bytes | None, stored: State | None, change_set: ChangeSet
    ) -> None:
        self.plan = plan
        self.change_set = change_set
        before: Aggregate | None = None
        self.unknown = NOTHING
        if state is not None and stored is not None:
            before = stored.aggregate
            self.unknown = plan.unknown(state, stored)
        orphans = plan.orphans_of(stored)
        after, self.orphans_after = plan.advance(before, orphans, change_set)
        self.before, self.after = before, after
        knowledge = plan.knowledge
        self.found = before is None and knowledge.is_found(after, change_set)
        """It was there, and nothing was known of it."""
        self.unknown_after = knowledge.after(before, after, self.unknown, change_set)
        self.has_changed = (
            after != before or self.orphans_after != orphans or self.unknown_after != self.unknown
        )

    @property
    def is_partial(self) -> bool:
        """It was there before anything was known of it, and rows of its children may be missing."""
        return self.found or (self.before is not None and BEGINNING in self.unknown)

    @property
    def left_out(self) -> bool:
        """Rules had to be left out: nobody can say what of the transaction is news."""
        return self.is_partial and not self.change_set.snapshot

    def change(self) -> Change[Any]:
        """What the rules see."""
        change_set = self.change_set
        at = commit_time(change_set.ts_us)
        if not self.found and not self.unknown:
            return Change(self.before, self.after, at, change_set.snapshot)
        knowledge = self.plan.knowledge
        unknown = knowledge.everything if self.found else self.unknown
        inserted = knowledge.inserted(change_set, unknown)
        return Change(self.before, self.after, at, change_set.snapshot, self.is_partial, unknown, inserted)

    def place(self) -> str:
        """The commit position in ids."""
        rows = self.plan.snapshot_rows(self.change_set) if self.change_set.snapshot else ()
        return place_of(self.change_set.commit_lsn, rows)
