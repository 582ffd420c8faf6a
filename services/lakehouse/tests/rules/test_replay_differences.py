"""What a replay says of aggregates that it does not know as the live service does, without Spark."""

from __future__ import annotations

from typing import Any

from tidings_domain.loading.domain import load_domain
from tidings_domain.replay.replay import ALL_LATER, Replay, share_of
from tidings_envelope.envelope import Envelope, Source, TransactionRef

RENTAL, YARD = load_domain("rental"), load_domain("yard.domain")
CATEGORY = {"id": 1, "parent_id": None, "name": "tents"}
ITEM = {
    "id": 5,
    "category_id": 1,
    "title": "tent",
    "tags": [],
    "condition": "new",
    "daily_cents": 1,
    "deposit": "0.00",
    "deleted_at": None,
}
BOX = {"id": "b", "owner_id": None, "state": "new", "note": None, "weight": None, "made_at": None}


def change(op: str, table: str, row: dict[str, Any], order: int = 1, *, read: bool = False) -> Envelope:
    schema, _, name = table.partition(".")
    source = Source("src", "", schema, name, 1_700_000_000_000, snapshot="true" if read else "false", lsn=10)
    ref = None if read else TransactionRef(f"7:{order}", order, 1)
    return Envelope(op, source, None, row, ref)


def topics(found: list[Any]) -> list[str]:
    return [one.event.topic for one in found]


def test_an_aggregate_that_the_live_service_holds_says_nothing_more() -> None:
    replay = Replay(RENTAL)
    assert replay.transaction(7, 100, [change("c", "rental.items", ITEM)]) == []
    [told] = replay.take_known_differences()
    assert (told.kind, told.aggregate, told.id, told.since, told.until) == (
        "held",
        "Item",
        "5",
        100,
        ALL_LATER,
    )
    found = replay.transaction(8, 200, [change("c", "rental.categories", CATEGORY)])
    assert topics(found) == ["rental.category-created.v1"]
    broken = {**ITEM, "condition": "broken"}
    assert replay.transaction(9, 300, [change("u", "rental.items", broken)]) == []
    assert replay.take_known_differences() == []


def test_what_a_rule_fails_at_is_a_letter_and_the_aggregate_goes_on() -> None:
    replay = Replay(YARD)
    assert topics(replay.transaction(7, 100, [change("c", "public.boxes", BOX)])) == [
        "yard.box-changed.v2",
        "yard.box-changed.v1",
    ]
    impossible = {**BOX, "state": "impossible"}
    assert replay.transaction(8, 200, [change("u", "public.boxes", impossible)]) == []
    [told] = replay.take_known_differences()
    assert (told.kind, told.id, told.since, told.until) == ("letter", "b", 200, 200)
    assert "impossible" not in told.reason
    again = replay.transaction(9, 300, [change("u", "public.boxes", {**BOX, "state": "old"})])
    assert topics(again) == ["yard.box-changed.v2", "yard.box-changed.v1"]


def test_a_transaction_that_is_given_up_still_tells_of_rows_that_others_refer_to() -> None:
    replay = Replay(RENTAL)
    replay.give_up([change("c", "rental.categories", CATEGORY)])
    assert topics(replay.transaction(8, 200, [change("c", "rental.items", ITEM)])) == [
        "rental.item-listed.v1"
    ]


def test_a_row_without_the_columns_of_its_way_gives_its_transaction_up() -> None:
    replay = Replay(RENTAL)
    nameless = {name: value for name, value in ITEM.items() if name != "id"}
    rows = [change("c", "rental.categories", CATEGORY), change("c", "rental.items", nameless, 2)]
    assert replay.transaction(7, 100, rows) == []
    [told] = replay.take_known_differences()
    assert (told.kind, told.since) == ("letter", 100)
    assert topics(replay.transaction(8, 200, [change("c", "rental.items", ITEM)])) == [
        "rental.item-listed.v1"
    ]


def test_shares_are_disjoint_and_together_all() -> None:
    """Also where each is given every row."""
    rows = [change("c", "public.boxes", {**BOX, "id": f"b{number}"}, number) for number in range(1, 40)]
    whole = [one.event.event_id for one in Replay(YARD).transaction(7, 100, rows)]
    parts = []
    for share in range(4):
        found = Replay(YARD, share, 4).transaction(7, 100, rows)
        assert {share_of("Box", one.change_set.id, 4) for one in found} == {share}
        parts += [one.event.event_id for one in found]
    assert sorted(parts) == sorted(whole)


def test_an_incremental_row_that_changes_an_aggregate_is_told_and_one_that_does_not_is_not() -> None:
    replay = Replay(YARD)
    replay.snapshot_row(change("r", "public.boxes", BOX, read=True))
    replay.transaction(7, 100, [change("u", "public.boxes", {**BOX, "state": "old"})])
    replay.incremental_row(change("r", "public.boxes", {**BOX, "state": "old"}, read=True), 100)
    assert replay.take_known_differences() == []
    replay.incremental_row(change("r", "public.boxes", {**BOX, "state": "older"}, read=True), 100)
    [told] = replay.take_known_differences()
    assert (told.kind, told.id, told.since, told.until) == ("incremental", "b", 100, ALL_LATER)
