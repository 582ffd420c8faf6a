"""What was there before the state began: an update of it is not its creation, and what it says is only what was seen."""

from collections.abc import Callable
from typing import Any

import pytest

from tidings_domain import Domain
from tidings_domain.testing import Outcome, Rehearsal, Statement, delete, insert, update

Load = Callable[..., Domain]

OWNER_FILES = {
    "aggregates.py": """
from tidings_domain import Aggregate


class Box(Aggregate, root="public.boxes", key="id"):
    id: int
    state: str
""",
    "rules.py": """
from tidings_domain import rule

from PACKAGE.aggregates import Box
from PACKAGE.events import BoxGone, BoxPacked, ItemAdded


@rule(Box, emits=(BoxPacked, BoxGone, ItemAdded))
def told(change):
    if change.created:
        yield ItemAdded(box_id=change.after.id, item_no=0)
    if change.became(Box.state, "packed"):
        yield BoxPacked(box_id=change.after.id)
    if change.changed(Box.state):
        yield ItemAdded(box_id=change.after.id, item_no=1)
    if change.deleted:
        yield BoxGone(box_id=change.before.id)
""",
    "versions.py": "",
}
PARTIAL = """
from tidings_domain import rule

from PACKAGE.aggregates import Box
from PACKAGE.events import BoxGone, BoxPacked, ItemAdded


@rule(Box, emits=ItemAdded)
def added(change):
    for item in change.added(Box.items):
        yield ItemAdded(box_id=change.after.id, item_no=item.no)


@rule(Box, emits=(BoxGone, ItemAdded), partial=True)
def gone(change):
    if change.created or change.changed(Box.state) or change.became(Box.state, "open"):
        yield BoxGone(box_id=change.current.id)
    for item in change.added(Box.items):
        yield ItemAdded(box_id=change.after.id, item_no=item.no + (100 if change.partial else 0))
    assert change.knows(Box.items) is not change.partial
    assert change.knows(Box.state) is (change.before is not None or change.created)
"""


def names(told: Outcome) -> list[str]:
    assert told.failures == []
    return [type(event).__name__.removesuffix("V1").removesuffix("V2") for event in told.events]


def box(number: int = 1, **values: Any) -> Statement:
    return insert("public.boxes", **{"id": number, "state": "open", "note": None, "owner_id": None} | values)


def item(no: int, number: int = 1) -> Statement:
    return insert("public.items", box_id=number, no=no, weight="1.500", label=None)


def forgotten(domain: Domain, *rows: Statement) -> Rehearsal:
    """The rows are in the tables, and nobody has ever told of them."""
    rehearsal = Rehearsal(domain).given(*rows)
    rehearsal.states.clear()
    return rehearsal


@pytest.fixture
def small(box_domain: Load, box_contracts: dict[str, str]) -> Domain:
    contracts = {path: text for path, text in box_contracts.items() if "box-packed/v2" not in path}
    return box_domain(OWNER_FILES, contracts)


@pytest.mark.parametrize(
    "transaction",
    [
        [update("public.boxes", id=1, state="packed")],
        [update("public.boxes", id=1, state="packed"), update("public.boxes", id=1, note="x")],
        [delete("public.boxes", id=1), box(state="packed")],
        [delete("public.boxes", id=1)],
    ],
)
def test_what_was_there_before_is_neither_created_nor_changed_nor_gone(
    small: Domain, transaction: list[Statement]
) -> None:
    boxes = forgotten(small, box())
    assert names(boxes.when(*transaction)) == []


def test_from_its_first_whole_row_on_an_aggregate_without_children_is_known(small: Domain) -> None:
    boxes = forgotten(small, box())
    boxes.when(update("public.boxes", id=1, note="x"))
    assert names(boxes.when(update("public.boxes", id=1, state="packed"))) == ["BoxPacked", "ItemAdded"]
    assert names(boxes.when(delete("public.boxes", id=1))) == ["BoxGone"]
    assert names(boxes.when(box())) == ["ItemAdded", "ItemAdded"], "an insert is a creation"


@pytest.mark.parametrize(
    "transaction",
    [
        [box(), update("public.boxes", id=1, state="packed")],
        [box(), delete("public.boxes", id=1), box(state="packed")],
    ],
)
def test_a_root_that_the_transaction_has_inserted_is_created(
    small: Domain, transaction: list[Statement]
) -> None:
    boxes = Rehearsal(small)
    assert names(boxes.when(*transaction)) == ["ItemAdded", "BoxPacked", "ItemAdded"]


def test_a_key_that_changes_is_a_creation_and_of_the_old_key_a_deletion_where_that_was_known(
    small: Domain,
) -> None:
    boxes = forgotten(small, box(), box(2))
    assert names(boxes.when(delete("public.boxes", id=1), box(5))) == ["ItemAdded", "ItemAdded"]
    assert names(boxes.when(delete("public.boxes", id=5), box(6))) == ["BoxGone", "ItemAdded", "ItemAdded"]


def test_rules_do_not_run_while_children_may_be_missing(box_domain: Load) -> None:
    boxes = forgotten(box_domain(), box(), item(1), item(2))
    transactions = [
        [item(3)],
        [update("public.boxes", id=1, state="packed")],
        [update("public.items", box_id=1, no=1, weight="2")],
        [item(4), update("public.boxes", id=1, state="open")],
        [update("public.boxes", id=1, state="packed")],
        [delete("public.boxes", id=1)],
    ]
    assert [names(boxes.when(*one)) for one in transactions] == [[]] * 6
    assert names(boxes.when(box(state="packed"), item(7))) == ["BoxPacked", "ItemAdded"]


def test_children_that_are_committed_before_their_root_are_counted_until_it_comes(box_domain: Load) -> None:
    """Nobody can tell them from those of a root that was there before; once it is inserted, nothing has been missed."""
    boxes = Rehearsal(box_domain())
    state, seen = None, []
    transactions: list[list[Statement]] = [
        [item(1)],
        [item(2)],
        [box(state="packed")],
        [item(3)],
    ]
    for one in transactions:
        for change_set in boxes.change_sets(*one):
            found = boxes.evaluator.apply(state, change_set)
            state = found.new_state
            seen.append((found.partial, [str(event.payload.get("weight")) for event in found.events]))
    assert [partial for partial, _ in seen] == [True, True, False, False]
    assert seen[2][1][0] == "3.000", "the creation has both items"
    assert [len(events) for _, events in seen] == [0, 0, 4, 1]


def test_a_snapshot_of_all_its_tables_makes_an_aggregate_known(box_domain: Load) -> None:
    boxes = forgotten(box_domain(), box(), item(1), item(2))
    boxes.when(update("public.boxes", id=1, note="x"))
    boxes.given(item(1), item(2))
    assert names(boxes.when(item(3))) == [], "its root has not been read yet"
    boxes.given(box(note="x"))
    told = boxes.when(update("public.boxes", id=1, state="packed"), item(4))
    assert names(told) == ["BoxPacked", "ItemAdded"]
    assert str(told.published[0].payload["weight"]) == "6.000", "all four items"


def test_a_rule_that_asks_for_it_sees_what_is_partly_known_and_is_told_so(box_domain: Load) -> None:
    boxes = forgotten(box_domain({"rules.py": PARTIAL, "versions.py": ""}), box(), item(1), item(2))

    def numbers(*statements: Statement) -> list[int]:
        told = boxes.when(*statements)
        assert not told.failures
        events: list[Any] = told.events
        return [getattr(one, "item_no", -1) for one in events]

    assert numbers(item(3)) == [], "without a root there is no aggregate"
    assert numbers(
        update("public.items", box_id=1, no=1, weight="2"), item(4), update("public.boxes", id=1)
    ) == [104]
    assert numbers(update("public.items", box_id=1, no=2, weight="3"), item(5)) == [105], "2 was there before"
    assert numbers(update("public.boxes", id=1, state="packed")) == [-1]
    boxes.given(box(state="packed"))
    assert numbers(item(6)) == [6, 6]


def test_a_child_table_that_is_declared_later_has_rows_that_are_not_new(
    box_domain: Load, box_files: dict[str, str]
) -> None:
    """The rows of the table that was added are not known in states of before; all else is."""
    without = box_files["aggregates.py"].replace(
        '    items = children(Item, by="box_id")\n', "    items: tuple[Item, ...] = ()\n"
    )
    without = without.replace("    items: tuple[Item, ...] = ()\n", "")
    rules = box_files["rules.py"].split("@rule(Box, emits=ItemAdded)", maxsplit=1)
    before = (
        rules[0].replace("change.after.items", "()")
        + "@rule(Box, emits=ItemAdded)\ndef item_added(change):\n    return ()\n\n\n"
        + rules[1][rules[1].index("@rule") :]
    )
    old = Rehearsal(box_domain({"aggregates.py": without, "rules.py": before}))
    old.given(box(), item(1), item(2))
    new = forgotten(box_domain(), box(), item(1), item(2))
    new.states = dict(old.states)
    new.lsn, new.ts_us, new.txid = old.lsn, old.ts_us, old.txid
    assert names(new.when(update("public.items", box_id=1, no=1, weight="7"))) == []
    assert names(new.when(item(3), update("public.items", box_id=1, no=2, weight="8"))) == ["ItemAdded"]
    assert names(new.when(update("public.boxes", id=1, state="packed"))) == ["BoxPacked"], "others go on"
    assert names(new.when(box(2), item(1, 2), item(2, 2))) == ["ItemAdded", "ItemAdded"]


def test_a_column_that_is_declared_later_has_not_changed(box_domain: Load, box_files: dict[str, str]) -> None:
    old = Rehearsal(box_domain()).given(box(size=9), box(2, size=9))
    wider = box_files["aggregates.py"].replace(
        "    note: str | None\n", "    note: str | None\n    size: int | None = None\n"
    )
    rules = box_files["rules.py"].replace(
        'change.became(Box.state, "packed")', "change.changed(Box.size) or change.became(Box.size, 9)"
    )
    new = forgotten(box_domain({"aggregates.py": wider, "rules.py": rules}), box(size=9), box(2, size=9))
    new.states = dict(old.states)
    new.lsn = old.lsn
    assert names(new.when(item(1))) == ["ItemAdded"]
    assert names(new.when(update("public.boxes", id=1, note="x"))) == [], "9 is what it always was"
    assert names(new.when(update("public.boxes", id=1, size=8))) == ["BoxPacked"]
    assert names(new.when(update("public.boxes", id=2, size=8))) == [], "what it was is not known"


def test_nested_rows_that_were_there_before_are_not_new(box_domain: Load) -> None:
    from nesting import FILES

    boxes = forgotten(
        box_domain(FILES),
        insert("public.boxes", id=1, state="open", parent_id=None),
        insert("public.items", id=10, box_id=1),
        insert("public.parts", id=100, item_id=10, name=""),
        insert("public.labels", id=1000, part_id=100, text="", colour_id=None),
    )
    assert names(boxes.when(update("public.boxes", id=1, state="shut"))) == []
    assert names(boxes.when(update("public.labels", id=1000, text="x"))) == []
    assert names(boxes.when(update("public.parts", id=100, name="x"), update("public.items", id=10))) == []
