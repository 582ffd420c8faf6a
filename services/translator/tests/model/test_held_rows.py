"""Policies of rows, letters that are too large, bounds on what waits, and how policies are overridden."""

from collections.abc import Callable

import pytest
from holding import CHANGELOG, HERE, Run, box, item, pack

from tidings_domain import Domain
from tidings_domain.changes import ChangeSet
from tidings_domain.errors import DomainError
from tidings_domain.evaluation.cloudevents import event_id_by_order
from tidings_domain.language.events import topic_of
from tidings_domain.testing import delete, insert, update
from tidings_service import SettingsError
from tidings_translator.base.errors import StopError
from tidings_translator.translation.policies import Policies
from tidings_translator.translation.publishing import Publisher
from tidings_translator.translation.shard import Shard

Load = Callable[..., Domain]


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
    plan = run.context.evaluator._aggregates["Box"]
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
    plan = run.context.evaluator._aggregates["Box"]
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
    monkeypatch.setattr("tidings_translator.translation.shard.MAX_VALUE_BYTES", 90)
    owner = insert("public.owners", id=7, name="Ann" * 40)
    run.commit(box(1), owner)
    before = dict(run.changelog)
    run.commit(pack(1, owner_id=7))
    assert run.changelog[b"Box/1"] == before[b"Box/1"], "the state stays as it was"
    [letter] = run.open()
    assert (letter.headers["stage"], letter.headers["error"]) == ("rows", "RowError")
    assert "the aggregate's state would have" in letter.headers["reason"]

    plan = run.context.evaluator._aggregates["Box"]
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
        small.setattr("tidings_translator.translation.shard.MAX_VALUE_BYTES", 100)
        plan = run.context.evaluator._aggregates["Box"]
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
    monkeypatch.setattr("tidings_translator.dead_letters.letters.MAX_VALUE_BYTES", 50)
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


def test_a_deleted_aggregate_leaves_nothing_behind(make: Callable[..., Run]) -> None:
    run = make()
    run.commit(box(1), item(1, 1), box(2))
    run.commit(delete("public.boxes", id=1))
    run.commit(insert("public.seals", id=1, box_id=5))
    run.commit(delete("public.seals", id=1))
    assert run.changelog[b"Box/1"] is None
    left = {key for key, value in run.changelog.items() if value is not None}
    assert left == {b"Box/2", b"\0left-out-since"}
    assert set(run.shard.states) == {b"Box/2"}
    run.restart()
    run.commit(box(1), item(1, 1))
    assert run.topics() == ["item-added.v1", "box-gone.v1", "item-added.v1"]


def test_a_deleted_aggregate_is_remembered_while_a_change_of_before_can_be_replayed(
    make: Callable[..., Run],
) -> None:
    run = make()
    run.commit(box(1), item(1, 1))
    run.commit(item(1, 2, weight="not a weight"), update("public.boxes", id=1, note="x"))
    run.commit(item(1, 3, weight="nor is this"))
    run.commit(delete("public.boxes", id=1))
    run.restart()
    first, second = run.open()
    for letter in (first, second):
        run.deal("replay", letter)
    assert all("changed since" in letter.headers["reason"] for letter in run.open())
    assert run.changelog[b"Box/1"] is not None
    run.deal("discard", first)
    run.restart()
    assert b"Box/1" in run.shard.states
    run.deal("discard", second)
    assert run.changelog[b"Box/1"] is None
    assert [key for key, value in run.changelog.items() if value and key.startswith(b"\0left-out\0")] == []
    assert run.topics() == ["item-added.v1", "box-gone.v1"]


def test_letters_from_before_deletions_were_noted_do_not_bring_anything_back(
    make: Callable[..., Run],
) -> None:
    run = make()
    run.commit(box(1), item(1, 1, weight="not a weight"))
    [letter] = run.open()
    run.changelog.clear()
    run.shard = Shard(run.context, HERE, CHANGELOG, 1, run.offset, run.mode)
    run.commit(box(2))
    run.restart()
    run.deal("replay", letter)
    [again] = run.open()
    assert "changed since" in again.headers["reason"]


def one_too_large(make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> tuple[Run, ChangeSet]:
    """A run with a letter about version 2 of an event, and the change set."""
    run = make()
    with monkeypatch.context() as small:
        small.setattr("tidings_translator.translation.shard.MAX_VALUE_BYTES", 100)
        small.setattr(run.context.evaluator._aggregates["Box"], "encode", lambda *_: b"small")
        [made] = run.commit(insert("public.owners", id=7, name="Ann" * 40), box(1), pack(1, owner_id=7))
    del run.changelog[b"Box/1"]
    run.restart()
    return run, made


def test_a_replay_finds_its_event_when_another_rule_was_put_before_it(
    make: Callable[..., Run], box_domain: Load, box_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter about one event is never closed with nothing published."""
    run, _ = one_too_large(make, monkeypatch)
    [letter] = run.open()
    assert (run.topics(), letter.headers["stage"]) == (["box-packed.v1"], "publish")

    first = "@rule(Box, emits=BoxPacked)\ndef before(change):\n    return ()\n\n\n@rule(Box, emits=BoxPacked)"
    rules = box_files["rules.py"].replace("@rule(Box, emits=BoxPacked)", first)
    later = Run(box_domain({"rules.py": rules}))
    later.changelog, later.offset, later.letters = run.changelog, run.offset, run.letters
    later.restart()
    later.deal("replay", letter)
    assert (later.topics(), later.open()) == (["box-packed.v2"], [])
    [(id_, _)] = later.ids
    assert id_.decode() == letter.origin.event_id


def test_a_letter_of_which_the_rule_says_nothing_any_more_stays_open(
    make: Callable[..., Run], box_domain: Load, box_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = one_too_large(make, monkeypatch)
    [letter] = run.open()
    rules = box_files["rules.py"].replace('if change.became(Box.state, "packed")', "if change.deleted")
    later = Run(box_domain({"rules.py": rules}))
    later.changelog, later.offset, later.letters = run.changelog, run.offset, run.letters
    later.restart()
    later.deal("replay", letter)
    [again] = later.open()
    assert "has this event's id" in again.headers["reason"]
    assert again.origin == letter.origin


def test_a_letter_with_the_id_of_an_earlier_version_finds_its_event(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, made = one_too_large(make, monkeypatch)
    [letter] = run.open()
    former = event_id_by_order("depot.box-packed.v2", "1", made.commit_lsn, 0)
    run.deal("replay", letter._replace(headers={**letter.headers, "event_id": former}))
    assert run.topics() == ["box-packed.v1", "box-packed.v2"]


def test_a_document_that_is_too_large_is_a_letter_where_its_avro_is_not(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Structured mode: one JSON document with names, quotes and escapes."""
    run = make()
    frames = {topic_of(event): b"" for event in run.domain.event_classes()}
    publisher = Publisher(frames, {}, as_json=True)
    run.context = run.context._replace(publisher=publisher)
    run.restart()
    monkeypatch.setattr("tidings_translator.translation.shard.MAX_VALUE_BYTES", 500)
    run.commit(insert("public.owners", id=7, name="\1" * 60), box(1))
    run.commit(pack(1, owner_id=7))
    [letter] = run.open()
    assert (letter.headers["stage"], letter.headers["error"]) == ("publish", "TooLarge")
    assert run.topics() == ["box-packed.v1"]
    run.deal("replay", letter)
    assert run.topics() == ["box-packed.v1"], "still too large"
