"""Plays transactions against a domain in memory, for the tests of authors; each takes microseconds.

::

    shop = Rehearsal(load_domain("tidings_shop.domain"))
    shop.given(insert("public.customers", id=3, email="ann@example.org", ...))
    outcome = shop.when(
        insert("public.orders", id=1, customer_id=3, ...),
        insert("public.order_items", order_id=1, line_no=1, ...),
    )
    assert outcome.events == [OrderPlaced(...)]

Rows are given as Debezium represents them (see `tidings_domain.aggregate.rows`). The rehearsal keeps the tables' rows, so that
an update names only what it changes and a delete only the key; the sequencer's own code finds whose each row is.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from tidings_domain.changes import ChangeSet, decode_change_set, encode_change_set, identity
from tidings_domain.evaluation.evaluate import Evaluator, PublishedEvent, RuleFailure
from tidings_domain.language.events import BusinessEvent
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_domain.testing.recording import Recording, decode_recording
from tidings_envelope.envelope import Envelope, Source, TransactionRef

START_US = 1_767_225_600_000_000
"""The commit time of the first transaction: 2026-01-01T00:00:00Z. Each further one is a second later."""
_STEP_LSN = 0x100


class Statement(msgspec.Struct, frozen=True):
    """One row change, as a database statement would make it."""

    op: str
    table: str
    values: dict[str, Any]


def insert(table: str, /, **values: Any) -> Statement:
    """A new row with all its columns."""
    return Statement("c", table, values)


def update(table: str, /, **values: Any) -> Statement:
    """Other values for a row that is there; the key's columns say which."""
    return Statement("u", table, values)


def delete(table: str, /, **key: Any) -> Statement:
    """A row goes."""
    return Statement("d", table, key)


class Outcome(msgspec.Struct, frozen=True):
    """What one transaction led to.

    Attributes:
        events: what the rules yielded: the newest versions, in order.
        published: every live version, as it would be published.
        failures: rules that raised, rows that do not fit.
    """

    events: list[BusinessEvent]
    published: list[PublishedEvent]
    failures: list[RuleFailure]

    def expects(self, *events: BusinessEvent) -> Self:
        """Compare what was told with what should have been: all events in order, and no failures.

        Raises:
            AssertionError: it differs; says which event, and which of its fields.
        """
        problems = [f"failed: {failure.reason}" for failure in self.failures]
        problems += list(_differences(list(events), self.events))
        if problems:
            raise AssertionError("\n".join(problems))
        return self


def _differences(wanted: list[BusinessEvent], actual: list[BusinessEvent]) -> Iterator[str]:
    for number, (one, other) in enumerate(itertools.zip_longest(wanted, actual), 1):
        if one == other:
            continue
        if one is None:
            yield f"event {number} was not expected: {other}"
        elif other is None:
            yield f"event {number} is missing: {one}"
        elif type(one) is not type(other):
            yield f"event {number} is a {type(other).__name__}, expected a {type(one).__name__}: {other}"
        else:
            name = type(one).__name__
            for path, expected, found in _fields_that_differ(one, other, ""):
                yield f"event {number}: {name}{path} is {found!r}, expected {expected!r}"


def _fields_that_differ(wanted: object, actual: object, path: str) -> Iterator[tuple[str, object, object]]:
    if type(wanted) is type(actual) and isinstance(wanted, msgspec.Struct):
        for name in wanted.__struct_fields__:
            yield from _fields_that_differ(getattr(wanted, name), getattr(actual, name), f"{path}.{name}")
    elif (
        isinstance(wanted, (tuple, list)) and isinstance(actual, (tuple, list)) and len(wanted) == len(actual)
    ):
        for number, (one, other) in enumerate(zip(wanted, actual, strict=True)):
            yield from _fields_that_differ(one, other, f"{path}[{number}]")
    elif wanted != actual:
        yield path, wanted, actual


class Rehearsal:
    """A domain with tables and states in memory."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.evaluator = Evaluator(domain)
        self.states: dict[tuple[str, str], bytes | None] = {}
        self.lsn = 0
        self.ts_us = START_US
        self.txid = 1000
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}
        self._router = Router(domain, Memory())
        self._newest = set(domain.events)

    def given(self, *statements: Statement) -> Self:
        """Rows that a snapshot reads: they build state and are no news.

        Raises:
            AssertionError: a row does not fit the domain.
        """
        outcome = self._play(statements, snapshot=True)
        assert not outcome.failures, outcome.failures
        return self

    def when(self, *statements: Statement) -> Outcome:
        """One committed transaction."""
        return self._play(statements, snapshot=False)

    def replay(self, recording: Recording | Path) -> list[Outcome]:
        """What `tidings-translator record` has recorded: its rows silently, then one `Outcome` per transaction. Commit times,
        positions and therefore ids are those of the database.

        Raises:
            RecordingError: the file is not a recording.
        """
        if isinstance(recording, Path):
            recording = decode_recording(recording.read_bytes())
        self.given(*(Statement("c", table, row) for table, row in recording.given))
        outcomes = []
        for transaction in recording.transactions:
            self.lsn, self.ts_us, self.txid = transaction.lsn, transaction.ts_us, transaction.txid
            statements = tuple(Statement(row.op, row.table, row.values) for row in transaction.rows)
            outcomes.append(self._play(statements, snapshot=False, step=False))
        return outcomes

    def change_sets(self, *statements: Statement) -> list[ChangeSet]:
        """The change sets of a transaction, which is then part of the tables but not of the states."""
        return self._change_sets(statements, snapshot=False)

    def apply(self, change_set: ChangeSet) -> Outcome:
        """Evaluate one change set against the stored state of its aggregate."""
        at = (change_set.aggregate, change_set.id)
        found = self.evaluator.apply(self.states.get(at), decode_change_set(encode_change_set(change_set)))
        self.states[at] = found.new_state
        newest = [one.event for one in found.events if type(one.event) in self._newest]
        return Outcome(newest, found.events, found.failures)

    def _play(self, statements: tuple[Statement, ...], *, snapshot: bool, step: bool = True) -> Outcome:
        sets = self._change_sets(statements, snapshot=snapshot, step=step)
        outcomes = [self.apply(change_set) for change_set in sets]
        return Outcome(
            [event for one in outcomes for event in one.events],
            [event for one in outcomes for event in one.published],
            [failure for one in outcomes for failure in one.failures],
        )

    def _change_sets(
        self, statements: tuple[Statement, ...], *, snapshot: bool, step: bool = True
    ) -> list[ChangeSet]:
        if step:
            self.lsn += _STEP_LSN
            self.ts_us += 1_000_000
            self.txid += 1
        envelopes = [self._envelope(one, number, snapshot) for number, one in enumerate(statements, 1)]
        if not snapshot:
            return self._router.change_sets(CompleteTransaction(self.txid, self.lsn, envelopes))
        return [made for one in envelopes for made in self._router.snapshot_row(SnapshotRow(one))]

    def _envelope(self, statement: Statement, ordinal: int, snapshot: bool) -> Envelope:
        schema, _, name = statement.table.rpartition(".")
        uses = self.domain.tables.get(statement.table, ())
        rows = self._rows.setdefault(statement.table, {})
        key = identity(statement.values, uses[0].key) if uses else str(statement.values)
        old = rows.get(key)
        new: dict[str, Any] | None = None
        if statement.op == "d":
            assert old is not None, f"{statement.table} has no row {key} to delete"
            del rows[key]
        else:
            assert statement.op == "c" or old is not None, f"{statement.table} has no row {key} to update"
            new = rows[key] = {**(old or {}), **statement.values}
        return Envelope(
            op="r" if snapshot else statement.op,
            source=Source(
                "rehearsal", "rehearsal", schema, name, self.ts_us // 1000, self.ts_us, lsn=self.lsn
            ),
            # As under REPLICA IDENTITY DEFAULT: an update tells nothing of the row before, a delete only the key.
            before=dict(statement.values) if statement.op == "d" else None,
            after=new,
            transaction=None if snapshot else TransactionRef(f"{self.txid}:{self.lsn}", ordinal, ordinal),
        )
