"""Children of children: rows find their root through the rows above them, whatever moves, goes or comes late."""

import random
from typing import Any

import pytest
from nesting import FILES, ROWS, Load, aggregate_of, keys_of

from tidings_domain import Domain
from tidings_domain.errors import DomainError
from tidings_domain.testing import Rehearsal, Statement, delete, insert, update


@pytest.fixture
def domain(box_domain: Load) -> Domain:
    return box_domain(FILES)


def told(rehearsal: Rehearsal, *statements: Statement) -> list[tuple[str, int]]:
    found = rehearsal.when(*statements)
    assert not found.failures
    events: list[Any] = found.events
    return [(one.__event__, getattr(one, "item_no", one.box_id)) for one in events]


def box(number: int) -> Statement:
    return insert("public.boxes", id=number, state="open", parent_id=None)


def full_box(number: int = 1) -> list[Statement]:
    return [
        box(number),
        insert("public.items", id=number * 10, box_id=number),
        insert("public.parts", id=number * 100, item_id=number * 10, name=""),
        insert("public.labels", id=number * 1000, part_id=number * 100, text="", colour_id=None),
    ]


def test_rows_of_all_levels_are_in_the_aggregate_in_any_order(domain: Domain) -> None:
    for seed in range(20):
        rows = full_box()
        random.Random(seed).shuffle(rows)
        rehearsal = Rehearsal(domain)
        assert told(rehearsal, *rows) == [("item-added", 1000)]
        assert keys_of(rehearsal, 1) == {10: {100: [1000]}}
        one_by_one = Rehearsal(domain)
        for row in rows:
            one_by_one.given(row)
        assert keys_of(one_by_one, 1) == {10: {100: [1000]}}, seed


def test_a_child_that_moves_takes_along_what_is_below_it(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(*full_box(1), box(2))
    moved = told(rehearsal, update("public.items", id=10, box_id=2))
    assert moved == [("box-gone", 1000), ("item-added", 1000)]
    assert (keys_of(rehearsal, 1), keys_of(rehearsal, 2)) == ({}, {10: {100: [1000]}})
    assert told(rehearsal, update("public.items", id=10, box_id=None)) == [("box-gone", 1000)]
    assert told(rehearsal, update("public.parts", id=100, name="n")) == []
    assert told(rehearsal, update("public.items", id=10, box_id=1)) == [("item-added", 1000)]
    assert keys_of(rehearsal, 1) == {10: {100: [1000]}}
    assert aggregate_of(rehearsal, 1).items[0].parts[0].name == "n"


def test_rows_change_while_the_row_above_them_moves(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(*full_box(1), *full_box(2))
    told(
        rehearsal,
        update("public.items", id=10, box_id=2),
        update("public.parts", id=200, item_id=10),
        delete("public.labels", id=1000),
        insert("public.labels", id=7, part_id=100, text="", colour_id=None),
    )
    assert keys_of(rehearsal, 1) == {}
    assert keys_of(rehearsal, 2) == {10: {100: [7], 200: [2000]}, 20: {}}


def test_deleted_rows_are_found_by_their_key_alone(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(*full_box(1))
    assert told(rehearsal, delete("public.labels", id=1000)) == [("box-gone", 1000)]
    told(rehearsal, insert("public.labels", id=8, part_id=100, text="", colour_id=None))
    gone = [delete("public.items", id=10), delete("public.parts", id=100), delete("public.labels", id=8)]
    assert told(rehearsal, *gone) == [("box-gone", 8)]
    assert keys_of(rehearsal, 1) == {}
    told(rehearsal, delete("public.boxes", id=1))
    assert keys_of(rehearsal, 1) is None


def test_a_root_key_that_changes_takes_everything_along(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(*full_box(1))
    told(rehearsal, delete("public.boxes", id=1), box(3), update("public.items", id=10, box_id=3))
    assert (keys_of(rehearsal, 1), keys_of(rehearsal, 3)) == (None, {10: {100: [1000]}})


def test_a_key_that_holds_the_root_s_needs_no_memory_of_rows(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(insert("public.slots", id=5, box_id=1, tray_no=2), box(1))

    def trays() -> dict[int, list[int]]:
        return {tray.no: [slot.id for slot in tray.slots] for tray in aggregate_of(rehearsal, 1).trays}

    assert trays() == {}, "it waits for its tray"
    told(rehearsal, insert("public.trays", box_id=1, no=2))
    assert trays() == {2: [5]}
    told(rehearsal, insert("public.trays", box_id=1, no=3), update("public.slots", id=5, tray_no=3))
    assert trays() == {2: [], 3: [5]}
    told(rehearsal, delete("public.slots", id=5))
    assert trays() == {2: [], 3: []}
    assert len(rehearsal._router._memory) == 0


def test_references_of_the_lowest_rows(domain: Domain) -> None:
    rehearsal = Rehearsal(domain).given(*full_box(1), insert("public.colours", id=4, name="red"))
    told(rehearsal, update("public.labels", id=1000, colour_id=4))
    assert aggregate_of(rehearsal, 1).items[0].parts[0].labels[0].colour.name == "red"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    part_id: int\n", "", r"Part\.labels: Label declares no column 'part_id'; declare `part_id` in Label"),
        ("    part_id: int\n", "    part_id: str\n", r"Label\.part_id and Part\.id are declared differently"),
        ('children(Label, by="part_id")', 'children(Label, by=("a", "b"))', r"has 2 columns, but the key of Part has 1"),
        ('Slot(Row, table="public.slots"', 'Slot(Row, table="public.parts"', r"Box: public\.parts is at "),
        ('Label(Row, table="public.labels"', 'Label(Row, table="public.boxes"', r"items\.parts\.labels is the root's own table"),
        ("    trays =", '    first = reference(Item, by="parent_id")\n    trays =',
         r"Box\.first: Item has children, and a referenced row has none"),
    ],
)  # fmt: skip
def test_mistakes_are_told(box_domain: Load, old: str, new: str, says: str) -> None:
    assert old in ROWS
    with pytest.raises(DomainError, match=says):
        box_domain({**FILES, "aggregates.py": ROWS.replace(old, new, 1)})


SELF = """
from tidings_domain import Aggregate, Row, children, reference


class Inner(Row, table="public.boxes", key="id"):
    id: int
    state: str


class Box(Aggregate, root="public.boxes", key="id"):
    id: int
    state: str = ""
    parent_id: int | None = None
    inner = children(Inner, by="parent_id")
    outer = reference(Inner, by="parent_id")
"""
SELF_RULES = """
from tidings_domain import rule

from PACKAGE.aggregates import Box
from PACKAGE.events import BoxGone, ItemAdded


@rule(Box, emits=(ItemAdded, BoxGone))
def filled(change):
    for box in change.added(Box.inner):
        yield ItemAdded(box_id=change.current.id, item_no=box.id)
    if change.deleted:
        yield BoxGone(box_id=change.before.id)
"""


@pytest.fixture
def tree(box_domain: Load) -> Rehearsal:
    return Rehearsal(box_domain({"aggregates.py": SELF, "rules.py": SELF_RULES, "versions.py": ""}))


def test_a_table_may_be_root_and_child_of_one_aggregate(tree: Rehearsal) -> None:
    def inner(key: int) -> list[int]:
        return [one.id for one in aggregate_of(tree, key).inner]

    tree.given(box(1), insert("public.boxes", id=9, state="", parent_id=9))
    assert told(tree, insert("public.boxes", id=2, state="a", parent_id=1)) == [("item-added", 2)]
    assert (aggregate_of(tree, 1).state, inner(1)) == ("open", [2])
    assert (aggregate_of(tree, 2).state, inner(2), aggregate_of(tree, 2).outer.state) == ("a", [], "open")
    assert inner(9) == [9]
    told(tree, update("public.boxes", id=2, parent_id=9))
    assert (inner(1), inner(9)) == ([], [2, 9])
    assert told(tree, delete("public.boxes", id=2)) == [("box-gone", 2)]
    assert (inner(9), aggregate_of(tree, 2)) == ([9], None)
    [own] = tree.change_sets(update("public.boxes", id=9, state="b"))
    assert len(own.rows) == 1, "root and child in one"


def test_references_are_followed_no_further_than_declared(tree: Rehearsal) -> None:
    """However long the chain of rows is."""
    tree.given(*(insert("public.boxes", id=n, state="", parent_id=n - 1 or None) for n in range(1, 2000)))
    sets = {one.id: one for one in tree.change_sets(update("public.boxes", id=1999, state="b"))}
    assert list(sets["1999"].references["public.boxes"]) == ["1998"]
