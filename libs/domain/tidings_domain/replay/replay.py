"""Evaluates stored transactions with the router and the evaluator of the live service, one share of the aggregates at a time.

A share is a part of all aggregates, by a hash of their names and ids. Its `Replay` is given, in commit order, every row that
may concern one of its aggregates; it keeps their states and what must be remembered of rows, and gives the events that the
live service publishes for them: the same bytes, with the same ids. Rows of other shares may be among what it is given: their
aggregates are left out. Pure: no I/O, no clock.

What the live service decides with the help of a person, or by the order in which partitions are read, is not known here. It is
said (`KnownDifference`), and nothing is made up: an aggregate that the live service holds says nothing more.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from tidings_domain.changes import ChangeSet, encode_change_set
from tidings_domain.errors import RowError
from tidings_domain.evaluation.evaluate import Evaluator, PublishedEvent, RuleFailure
from tidings_domain.evaluation.sizes import without_too_large
from tidings_domain.evaluation.tracing import Trace
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_domain.routing.router import Router
from tidings_domain.routing.row_bytes import row_bytes
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.envelope import Envelope

ALL_LATER = (1 << 63) - 1
"""`KnownDifference.until` of what has no end."""
_WIDE_BYTES = MAX_VALUE_BYTES // 8
"""Of a change set in memory, about: one that takes more is encoded to see whether it fits into a record."""


class KnownDifference(NamedTuple):
    """What the replay cannot give as the live service may have done.

    Attributes:
        kind: ``letter``: something failed and was left out; a person may have replayed it. ``held``: the live service waits for a
            person. ``incremental``: an incremental snapshot's row has changed the aggregate; between which commits of other
            tables it came is not known. ``too-large``: it fits into no record. ``partial``: rules did not run, as the
            aggregate was there before anything was known of it (this is as live).
        aggregate: its name; empty for a row that aggregates refer to.
        id: the aggregate's id.
        since: the first commit position of which this is true.
        until: the last one.
        reason: in words, without values of cells.
    """

    kind: str
    aggregate: str
    id: str
    since: int
    until: int
    reason: str


class Replayed(NamedTuple):
    """An event, and what it is about."""

    change_set: ChangeSet
    event: PublishedEvent


class _Stream(NamedTuple):
    """No snapshot is open when a transaction comes: all rows of the first one came before it."""

    commit_lsn: int | None = None
    snapshot_open: bool = False


def share_of(aggregate: str, id_: str, count: int) -> int:
    """The share, of so many, that an aggregate is in."""
    return crc32(f"{aggregate}/{id_}".encode()) % count


class Replay:
    """One share.

    Args:
        domain: the rules.
        number: of the share, from 0.
        count: of all shares.
    """

    def __init__(self, domain: Domain, number: int = 0, count: int = 1) -> None:
        self._number, self._count = number, count
        self._evaluator = Evaluator(domain)
        self._policies = {rule.id: rule.on_failure for rule in domain.rules}
        self._memory = Memory()
        self._router = Router(domain, self._memory, _Stream())
        self._states: dict[tuple[str, str], bytes] = {}
        self._held: set[tuple[str, str]] = set()
        self._differences: list[KnownDifference] = []

    def states(self) -> Iterator[tuple[str, str, bytes]]:
        """The aggregates of this share as they are now, by name and id."""
        for (aggregate, id_), state in self._states.items():
            yield aggregate, id_, state

    def remembered(self) -> Iterator[tuple[bytes, bytes]]:
        """What the live service would remember of rows by now, as records of its changelog; of all shares together each once.

        Where a child belongs is known for certain by the share of that aggregate alone: the next change of the child goes to
        it, wherever the child goes.
        """
        number, count = self._number, self._count
        return self._memory.records(
            lambda aggregate, root: share_of(aggregate, root, count) == number,
            lambda table, key: share_of(table, key, count) == number,
        )

    def take_known_differences(self) -> list[KnownDifference]:
        """What is to be told since the last call."""
        taken, self._differences = self._differences, []
        for (table, key), size in self._router.take_too_large().items():
            reason = f"a row of {table} that others refer to has {size} bytes; {MAX_VALUE_BYTES} are allowed"
            taken.append(KnownDifference("too-large", "", f"{table}/{key}", 0, ALL_LATER, reason))
        return taken

    def snapshot_row(self, envelope: Envelope) -> list[Replayed]:
        """A row that the stream's first snapshot has read."""
        try:
            return self._all(self._router.snapshot_row(SnapshotRow(envelope)))
        except RowError as error:
            self._unreadable(envelope.source.lsn or 0, error)
            return []

    def incremental_row(self, envelope: Envelope, commit_lsn: int) -> list[Replayed]:
        """A row of an incremental snapshot, behind the commit after which it was read."""
        if self._memory.changes:
            self._memory.take_changes()
        try:
            sets = self._router.snapshot_row(SnapshotRow(envelope, commit_lsn))
        except RowError as error:
            self._unreadable(commit_lsn, error)
            return []
        if self._memory.changes:
            reason = f"an incremental snapshot of {envelope.source.qualified_table} has read a row that others need"
            self._differences.append(KnownDifference("incremental", "", "", commit_lsn, ALL_LATER, reason))
        return self._all(sets, incremental=True)

    def transaction(
        self,
        txid: int,
        commit_lsn: int,
        rows: list[Envelope],
        trace: Trace | None = None,
        ts_us: int | None = None,
    ) -> list[Replayed]:
        """One transaction: its rows by `total_order`, without repeated ones.

        Args:
            txid: its id.
            commit_lsn: its commit position.
            rows: those that may concern this share.
            trace: its trace context, also where it stands in another share's row.
            ts_us: its commit time in microseconds since 1970, as its first row tells; None: as the first of `rows`.
        """
        readable = []
        for row in rows:
            try:
                self._router.check(row)
            except RowError as error:
                self._unreadable(commit_lsn, error)
            else:
                readable.append(row)
        if len(readable) < len(rows):
            # The live service cannot put it together without that row, and gives it up.
            self._router.learn(readable)
            return []
        sets = self._router.change_sets(CompleteTransaction(txid, commit_lsn, rows))
        if ts_us is not None:
            sets = [msgspec.structs.replace(one, ts_us=ts_us) for one in sets]
        if trace is not None:
            sets = [
                msgspec.structs.replace(one, traceparent=trace.parent, tracestate=trace.state) for one in sets
            ]
        return self._all(sets)

    def give_up(self, rows: Iterable[Envelope]) -> None:
        """A transaction that lacks rows: what it says of keys is still true, and nothing else of it is evaluated."""
        readable = []
        for row in rows:
            try:
                self._router.check(row)
            except RowError:
                continue
            readable.append(row)
        self._router.learn(readable)

    def _all(self, sets: Iterable[ChangeSet], *, incremental: bool = False) -> list[Replayed]:
        made: list[Replayed] = []
        number, count = self._number, self._count
        for one in sets:
            if count == 1 or share_of(one.aggregate, one.id, count) == number:
                made += self._apply(one, incremental=incremental)
        return made

    def _apply(self, change_set: ChangeSet, *, incremental: bool) -> list[Replayed]:
        key = change_set.aggregate, change_set.id
        if key in self._held:
            return []
        if size := _too_large(change_set):
            reason = f"what the transaction did to it has {size} bytes; {MAX_VALUE_BYTES} are allowed"
            self._note("too-large", change_set, reason)
            return []
        state = self._states.get(key)
        found = self._evaluator.apply(state, change_set)
        events, failures = found.events, found.failures
        if events and max(len(event.body) for event in events) > MAX_VALUE_BYTES:
            events, failures = without_too_large(events, failures, change_set, MAX_VALUE_BYTES)
        new_state = None if found.gone else found.new_state
        if new_state is not None and len(new_state) > MAX_VALUE_BYTES:
            reason = f"the aggregate's state would have {len(new_state)} bytes; {MAX_VALUE_BYTES} are allowed"
            self._note("too-large", change_set, reason)
            return []
        for failure in failures:
            if self._policy(failure) != "skip":
                self._held.add(key)
                self._note("held", change_set, failure.reason, until=ALL_LATER)
                return []
        for failure in failures:
            self._note("letter", change_set, failure.reason)
        if found.partial:
            reason = (
                f"rules of {change_set.aggregate} did not run: it was there before anything was known of it"
            )
            self._note("partial", change_set, reason)
        if new_state is not state:
            if incremental:
                reason = "an incremental snapshot's row has changed it"
                self._note("incremental", change_set, reason, until=ALL_LATER)
            if new_state is None:
                self._states.pop(key, None)
            else:
                self._states[key] = new_state
        return [Replayed(change_set, event) for event in events]

    def _policy(self, failure: RuleFailure) -> str:
        """As the live service's default settings have it."""
        if failure.missing:
            return "hold"
        return "skip" if failure.rule is None else self._policies[failure.rule]

    def _note(self, kind: str, change_set: ChangeSet, reason: str, *, until: int | None = None) -> None:
        at = change_set.commit_lsn
        self._differences.append(
            KnownDifference(
                kind, change_set.aggregate, change_set.id, at, at if until is None else until, reason
            )
        )

    def _unreadable(self, at: int, error: RowError) -> None:
        self._differences.append(KnownDifference("letter", "", "", at, at, str(error)))


def _too_large(change_set: ChangeSet) -> int | None:
    """The size of a change set that fits into no record; None of one that does."""
    size = sum(row_bytes(row.after) for row in change_set.rows if row.after is not None)
    if size <= _WIDE_BYTES:
        return None
    size = len(encode_change_set(change_set))
    return size if size > MAX_VALUE_BYTES else None
