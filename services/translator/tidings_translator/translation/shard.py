"""Evaluates one partition of the change sets: the states of its aggregates, those that are held, and what follows.

Pure: no Kafka, no clock. What changes goes to `BatchResult.state`, a changelog of this partition: an aggregate's state under its
key (of one that was deleted: nothing, see `left_out`), and under keys that begin with a zero byte the change sets that wait
for a held aggregate (one entry each, so that adding one costs one record), those that were left out, and the letters that
have been replayed or discarded (so that none is twice).

*Held*: a change set failed under the policy `hold`. It has changed nothing and nothing of it was published; it and the
aggregate's later change sets wait in order, until a request (`dead_letters.commands`) replays or discards it. Then all of them go
through, up to the next that fails. Other aggregates go on meanwhile. When what failed lacks a row that it requires, a later
change set of the aggregate that brings this row does the same as a request to replay.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tidings_domain.aggregate.required import with_later_rows
from tidings_domain.changes import ChangeSet, decode_change_set
from tidings_domain.errors import ChangeSetError
from tidings_domain.evaluation.cloudevents import former_id
from tidings_domain.evaluation.evaluate import Evaluation, Evaluator, PublishedEvent, RuleFailure
from tidings_domain.evaluation.sizes import row_failure, without_too_large
from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_translator.base.errors import StopError
from tidings_translator.base.records import FetchedRecord, Partition
from tidings_translator.dead_letters.commands import LetterCommand, command_of
from tidings_translator.ledger.ledger import Mode
from tidings_translator.translation.held import PREFIX as HELD_PREFIX
from tidings_translator.translation.held import ROWS, Failed, Held, HeldAggregates, Waiting
from tidings_translator.translation.left_out import LeftOut
from tidings_translator.translation.letters import Letters
from tidings_translator.translation.policies import Policies
from tidings_translator.translation.publishing import BatchResult, Publisher

_OURS = b"\0"
_CLOSED = b"\0closed\0"


class ShardContext(NamedTuple):
    """What all shards of a process share."""

    evaluator: Evaluator
    policies: Policies
    publisher: Publisher
    letters_topic: str
    max_held_bytes: int


class Shard:
    """One partition in one generation of the group."""

    def __init__(
        self,
        context: ShardContext,
        partition: Partition,
        changelog: Partition,
        generation: int,
        next_offset: int,
        mode: Mode,
    ) -> None:
        self.generation = generation
        self.mode: Mode = mode
        self.changelog = changelog
        self.next_offset = next_offset
        self.begun = False
        """Something was read of this partition before."""
        self.committed = next_offset
        """As far as `next_offset` was committed by this process, or by whoever had the partition before."""
        self.states: dict[bytes, bytes] = {}
        self.held = HeldAggregates(partition, changelog, context.max_held_bytes)
        self.left_out = LeftOut(changelog, next_offset)
        self._partition = partition
        self._context = context
        self._evaluator = context.evaluator
        self._letters = Letters(context.letters_topic, partition)
        self._closed: set[bytes] = set()
        self._stored: dict[bytes, bytes] = {}

    # --- restoring

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take in a record of the changelog; `loaded` ends it."""
        states = self._stored if key[:1] == _OURS else self.states
        if value is None:
            states.pop(key, None)
        else:
            states[key] = value

    def loaded(self) -> None:
        """All of the changelog was taken in."""
        stored, self._stored = self._stored, {}
        for stored_key in sorted(stored):  # by offset: its digits come first
            if stored_key.startswith(HELD_PREFIX):
                self.held.load(stored_key, stored[stored_key])
            elif not self.left_out.load(stored_key, stored[stored_key]):
                self._closed.add(stored_key)

    def is_as_committed(self, offset: int) -> bool:
        """Whether all of this is committed, and `offset`, the group's, says that nobody has done anything since.

        Then it is what the changelog holds, and a member that keeps a partition through a rebalance need not read it again.
        Every Kafka transaction that writes states also moves the offset, and offsets only grow.
        """
        return self.committed == self.next_offset == offset

    # --- records

    def take(self, record: FetchedRecord, result: BatchResult) -> None:
        """Evaluate one record.

        Raises:
            StopError: a policy says so, or too much waits; nothing of the record is in `result`.
            TranslatorError: the domain or the stored state does not fit.
        """
        value, key = record.value, record.key
        if value is None or key is None:
            return
        self.left_out.keep_from_here(result)
        try:
            change_set = decode_change_set(value)
        except ChangeSetError as error:
            request = command_of(value)
            if request is None:
                self._letters.undecodable(record.offset, key, value, error, result)
            else:
                apart = BatchResult()
                self._requested(key, request, apart)
                result.add(apart)
            return
        if self.mode == "retired":
            return
        change = Waiting(record.offset, value, change_set.ts_us, self.mode == "shadow")
        if self.held and key in self.held:
            apart = BatchResult()
            self._wait(key, change, change_set, apart)
            result.add(apart)
            result.change_sets[change_set.aggregate] += 1
            return
        self._apply(key, change, change_set, result)
        result.change_sets[change_set.aggregate] += 1

    def _apply(
        self,
        key: bytes,
        change: Waiting,
        change_set: ChangeSet,
        result: BatchResult,
        without: Failed | None = None,
        later: Iterable[Waiting] = (),
    ) -> list[Failed] | None:
        """Evaluate a change set; what failed and was left out, or None when the aggregate is held by it now.

        `without` leaves out what a person has discarded, whether it fails or not. `later` are change sets that wait behind it,
        and may know a row that it requires.
        """
        state = self.states.get(key)
        evaluation = self._evaluated(state, change_set, later)
        events, failures = self._context.publisher.written(evaluation.events), evaluation.failures
        if events and max([len(event.body) for event in events]) > MAX_VALUE_BYTES:
            events, failures = without_too_large(events, failures, change_set, MAX_VALUE_BYTES)
        new_state = None if self._is_forgotten(key, evaluation) else evaluation.new_state
        if new_state is not None and len(new_state) > MAX_VALUE_BYTES:
            reason = f"the aggregate's state would have {len(new_state)} bytes; {MAX_VALUE_BYTES} are allowed"
            events, new_state = [], state
            failures = [row_failure(change_set, reason)]
        if without is not None:
            events = [one for one in events if not _is(without, one.rule, one.event_id)]
            failures = [one for one in failures if not _is(without, one.rule, one.event_id)]
        if failures and not self._tolerable(key, change, change_set, failures, result):
            return None
        if new_state is not state:
            self._set_state(key, new_state, result)
        if evaluation.partial:
            result.partial[change_set.aggregate] += 1
        if events:
            if not change.shadow:
                result.commit_times_us.append(change_set.ts_us)
            self._context.publisher.publish(events, result, shadow=change.shadow)
        if not failures:
            return []
        self._letters.write(key, change, failures, result, state=state)
        failed = [(one.rule, one.event_id) for one in failures]
        if ROWS in failed:
            self.left_out.add(key, change.offset, result)
        return failed

    def _evaluated(self, state: bytes | None, change_set: ChangeSet, later: Iterable[Waiting]) -> Evaluation:
        """A change set that lacks a row which it requires gets it from a later one of its aggregate."""
        evaluation = self._evaluator.apply(state, change_set)
        missing = evaluation.missing
        if not missing:
            return evaluation
        behind = (decode_change_set(one.value) for one in later)
        return self._evaluator.apply(state, with_later_rows(change_set, missing, behind))

    def _is_forgotten(self, key: bytes, evaluation: Evaluation) -> bool:
        """Whether nothing of a deleted aggregate need be kept, not even its position."""
        return evaluation.gone and key not in self.left_out

    def _tolerable(
        self,
        key: bytes,
        change: Waiting,
        change_set: ChangeSet,
        failures: list[RuleFailure],
        result: BatchResult,
    ) -> bool:
        """Whether the change set may pass without what failed; if not, the aggregate is held.

        Raises:
            StopError: neither.
        """
        policy = self._context.policies.strictest(failures)
        if policy == "stop":
            first = next(one for one in failures if self._context.policies.of(one) == "stop")
            raise StopError(
                f"{first.reason} (a change set of {change_set.aggregate} at {self._partition} offset {change.offset}, commit"
                f" LSN {change_set.commit_lsn}), and its policy is stop",
                hint="mend the domain and start again; TIDINGS_ON_FAILURE and TIDINGS_ON_BAD_ROWS set another policy",
            )
        if policy == "hold":
            failed = tuple((one.rule, one.event_id) for one in failures)
            self.held.add(key, change, result, failed)
            self._letters.write(key, change, failures, result, policy="hold")
            return False
        return True

    def _set_state(self, key: bytes, state: bytes | None, result: BatchResult) -> None:
        if state is None:
            self.states.pop(key, None)
        else:
            self.states[key] = state
        result.state[self.changelog, key] = state

    # --- held aggregates

    def _wait(self, key: bytes, change: Waiting, change_set: ChangeSet, result: BatchResult) -> None:
        """Let a change set wait, too; all go on when it brings the row that the first has lacked."""
        self.held.add(key, change, result)
        held = self.held[key]
        if ROWS not in held.failed or not any(change_set.references.values()):
            return
        state = self.states.get(key)
        first = decode_change_set(held.waiting[0].value)
        missing = self._evaluator.apply(state, first).missing
        if not any(change_set.references.get(table) for table in missing):
            return
        found = self._evaluated(state, first, held.waiting)
        if not any(one.rule is None for one in found.failures):
            self._release(key, held, None, result)

    def _release(self, key: bytes, held: Held, discarded: Failed | None, result: BatchResult) -> None:
        """Try the first again, or go on without what failed of it; then the others, up to the next that fails."""
        del self.held[key]
        first = held.waiting[0]
        while held.waiting:
            waiting = self.held.next_of(key, held, result)
            without = discarded if waiting is first else None
            failed: list[Failed] | None = []
            if without != ROWS:
                change_set = decode_change_set(waiting.value)
                failed = self._apply(key, waiting, change_set, result, without, held.waiting)
            again = failed is None
            if failed is None:
                self.held[key].waiting.extend(held.waiting)
                failed = list(self.held[key].failed)
            if waiting is first:
                for one in held.failed:
                    if one not in failed:
                        outcome = "discarded" if one == discarded else "replayed"
                        self._letters.close(key, waiting.offset, one, outcome, result)
            if again:
                break

    # --- requests

    def _requested(self, key: bytes, request: LetterCommand, result: BatchResult) -> None:
        held = self.held.get(key)
        what: Failed = (request.rule, request.event_id)
        if held is not None and held.offset == request.offset and what in held.failed:
            self._release(key, held, what if request.do == "discard" else None, result)
            return
        mark = _CLOSED + _text(request.offset, *what)
        place = f"{self._partition}@{request.offset}"
        if request.held or mark in self._closed:
            result.repeated.append((place, request.rule))
            return
        if request.do == "replay" and not self._replayed(key, request, held, result):
            return
        self._closed.add(mark)
        result.state[self.changelog, mark] = b"\1"
        if what == ROWS:
            self.left_out.settle(key, request.offset, result)
            state = self.states.get(key)
            if state is not None and key not in self.left_out and self._evaluator.is_gone(key, state):
                self._set_state(key, None, result)
        outcome = "replayed" if request.do == "replay" else "discarded"
        self._letters.close(key, request.offset, what, outcome, result)

    def _replayed(self, key: bytes, request: LetterCommand, held: Held | None, result: BatchResult) -> bool:
        """Do again what failed and was left out; False when it has failed once more, and is a letter again."""
        value = request.change_set
        if value is None:
            return False
        try:
            change_set = decode_change_set(value)
        except ChangeSetError as error:
            self._letters.undecodable(request.offset, key, value, error, result)
            return False
        change = Waiting(request.offset, value, change_set.ts_us, request.shadow)
        if request.rule is None:
            return self._replay_rows(key, change, change_set, held, result)
        found = self._evaluator.apply_rule(request.state, self.states.get(key), change_set, request.rule)
        events, failures = self._context.publisher.written(found.events), found.failures
        if request.event_id is not None:
            events = [event for event in events if _has_id(event, request.event_id)]
            if not events and not failures:
                reason = "the rule says nothing now that has this event's id: discard the letter, if that is as it should be"
                failures = [row_failure(change_set, reason)]
        events, failures = without_too_large(events, failures, change_set, MAX_VALUE_BYTES)
        if failures:
            # Under the letter's own origin, whatever it fails of now.
            again = msgspec.structs.replace(failures[0], rule=request.rule, event_id=request.event_id)
            self._letters.write(key, change, [again], result, state=request.state)
            return False
        if found.new_state is not self.states.get(key):
            self._set_state(key, found.new_state, result)
        self._context.publisher.publish(events, result, shadow=request.shadow)
        return True

    def _replay_rows(
        self, key: bytes, change: Waiting, change_set: ChangeSet, held: Held | None, result: BatchResult
    ) -> bool:
        """A change set whose rows did not fit can be made up for as long as the aggregate has not changed since."""
        found = self._evaluator.apply(self.states.get(key), change_set)
        failures = [one for one in found.failures if one.rule is None]
        too_late = found.ignored or (key not in self.states and self.left_out.is_before(change.offset))
        if held is not None:
            reason = f"the aggregate is held by offset {held.offset}: deal with that first"
            failures = [row_failure(change_set, reason)]
        elif too_late:
            reason = "the aggregate has changed since, so this cannot be made up for in order"
            failures = [row_failure(change_set, f"{reason}; read its rows anew with an incremental snapshot")]
        if failures:
            self._letters.write(key, change, failures, result)
            return False
        failed = self._apply(key, change, change_set, result)
        return ROWS not in (self.held[key].failed if failed is None else failed)


def _text(offset: int, rule: str | None, event_id: str | None) -> bytes:
    return b"%020d\0%b\0%b" % (offset, (rule or "").encode(), (event_id or "").encode())


def _has_id(event: PublishedEvent, event_id: str) -> bool:
    """Whether a letter's event is this one; a letter from before rules were part of ids has the former."""
    if event.event_id == event_id:
        return True
    sequence = dict(event.headers)["ce_sequence"].decode()
    return former_id(event.topic, event.key.decode(), sequence) == event_id


def _is(discarded: Failed, rule: str | None, event_id: str | None) -> bool:
    """Whether something of a rule is what a person has discarded: the whole rule, or one event."""
    return discarded[0] == rule and discarded[1] in (None, event_id)
