"""Evaluates a change set against the stored state: new state, business events and failures. Pure: no I/O, no clock.

Events come from the difference between the aggregate before and after, so what changes nothing says nothing: a replay,
a new snapshot, a repeated row. A change set that is not newer than the state is ignored. What was there before anything
was known of it is no news either: it builds state (see `knowledge`). A rule that raises, or yields
an event that does not fit its contract, becomes a `RuleFailure`; none of its events are published, the other rules run,
and the state moves on. Rows that do not fit the domain, or lack a row that they require, become a failure without a rule, and
leave the state as it was.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tidings_domain.aggregate.required import Lack, tables_of, words_of
from tidings_domain.aggregate.state import AggregatePlan
from tidings_domain.changes import ChangeSet
from tidings_domain.errors import EventError, TranslatorError
from tidings_domain.evaluation.cloudevents import (
    Headers,
    HeaderTemplate,
    event_id,
    rule_name,
    source_of,
    time_text,
)
from tidings_domain.evaluation.movement import Movement
from tidings_domain.evaluation.tracing import trace_headers
from tidings_domain.language.events import BusinessEvent, encoder_of, topic_of
from tidings_domain.language.model import Aggregate
from tidings_domain.language.rules import Change, Rule
from tidings_domain.loading.conversions import EventPlan
from tidings_domain.loading.domain import Domain

_EMITTER = 1_000_000
"""Ordinals in the sequence that each rule which emits an event has for itself."""


class PublishedEvent(msgspec.Struct, frozen=True):
    """One version of one event, ready for the business topic but for the registry's schema id.

    Attributes:
        topic: ``shop.order-placed.v1``; also the CloudEvents type.
        key: the aggregate's id.
        event: the typed event.
        body: its Avro encoding, without the wire format's frame.
        headers: CloudEvents, binary mode.
        event_id: the ``ce_id``.
        rule: the id of the rule that yielded it.
        ts_us: commit time, microseconds since 1970; for the record's timestamp and latency metrics.
    """

    topic: str
    key: bytes
    event: BusinessEvent
    body: bytes
    headers: Headers
    event_id: str
    rule: str
    ts_us: int

    @property
    def payload(self) -> dict[str, Any]:
        """The event's fields, for people and tests."""
        fields: dict[str, Any] = msgspec.structs.asdict(self.event)
        return fields


class RuleFailure(msgspec.Struct, frozen=True):
    """What could not be evaluated, for the dead-letter topic; holds no cell values.

    Attributes:
        rule: the rule's id; None when the rows themselves do not fit the domain, and the state did not move on.
        aggregate: the aggregate's name.
        id: the aggregate's id.
        commit_lsn: the change set's position, with `txid`.
        txid: the transaction, None for a snapshot's row.
        reason: what happened and where, in words.
        event_id: the one event of the rule that could not be published; None when none of them were.
        missing: the tables of which the change set's rows require a row that is not known.
    """

    rule: str | None
    aggregate: str
    id: str
    commit_lsn: int
    txid: int | None
    reason: str
    event_id: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """Where it failed, as dead letters name it: rows, rule or publish."""
        if self.rule is None:
            return "rows"
        return "rule" if self.event_id is None else "publish"

    @property
    def error(self) -> str:
        """The class of the failure, for dead letters and metrics."""
        return {"rows": "RowError", "rule": "RuleFailure", "publish": "TooLarge"}[self.stage]


class Evaluation(msgspec.Struct, frozen=True):
    """What follows from one change set.

    Attributes:
        new_state: to be stored under the aggregate; the very object that was passed in when nothing has changed.
        events: in the order of rules and of what they yield, each in every live version, newest first.
        failures: what goes to the dead-letter topic.
        ignored: the change set was not newer than the state.
        partial: rules did not run, because the aggregate was there before anything was known of it.
        gone: nothing is left of the aggregate but the position in `new_state`.
    """

    new_state: bytes | None
    events: list[PublishedEvent]
    failures: list[RuleFailure]
    ignored: bool = False
    partial: bool = False
    gone: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The tables of which a required row is not known, so that nothing has come of the change set."""
        return self.failures[0].missing if self.failures else ()


class _Publication(msgspec.Struct, frozen=True):
    """One live version of an event: where it goes and how it is written."""

    topic: str
    encode: Callable[[Any], bytes]
    template: HeaderTemplate


class _RulePlan(msgspec.Struct, frozen=True):
    """A rule, its name in ids and, for each event it emits, the event's plan, its publications and the first of the rule's
    ordinals in the sequence."""

    rule: Rule[Any]
    name: str
    emits: dict[type[BusinessEvent], tuple[EventPlan, tuple[_Publication, ...], int]]


class Evaluator:
    """Evaluates change sets of one domain. Holds nothing but what it compiled from the domain; safe to share."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._aggregates = {name: AggregatePlan(cls) for name, cls in domain.aggregates.items()}
        emitters: dict[type[BusinessEvent], int] = {}
        self._rules: dict[str, list[_RulePlan]] = {name: [] for name in domain.aggregates}
        for rule in domain.rules:
            emits = {}
            for event in rule.emits:
                first = emitters.get(event, 0)
                emitters[event] = first + _EMITTER
                emits[event] = (domain.events[event], self._publications(rule, event), first)
            self._rules[rule.aggregate.__name__].append(_RulePlan(rule, rule_name(rule.id), emits))

    def _publications(self, rule: Rule[Any], event: type[BusinessEvent]) -> tuple[_Publication, ...]:
        source = source_of(self.domain.name, rule.aggregate.__name__)
        return tuple(
            _Publication(topic_of(version), encoder_of(version), HeaderTemplate(version, source))
            for version in self.domain.events[event].versions
        )

    def apply(self, state: bytes | None, change_set: ChangeSet) -> Evaluation:
        """Move an aggregate on by one change set.

        Args:
            state: what the last evaluation of this aggregate returned as `new_state`; None for none.
            change_set: the next change set of this aggregate, in commit order.

        Raises:
            TranslatorError: the change set is about an aggregate that the domain does not have.
            StateError: the state was written by another definition of the aggregate.
        """
        plan = self._aggregates.get(change_set.aggregate)
        if plan is None:
            raise TranslatorError(
                f"a change set is about aggregate '{change_set.aggregate}', which {self.domain.package} does not define",
                hint="the sequencer and the translator must run the same domain",
            )
        stored = plan.decode(state) if state is not None else None
        if stored is not None and _is_old(change_set, stored.commit_lsn):
            return Evaluation(state, [], [], ignored=True)
        try:
            moved = Movement(plan, state, stored, change_set)
        except Exception as error:  # noqa: BLE001 - rows come from outside: whatever they break, it is only them
            return Evaluation(state, [], [_failure(None, change_set, _row_reason(error))])
        if not moved.has_changed:
            return Evaluation(state, [], [], partial=moved.found and moved.left_out)
        events: list[PublishedEvent] = []
        failures: list[RuleFailure] = []
        done = stored.done if stored is not None else ()
        if moved.after is not None or moved.before is not None:
            rules = _due(self._rules[plan.name], moved, done)
            lacks = _lacks(rules, moved)
            if lacks and plan.required.are_brought(lacks, change_set):
                failed = _failure(None, change_set, words_of(lacks))
                missing = tables_of(lacks)
                return Evaluation(state, [], [msgspec.structs.replace(failed, missing=missing)])
            # A row that has lacked it before can only be mended by itself: the state goes on until it comes.
            failures += [_failure(one.rule, change_set, words_of(lacks)) for one in rules if lacks]
            done = done if lacks else self._run(rules, moved, done, events, failures)
        if moved.after is None:
            done = ()
        new_state = plan.encode(
            change_set.commit_lsn, moved.after, moved.orphans_after, done, moved.unknown_after
        )
        gone = moved.after is None and not any(moved.orphans_after.values())
        return Evaluation(new_state, events, failures, partial=moved.left_out, gone=gone)

    def is_gone(self, key: bytes, state: bytes) -> bool:
        """Whether a state (of the change sets with this key) is only the position of an aggregate that was deleted."""
        plan = self._aggregates.get(key.partition(b"/")[0].decode(errors="replace"))
        if plan is None:
            return False
        stored = plan.decode(state)
        return stored.aggregate is None and not any(plan.orphans_of(stored).values())

    def apply_rule(
        self, before: bytes | None, now: bytes | None, change_set: ChangeSet, rule_id: str
    ) -> Evaluation:
        """Let one rule speak about a change set that the aggregate has behind it: what it says now, with the same ids.

        Args:
            before: the aggregate's state before the change set.
            now: its state today; `new_state` is this, but for a `once` rule that has had its say.
            change_set: the change set.
            rule_id: the rule; one that has spoken since and may do so once only says nothing.
        """
        plan = self._aggregates.get(change_set.aggregate)
        rules = [one for one in self._rules.get(change_set.aggregate, ()) if one.rule.id == rule_id]
        if plan is None or not rules:
            reason = f"there is no rule '{rule_id}' of {change_set.aggregate} (any more)"
            return Evaluation(now, [], [_failure(None, change_set, reason, rule_id)])
        rule = rules[0].rule
        try:
            stored = plan.decode(before) if before is not None else None
            current = plan.decode(now) if now is not None else None
            moved = Movement(plan, before, stored, change_set)
        except Exception as error:  # noqa: BLE001 - as in `apply`
            return Evaluation(now, [], [_failure(rule, change_set, _row_reason(error))])
        done = current.done if current is not None else ()
        events: list[PublishedEvent] = []
        failures: list[RuleFailure] = []
        rules = _due(rules, moved, done)
        lacks = _lacks(rules, moved)
        if lacks:
            return Evaluation(now, [], [_failure(rule, change_set, words_of(lacks))])
        said = self._run(rules, moved, done, events, failures)
        if said != done and now is not None and current is not None and current.aggregate is not None:
            orphans = plan.orphans_of(current)
            unknown = plan.unknown(now, current)
            now = plan.encode(current.commit_lsn, current.aggregate, orphans, said, unknown)
        return Evaluation(now, events, failures)

    def _run(
        self,
        rules: list[_RulePlan],
        moved: Movement,
        done: tuple[str, ...],
        events: list[PublishedEvent],
        failures: list[RuleFailure],
    ) -> tuple[str, ...]:
        """Run the rules that are due; the ids of the rules that have had their one say are returned."""
        change_set = moved.change_set
        change = moved.change()
        for plan in rules:
            rule = plan.rule
            try:
                published = self._publish(plan, change, moved)
            except EventError as error:
                failures.append(_failure(rule, change_set, str(error)))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's code may raise anything; it is told
                failures.append(_failure(rule, change_set, _where(error, rule) + _unknown(change.after)))
            else:
                if published:
                    events += published
                    if rule.once:
                        done = (*done, rule.id)
        return done

    def _publish(self, plan: _RulePlan, change: Change[Any], moved: Movement) -> list[PublishedEvent]:
        change_set = moved.change_set
        yielded = plan.rule.function(change)
        published: list[PublishedEvent] = []
        if yielded is None:
            return published
        counts: dict[type[BusinessEvent], int] = {}
        key = change_set.id.encode()
        time = b""
        place = ""
        traced: Headers = []
        if change_set.traceparent is not None:
            traced = trace_headers(change_set.traceparent, change_set.tracestate)
        for event in yielded:
            cls = type(event)
            emitted = plan.emits.get(cls)
            if emitted is None:
                raise EventError(f"it yielded a {cls.__name__}, which is not in its `emits`")
            event_plan, publications, first = emitted
            ordinal = counts.get(cls, 0)
            counts[cls] = ordinal + 1
            time = time or time_text(change.at).encode()
            place = place or moved.place()
            sequence = b"%016X-%07d" % (change_set.commit_lsn, first + ordinal)
            for version, publication in zip(event_plan.all_versions(event), publications, strict=True):
                topic = publication.topic
                id_text = event_id(topic, change_set.id, place, plan.name, ordinal)
                published.append(
                    PublishedEvent(
                        topic,
                        key,
                        version,
                        publication.encode(version),
                        publication.template.headers(id_text, time, key, sequence) + traced,
                        id_text,
                        plan.rule.id,
                        change_set.ts_us,
                    )
                )
        return published


def _due(rules: list[_RulePlan], moved: Movement, done: tuple[str, ...]) -> list[_RulePlan]:
    """The rules that may see what has happened.

    Args:
        rules: of the aggregate.
        moved: what has happened to it.
        done: the ids of the rules that have had their one say.
    """
    snapshot, partial = moved.change_set.snapshot, moved.is_partial
    return [
        plan
        for plan in rules
        if (plan.rule.snapshot or not snapshot)
        and (plan.rule.partial or not partial)
        and not (plan.rule.once and plan.rule.id in done)
    ]


def _lacks(rules: list[_RulePlan], moved: Movement) -> list[Lack]:
    """What the rules would miss. A snapshot's rows are told again when what they refer to is read behind them."""
    if moved.after is None or moved.change_set.snapshot or not rules:
        return []
    return moved.plan.required.lacking(moved.after)


def _is_old(change_set: ChangeSet, commit_lsn: int) -> bool:
    """A snapshot reads an aggregate's rows one by one at one position, so there an equal position is still news."""
    return change_set.commit_lsn < commit_lsn if change_set.snapshot else change_set.commit_lsn <= commit_lsn


def _row_reason(error: Exception) -> str:
    """Why rows could not be applied. The text of an error that is not ours may hold a cell's value, so it is left out."""
    if not isinstance(error, TranslatorError):
        return f"{type(error).__name__} while its rows were applied"
    return f"{error}; {error.hint}" if error.hint else str(error)


def _failure(
    rule: Rule[Any] | None, change_set: ChangeSet, what: str, rule_id: str | None = None
) -> RuleFailure:
    reason = what if rule is None else f"rule '{rule.id}' ({rule.site}): {what}"
    return RuleFailure(
        rule.id if rule is not None else rule_id,
        change_set.aggregate,
        change_set.id,
        change_set.commit_lsn,
        change_set.txid,
        reason,
    )


def _unknown(aggregate: Aggregate | None) -> str:
    """The references that are not known: the usual cause of an AttributeError on None."""
    if aggregate is None:
        return ""
    relations = type(aggregate).__relations__
    missing = [
        name for name in relations if relations[name].kind == "reference" and getattr(aggregate, name) is None
    ]
    return f"; not known or null: {', '.join(missing)}" if missing else ""


def _where(error: BaseException, rule: Rule[Any]) -> str:
    """The exception's type and the author's line. Not its text, which may hold a cell's value."""
    file, line, trace = rule.site.file, rule.site.line, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"raised {type(error).__name__} at line {line}"
