"""Policies of rules, held aggregates, and what a replay or a discard does: a partition in memory, with its changelog."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from tidings_service import SettingsError
from tidings_translator.changes import ChangeSet, encode_change_set
from tidings_translator.dead_letters import Letter, open_letters, read_letter
from tidings_translator.domain import Domain
from tidings_translator.errors import DomainError, StopError
from tidings_translator.evaluate import Evaluator
from tidings_translator.events import topic_of
from tidings_translator.policies import Policies
from tidings_translator.publishing import Made, Publisher
from tidings_translator.records import Partition
from tidings_translator.requests import Request, encode_request
from tidings_translator.shard import Shard, Workings
from tidings_translator.testing import Rehearsal, Statement, insert, update

HERE, CHANGELOG, LETTERS = Partition("change-sets", 3), Partition("state", 3), "letters"
Load = Callable[..., Domain]


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Run:
    """A shard of the box domain whose rule `packed` refuses a box with the note "poison" or "both" until it is mended;
    `item_added`, whose policy is skip, refuses "both" for ever.

    Rules are called afresh by each `restart`, which restores the shard from its changelog.
    """

    def __init__(
        self, domain: Domain, overrides: str = "", rows: Any = "skip", max_held: int = 100_000
    ) -> None:
        self.domain = domain
        self.tables = Rehearsal(domain)
        self.changelog: dict[bytes, bytes | None] = {}
        self.letters: list[Letter] = []
        self.events: list[tuple[str, str]] = []
        self.ids: list[tuple[bytes, bytes | None]] = []
        """Id and content of each event."""
        self.offset = 0
        frames = {topic_of(event): b"" for event in domain.event_classes()}
        self.workings = Workings(
            Evaluator(domain),
            Policies(domain, overrides, rows),
            Publisher(frames, {name: f"shadow.{name}" for name in frames}),
            LETTERS,
            max_held,
        )
        self.mode: Any = "live"
        self.restart()

    def restart(self) -> None:
        self.shard = Shard(self.workings, HERE, CHANGELOG, 1, 0, self.mode)
        for key, value in self.changelog.items():
            self.shard.load(key, value)
        self.shard.loaded()

    def commit(self, *statements: Statement) -> list[ChangeSet]:
        change_sets = self.tables.change_sets(*statements)
        for one in change_sets:
            self.put(f"{one.aggregate}/{one.id}".encode(), encode_change_set(one))
        return change_sets

    def put(self, key: bytes, value: bytes) -> None:
        made = Made()
        offset, self.offset = self.offset, self.offset + 1
        self.shard.take(Record(offset, key, value), made)
        for (changelog, stored_key), state in made.state.items():
            assert changelog == CHANGELOG
            self.changelog[stored_key] = state
        for output in made.outputs:
            if output.topic == LETTERS:
                headers: Iterable[Any] = output.headers or []
                number = len(self.letters)
                self.letters.append(read_letter(number, 0, output.key, output.value, headers))
            else:
                assert output.key is not None
                self.events.append((output.topic, output.key.decode()))
                self.ids.append((dict(output.headers or [])["ce_id"], output.value))

    def open(self) -> list[Letter]:
        return open_letters(self.letters)

    def deal(self, do: Any, letter: Letter) -> None:
        """As the command does."""
        origin = letter.origin
        held = letter.headers.get("policy") == "hold"
        shadow = "shadow" in letter.headers
        request = Request(
            do, origin.offset, origin.rule, origin.event_id, held, letter.value, letter.state, shadow
        )
        assert letter.key is not None
        self.put(letter.key, encode_request(request))

    def topics(self) -> list[str]:
        return [topic.removeprefix("depot.") for topic, _ in self.events]


class Poison:
    """Whether the rule refuses; a test mends it."""

    on = True


def box(number: int, **values: Any) -> Statement:
    return insert("public.boxes", id=number, **{"state": "open", "note": None, "owner_id": None} | values)


def pack(number: int, **values: Any) -> Statement:
    return update("public.boxes", id=number, state="packed", **values)


def reopen(number: int) -> Statement:
    return update("public.boxes", id=number, state="open")


def item(number: int, no: int, weight: object = "1") -> Statement:
    return insert("public.items", box_id=number, no=no, weight=weight, label=None)


@pytest.fixture
def make(box_domain: Load, box_files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """`make(policy, ...)`: `packed` fails for a box with the note "poison" as long as `Poison.on`."""
    monkeypatch.setattr(Poison, "on", True)

    def make_run(policy: str = "skip", *, once: bool = False, **options: Any) -> Run:
        rules = box_files["rules.py"].replace(
            "@rule(Box, emits=BoxPacked)", f'@rule(Box, emits=BoxPacked, on_failure="{policy}", once={once})'
        )
        rules = rules.replace(
            "def packed(change):",
            'def packed(change):\n    if change.after and change.after.note in {"poison", "both"} and POISON.on:\n'
            "        raise ValueError(change.after.note)",
        )
        rules = rules.replace(
            "def item_added(change):",
            'def item_added(change):\n    if change.after and change.after.note == "both":\n'
            "        raise ValueError(change.after.note)",
        )
        domain = box_domain({"rules.py": rules + "\n\nPOISON = None\n"})
        rule = next(one for one in domain.rules if one.id == "packed")
        rule.function.__globals__["POISON"] = Poison
        return Run(domain, **options)

    return make_run


def test_skip_leaves_the_rule_out_and_a_replay_makes_up_for_it_once(make: Callable[..., Run]) -> None:
    run = make()
    run.commit(box(1), item(1, 1))
    run.commit(pack(1, note="poison"), item(1, 2))
    run.commit(update("public.boxes", id=1, state="open", note="fine"))
    run.commit(item(1, 3))
    assert run.topics() == ["item-added.v1", "item-added.v1", "item-added.v1"], "the other rules ran"
    [letter] = run.open()
    assert (letter.headers["stage"], letter.headers["rule"], letter.headers["policy"]) == (
        "rule",
        "packed",
        "skip",
    )
    assert (letter.aggregate, letter.origin[:3]) == ("Box/1", (*HERE, 1))
    assert "poison" not in str(letter.headers)

    run.deal("replay", letter)
    [again] = run.open()
    assert again.number > letter.number
    assert run.topics()[3:] == []

    Poison.on = False
    run.restart()
    run.deal("replay", again)
    assert run.topics()[3:] == ["box-packed.v2", "box-packed.v1"]
    assert run.open() == []
    run.deal("replay", again)
    run.restart()
    run.deal("replay", letter)
    assert run.topics()[3:] == ["box-packed.v2", "box-packed.v1"], "twice is once, also after a restart"

    healthy = make()
    Poison.on = False
    healthy.commit(box(1), item(1, 1))
    healthy.commit(pack(1, note="poison"), item(1, 2))
    assert sorted(healthy.ids[1:]) == sorted([run.ids[1], *run.ids[3:]]), "as if it had not failed"


def test_a_rule_that_speaks_once_is_not_made_to_speak_again_by_a_replay(make: Callable[..., Run]) -> None:
    run = make(once=True)
    run.commit(box(1))
    run.commit(pack(1, note="poison"))
    [letter] = run.open()
    run.commit(update("public.boxes", id=1, note="fine", state="open"))
    Poison.on = False
    run.deal("replay", letter)
    assert run.topics() == ["box-packed.v2", "box-packed.v1"]
    run.restart()
    run.commit(pack(1))
    assert run.topics() == ["box-packed.v2", "box-packed.v1"], "the replay was its one say"


def test_a_held_aggregate_waits_in_order_and_the_others_go_on(make: Callable[..., Run]) -> None:
    run = make("hold")
    run.commit(box(1), box(2))
    run.commit(pack(1, note="poison"), item(1, 1))
    run.commit(item(1, 2))
    run.commit(update("public.boxes", id=1, note="fine", state="open"))
    run.restart()
    run.commit(pack(1))
    run.commit(pack(2))
    assert run.events == [("depot.box-packed.v2", "2"), ("depot.box-packed.v1", "2")]
    [letter] = run.open()
    assert letter.headers["policy"] == "hold"
    assert run.shard.held[b"Box/1"].since_us == run.tables.ts_us - 4_000_000
    assert [one.offset for one in run.shard.held[b"Box/1"].waiting] == [2, 3, 4, 5]

    run.deal("replay", letter)
    [again] = run.open()
    assert len(run.events) == 2
    assert len(run.shard.held[b"Box/1"].waiting) == 4

    Poison.on = False
    run.restart()
    run.deal("replay", letter)
    assert run.topics()[2:] == [
        *("box-packed.v2", "box-packed.v1", "item-added.v1"),  # what was held, as one
        "item-added.v1",
        *("box-packed.v2", "box-packed.v1"),
    ]
    assert run.open() == []
    assert (dict(run.shard.held), run.shard.held.share) == ({}, 0)
    assert [key for key, value in run.changelog.items() if value and key.startswith(b"\0held")] == []
    run.deal("replay", again)
    run.deal("discard", again)
    run.commit(reopen(1))
    assert len(run.events) == 8, "dealt with before"

    healthy = make("hold")
    Poison.on = False
    healthy.commit(box(1), box(2))
    healthy.commit(pack(1, note="poison"), item(1, 1))
    healthy.commit(item(1, 2))
    healthy.commit(update("public.boxes", id=1, note="fine", state="open"))
    healthy.commit(pack(1))
    assert run.ids[2:] == healthy.ids, "the events that would have been, in their order"


def test_discarding_goes_on_without_the_rule_and_holds_at_the_next_failure(make: Callable[..., Run]) -> None:
    run = make("hold")
    run.commit(box(1))
    run.commit(pack(1, note="poison"), item(1, 1))
    run.commit(item(1, 2))
    run.commit(reopen(1))  # the note is still there, so this fails, too
    run.commit(item(1, 3))
    [letter] = run.open()
    run.deal("discard", letter)
    assert run.topics() == ["item-added.v1", "item-added.v1"][:1]
    [second] = run.open()
    assert second.origin.offset == 2
    run.restart()
    run.deal("discard", letter)
    assert [one.origin.offset for one in run.open()] == [2], "a discard is of one letter"
    run.deal("discard", second)
    [third] = run.open()
    run.deal("discard", third)
    [fourth] = run.open()
    Poison.on = False
    run.deal("replay", fourth)
    assert run.topics() == ["item-added.v1"] * 3
    assert run.open() == []
    outcomes = [one.resolution for one in run.letters if one.resolution]
    assert outcomes == ["discarded", "discarded", "discarded", "replayed"]


def test_the_strictest_policy_of_what_failed_counts(make: Callable[..., Run]) -> None:
    run = make("hold")
    run.commit(box(1, state="packed", note="both"), item(1, 1))
    assert [letter.headers["policy"] for letter in run.open()] == ["hold", "hold"]
    Poison.on = False
    run.deal("replay", run.open()[1])
    assert run.topics() == ["box-packed.v2", "box-packed.v1"]
    [letter] = run.open()
    assert (letter.headers["rule"], letter.headers["policy"]) == ("item_added", "skip")


def test_what_is_discarded_is_left_out_also_when_it_would_not_fail_any_more(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("hold", rows="hold")
    run.commit(box(1))
    run.commit(pack(1, note="poison"), item(1, 1))
    Poison.on = False
    run.deal("discard", run.open()[0])
    assert (run.topics(), run.open()) == (["item-added.v1"], [])

    plan = run.workings.evaluator._aggregates["Box"]
    with monkeypatch.context() as broken:
        broken.setattr(plan, "advance", lambda *_: {}["no such column"])
        run.commit(item(1, 2))
    run.commit(item(1, 3))
    run.deal("discard", run.open()[0])
    assert (run.topics(), run.open()) == (["item-added.v1"] * 2, []), "the rows' change as a whole"


def test_what_was_held_or_left_out_before_a_promotion_stays_out_of_the_business_topics(
    make: Callable[..., Run],
) -> None:
    """A change set belongs to the generation that published when it came, whenever it is dealt with."""
    run = make("hold")
    run.mode = "shadow"
    run.restart()
    run.commit(box(1, state="packed", note="both"), item(1, 1))
    run.commit(box(2))
    run.mode = "live"
    run.restart()
    run.commit(item(2, 1))
    run.commit(reopen(1), update("public.boxes", id=1, note=None))
    Poison.on = False
    run.commit(pack(1))
    assert run.events == [("depot.item-added.v1", "2")]
    run.mode = "retired"
    run.restart()
    run.commit(item(2, 2))
    run.deal("replay", next(one for one in run.open() if one.headers["rule"] == "packed"))
    assert [topic for topic, _ in run.events] == [
        "depot.item-added.v1",
        *("shadow.depot.box-packed.v2", "shadow.depot.box-packed.v1"),
        *("depot.box-packed.v2", "depot.box-packed.v1"),
    ]


def test_a_replay_of_what_was_skipped_before_a_promotion_stays_out_of_the_business_topics(
    make: Callable[..., Run],
) -> None:
    run = make()
    run.mode = "shadow"
    run.restart()
    run.commit(box(1, state="packed", note="poison"))
    run.mode = "live"
    run.restart()
    run.commit(box(2, state="packed", note="poison"))
    Poison.on = False
    for letter in run.open():
        run.deal("replay", letter)
    assert run.events == [
        *(("shadow.depot.box-packed.v2", "1"), ("shadow.depot.box-packed.v1", "1")),
        *(("depot.box-packed.v2", "2"), ("depot.box-packed.v1", "2")),
    ]


def test_stop_leaves_everything_where_it_is(make: Callable[..., Run]) -> None:
    run = make("stop")
    run.commit(box(1))
    before = dict(run.changelog)
    with pytest.raises(StopError, match=r"rule 'packed' .* at change-sets/3 offset 1") as stopped:
        run.commit(pack(1, note="poison"))
    assert "poison" not in str(stopped.value)
    assert (run.changelog, run.letters, run.events) == (before, [], [])


@pytest.mark.parametrize("bad", ["not a weight", None, {"a": 1}, [], True])
def test_bad_rows_are_skipped_and_made_up_for_only_in_order(make: Callable[..., Run], bad: object) -> None:
    run = make()
    run.commit(box(1))
    run.commit(item(1, 1, weight=bad))
    [letter] = run.open()
    assert (letter.headers["stage"], letter.origin.rule) == ("rows", None)
    assert "not a weight" not in letter.headers["reason"]
    run.deal("replay", letter)
    assert run.topics() == []
    [letter] = run.open()
    run.commit(item(1, 2))
    run.deal("replay", letter)
    [letter] = run.open()
    assert "changed since" in letter.headers["reason"]
    run.deal("discard", letter)
    assert run.open() == []
    assert run.topics() == ["item-added.v1"]


def test_bad_rows_that_fit_later_are_made_up_for(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    run.commit(box(1))
    plan = run.workings.evaluator._aggregates["Box"]
    with monkeypatch.context() as broken:
        broken.setattr(plan, "advance", lambda *_: {}["no such column"])
        run.commit(item(1, 1))
    [letter] = run.open()
    assert letter.headers["reason"] == "KeyError while its rows were applied"
    run.deal("replay", letter)
    assert (run.open(), run.topics()) == ([], ["item-added.v1"])
    run.deal("replay", letter)
    assert run.topics() == ["item-added.v1"]


def test_bad_rows_that_were_skipped_wait_for_what_holds_the_aggregate(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("hold")
    run.commit(box(1))
    plan = run.workings.evaluator._aggregates["Box"]
    with monkeypatch.context() as broken:
        broken.setattr(plan, "advance", lambda *_: {}["no such column"])
        run.commit(item(1, 1))
    [skipped] = run.open()
    run.commit(pack(1, note="poison"))
    run.deal("replay", skipped)
    [held, again] = run.open()
    assert held.headers["policy"] == "hold"
    assert "the aggregate is held by offset 2" in again.headers["reason"]
    assert run.topics() == [], "nothing overtakes what is held"


def test_bad_rows_can_hold_and_a_discard_leaves_the_change_out(make: Callable[..., Run]) -> None:
    run = make(rows="hold")
    run.commit(box(1))
    run.commit(item(1, 1, weight="not a weight"), item(1, 5))
    run.commit(item(1, 2))
    [letter] = run.open()
    run.deal("discard", letter)
    assert (run.open(), run.topics()) == ([], ["item-added.v1"])


def test_an_event_or_a_state_that_is_too_large_is_a_letter(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("hold")
    monkeypatch.setattr("tidings_translator.shard.MAX_VALUE_BYTES", 90)
    owner = insert("public.owners", id=7, name="Ann" * 40)
    run.commit(box(1), owner)
    before = dict(run.changelog)
    run.commit(pack(1, owner_id=7))
    assert run.changelog == before, "the state stays as it was"
    [letter] = run.open()
    assert (letter.headers["stage"], letter.headers["error"]) == ("rows", "RowError")
    assert "the aggregate's state would have" in letter.headers["reason"]

    plan = run.workings.evaluator._aggregates["Box"]
    monkeypatch.setattr(plan, "encode", lambda *_: b"small")
    run.commit(box(2), pack(2, owner_id=7))
    [_, held] = run.open()
    assert (held.headers["stage"], held.headers["error"]) == ("publish", "TooLarge")
    assert run.topics() == []
    run.deal("discard", held)
    assert run.topics() == ["box-packed.v1"], "without the one event that was too large"
    assert [one.number for one in run.open()] == [letter.number]


def test_a_replay_publishes_only_the_event_that_was_too_large(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    owner = insert("public.owners", id=7, name="Ann" * 40)
    with monkeypatch.context() as small:
        small.setattr("tidings_translator.shard.MAX_VALUE_BYTES", 100)
        plan = run.workings.evaluator._aggregates["Box"]
        small.setattr(plan, "encode", lambda *_: b"small")
        run.commit(owner, box(2), pack(2, owner_id=7))
    [letter] = run.open()
    assert (run.topics(), letter.headers["stage"]) == (["box-packed.v1"], "publish")
    run.shard.states.clear()
    run.deal("replay", letter)
    assert (run.topics(), run.open()) == (["box-packed.v1", "box-packed.v2"], [])


def test_what_waits_is_bounded(make: Callable[..., Run]) -> None:
    run = make("hold", max_held=1_000)
    run.commit(box(1, note="poison"))

    def many() -> None:
        for number in range(100):
            run.commit(item(1, number))

    with pytest.raises(StopError, match="bytes of change sets") as stopped:
        many()
    assert stopped.value.hint is not None
    assert "TIDINGS_MAX_HELD_BYTES" in stopped.value.hint
    assert 0.5 < run.shard.held.share <= 1


def test_a_letter_that_would_not_fit_into_a_record_leaves_its_payload_out(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    monkeypatch.setattr("tidings_translator.dead_letters.MAX_VALUE_BYTES", 50)
    run.commit(box(1, note="poison"))
    [letter] = run.open()
    assert (letter.value, letter.state) == (None, None)
    assert int(letter.headers["left_out_bytes"]) > 50


def test_garbage_is_a_letter_and_stays_one(make: Callable[..., Run]) -> None:
    run = make()
    for value in (b"", b"\x00garbage", b"\x81\xa1a\x01", b"\x97" + b"\xc0" * 7):
        run.put(b"Box/1", value)
    letters = run.open()
    assert [one.headers["stage"] for one in letters] == ["decode"] * 4
    run.deal("replay", letters[1])
    assert len(run.open()) == 4
    for letter in run.open():
        run.deal("discard", letter)
    assert run.open() == []


def test_policies_can_be_overridden_by_rule(make: Callable[..., Run]) -> None:
    domain = make("stop").domain
    assert Policies(domain, "packed=hold")._rules == {"packed": "hold", "item_added": "skip", "gone": "skip"}
    assert Policies(domain, "*=hold, gone=skip")._rules == {
        "packed": "hold",
        "item_added": "hold",
        "gone": "skip",
    }
    with pytest.raises(SettingsError, match="TIDINGS_ON_FAILURE: the domain has no rule 'paked'") as error:
        Policies(domain, "paked=hold")
    assert error.value.hint == "did you mean 'packed'?"
    for text in ("packed", "packed=wait", "hold"):
        with pytest.raises(SettingsError, match="is not rule=policy"):
            Policies(domain, text)


def test_a_policy_that_is_not_one_is_told_with_its_place(make: Callable[..., Run]) -> None:
    with pytest.raises(
        DomainError, match=r"rules\.py:\d+: @rule has on_failure='ignore'; it can be one of skip"
    ):
        make("ignore")


def test_a_rule_that_wants_to_end_the_process_has_failed(box_domain: Load, box_files: dict[str, str]) -> None:
    rules = box_files["rules.py"].replace("def gone(change):", "def gone(change):\n    raise SystemExit(3)")
    run = Run(box_domain({"rules.py": rules}))
    run.commit(box(1))
    [letter] = run.open()
    assert "raised SystemExit" in letter.headers["reason"]
