"""Policies of rules, held aggregates, and what a replay or a discard does, also across a promotion."""

from collections.abc import Callable

import pytest
from holding import HERE, Poison, Run, box, item, pack, reopen

from tidings_domain.testing import update
from tidings_translator.base.errors import StopError


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

    plan = run.context.evaluator._aggregates["Box"]
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
