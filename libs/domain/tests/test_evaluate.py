"""The evaluator: difference-based, idempotent, ordered; a rule that raises harms nobody else."""

from collections.abc import Callable
from typing import Any
from uuid import uuid5

import msgspec
import pytest

from tidings_domain import Domain
from tidings_domain.changes import ChangeSet, RowChange
from tidings_domain.errors import StateError, TranslatorError
from tidings_domain.evaluation.cloudevents import NAMESPACE
from tidings_domain.evaluation.evaluate import Evaluator, PublishedEvent
from tidings_domain.testing import Outcome, Rehearsal, Statement, delete, insert, update

Load = Callable[..., Domain]


def box(**values: Any) -> Statement:
    return insert("public.boxes", **{"id": 1, "state": "open", "note": None, "owner_id": None} | values)


def item(no: int, **values: Any) -> Statement:
    return insert("public.items", **{"box_id": 1, "no": no, "weight": "1.500", "label": None} | values)


def names(told: Outcome) -> list[str]:
    assert told.failures == []
    return [type(event).__name__ for event in told.events]


@pytest.fixture
def boxes(box_domain: Load) -> Rehearsal:
    return Rehearsal(box_domain())


def test_several_events_come_from_one_transaction_in_the_order_of_rules(boxes: Rehearsal) -> None:
    told = boxes.when(item(2), box(state="packed"), item(1))
    assert names(told) == ["BoxPackedV2", "ItemAddedV1", "ItemAddedV1"]
    assert [one.payload.get("item_no") for one in told.published] == [None, None, 1, 2]


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        ([update("public.boxes", id=1, note="x")], []),
        ([update("public.boxes", id=1)], []),
        ([update("public.boxes", id=1, state="packed"), update("public.boxes", id=1, state="open")], []),
        ([item(2), delete("public.items", box_id=1, no=2)], []),
        ([delete("public.items", box_id=1, no=1), item(1)], []),
        ([delete("public.items", box_id=1, no=1), item(1, weight="2")], []),
        ([delete("public.items", box_id=1, no=1)], []),
        ([item(2), item(3)], ["ItemAddedV1", "ItemAddedV1"]),
        ([delete("public.items", box_id=1, no=1), delete("public.boxes", id=1)], ["BoxGoneV1"]),
        ([delete("public.boxes", id=1), delete("public.items", box_id=1, no=1)], ["BoxGoneV1"]),
        ([delete("public.boxes", id=1), box()], []),
        ([delete("public.boxes", id=1), box(state="packed")], ["BoxPackedV2"]),
    ],
)
def test_only_the_difference_of_the_whole_transaction_counts(
    boxes: Rehearsal, transaction: list[Statement], expected: list[str]
) -> None:
    boxes.when(box(), item(1))
    assert names(boxes.when(*transaction)) == expected


def test_a_replayed_change_set_is_ignored(boxes: Rehearsal) -> None:
    first, second = (
        boxes.change_sets(box(), item(1)),
        boxes.change_sets(update("public.boxes", id=1, state="packed")),
    )
    evaluator, state = boxes.evaluator, None
    seen = []
    for change_set in [*first, *second, *first, *second]:
        found = evaluator.apply(state, change_set)
        state = found.new_state
        seen.append((found.ignored, len(found.events)))
    assert seen == [(False, 1), (False, 2), (True, 0), (True, 0)]


def test_a_replay_after_the_deletion_does_not_bring_it_back(boxes: Rehearsal) -> None:
    created = boxes.change_sets(box())
    for change_set in created:
        boxes.apply(change_set)
    assert names(boxes.when(delete("public.boxes", id=1))) == ["BoxGoneV1"]
    assert boxes.evaluator.apply(boxes.states["Box", "1"], created[0]).ignored


def test_the_same_rows_at_a_later_position_are_no_news_and_leave_the_state_alone(boxes: Rehearsal) -> None:
    (change_set,) = boxes.change_sets(box(state="packed"), item(1))
    state = boxes.evaluator.apply(None, change_set).new_state
    again = boxes.evaluator.apply(state, msgspec.structs.replace(change_set, commit_lsn=10**9))
    assert (again.events, again.failures, again.ignored) == ([], [], False)
    assert again.new_state is state


def test_a_snapshot_builds_state_silently_and_row_by_row(boxes: Rehearsal) -> None:
    position: dict[str, Any] = {"commit_lsn": 500, "txid": None, "ts_us": 1, "snapshot": True}
    rows = [
        RowChange("public.items", "r", None, {"box_id": 1, "no": 1, "weight": "1", "label": None}),
        RowChange("public.boxes", "r", None, {"id": 1, "state": "open", "note": None, "owner_id": None}),
        RowChange("public.items", "r", None, {"box_id": 1, "no": 2, "weight": "2", "label": None}),
    ]
    for row in rows:
        told = boxes.apply(ChangeSet("Box", "1", rows=(row,), **position))
        assert (told.events, told.failures) == ([], [])
    boxes.lsn = 500
    told = boxes.when(
        Statement("c", "public.boxes", {"id": 1, "state": "packed", "note": None, "owner_id": None}),
    )
    assert [str(event.weight) for event in told.events if hasattr(event, "weight")] == ["3"]


def test_an_older_snapshot_does_not_undo_what_the_stream_said(boxes: Rehearsal) -> None:
    boxes.when(box(state="packed"))
    old = RowChange("public.boxes", "r", None, {"id": 1, "state": "open", "note": None, "owner_id": None})
    told = boxes.evaluator.apply(
        boxes.states["Box", "1"], ChangeSet("Box", "1", boxes.lsn - 1, None, 1, snapshot=True, rows=(old,))
    )
    assert told.ignored


def test_a_rule_may_ask_for_snapshots(box_domain: Load, box_files: dict[str, str]) -> None:
    rules = box_files["rules.py"].replace("emits=BoxPacked)", "emits=BoxPacked, snapshot=True)")
    boxes = Rehearsal(box_domain({"rules.py": rules}))
    told = [boxes.apply(one) for one in boxes._change_sets((box(state="packed"), item(1)), snapshot=True)]
    assert [type(event).__name__ for one in told for event in one.events] == ["BoxPackedV2"]


def test_ids_are_uuid5_of_what_the_event_is_about(boxes: Rehearsal) -> None:
    told = boxes.when(box(state="packed"), item(1), item(2))
    lsn = boxes.lsn
    assert [one.event_id for one in told.published] == [
        str(uuid5(NAMESPACE, f"depot.box-packed.v2/{lsn:X}/packed/0/1")),
        str(uuid5(NAMESPACE, f"depot.box-packed.v1/{lsn:X}/packed/0/1")),
        str(uuid5(NAMESPACE, f"depot.item-added.v1/{lsn:X}/item_added/0/1")),
        str(uuid5(NAMESPACE, f"depot.item-added.v1/{lsn:X}/item_added/1/1")),
    ]


def test_ids_do_not_depend_on_other_rules_nor_on_their_order(
    box_domain: Load, box_files: dict[str, str]
) -> None:
    rules = box_files["rules.py"]
    rules = rules.replace("\n@rule(Box, emits=BoxPacked)", "\n@rule(Box, emits=(ItemAdded, BoxGone))\ndef broken(change):\n"
                          "    yield ItemAdded(box_id=1, item_no=1)\n    raise OSError\n\n\n@rule(Box, emits=BoxPacked)")  # fmt: skip
    same = rules.replace("    raise OSError\n", "")
    ids = []
    for text in (rules, same, box_files["rules.py"]):
        told = Rehearsal(box_domain({"rules.py": text})).when(box(), item(1))
        assert len({one.event_id for one in told.published}) == len(told.published)
        ids.append([one.event_id for one in told.published if one.rule == "item_added"])
    assert ids[0] == ids[1] == ids[2]
    assert len(ids[0]) == 1


SNAPSHOT_RULE = """
@rule(Box, emits=ItemAdded, snapshot=True)
def read(change):
    for item in change.added(Box.items):
        yield ItemAdded(box_id=change.after.id, item_no=item.no)
    if change.changed(Box.owner) and change.after.owner is not None:
        yield ItemAdded(box_id=change.after.id, item_no=99)
"""


def test_rows_of_a_snapshot_have_one_position_and_their_events_ids_of_their_own(
    box_domain: Load, box_files: dict[str, str]
) -> None:
    """Also when a row is told again, because one that it refers to was read after it; and the same at every replay."""
    domain = box_domain({"rules.py": box_files["rules.py"] + SNAPSHOT_RULE})
    rows = (box(owner_id=7), item(1), item(2), insert("public.owners", id=7, name="Ann"), item(3))

    def told(boxes: Rehearsal) -> list[tuple[int, str]]:
        published = [one for one in _snapshot(boxes, *rows) if one.rule == "read"]
        return [(one.payload["item_no"], one.event_id) for one in published]

    boxes = Rehearsal(domain)
    first = told(boxes)
    assert [number for number, _ in first] == [1, 2, 99, 3]
    assert len({id_ for _, id_ in first}) == 4
    assert told(Rehearsal(domain)) == first
    assert told(boxes) == [], "a second snapshot finds no difference"
    boxes.states.clear()
    again = told(boxes)
    assert [number for number, _ in again] == [99, 1, 2, 3]
    assert not {id_ for _, id_ in again} & {id_ for _, id_ in first}, (
        "where it has to speak, it is another fact"
    )


def _snapshot(boxes: Rehearsal, *rows: Statement) -> list[PublishedEvent]:
    told = [boxes.apply(one) for one in boxes._change_sets(rows, snapshot=True)]
    assert not any(one.failures for one in told)
    return [event for one in told for event in one.published]


def test_a_rule_that_raises_is_told_and_the_others_run(box_domain: Load, box_files: dict[str, str]) -> None:
    rules = box_files["rules.py"].replace(
        "        yield ItemAdded(",
        "        if item.no == 2:\n            raise ValueError(item.label)\n        yield ItemAdded(",
    )
    boxes = Rehearsal(box_domain({"rules.py": rules}))
    told = boxes.when(box(state="packed"), item(1), item(2, label="secret"))
    assert [type(event).__name__ for event in told.events] == ["BoxPackedV2"]
    (failure,) = told.failures
    assert (failure.rule, failure.aggregate, failure.id, failure.commit_lsn, failure.txid) == (
        "item_added", "Box", "1", boxes.lsn, boxes.txid
    )  # fmt: skip
    assert "raised ValueError at line 22" in failure.reason
    assert "rules.py:18" in failure.reason
    assert "secret" not in failure.reason
    assert names(boxes.when(item(3))) == ["ItemAddedV1"], "the state has moved on"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "box_id=change.after.id, item_no",
            "box_id='1', item_no",
            "ItemAddedV1.box_id must be an integer, not str",
        ),
        ("item_no=item.no", "item_no=2**31", "ItemAddedV1.item_no does not fit into an Avro int"),
        (
            "yield ItemAdded(box_id=change.after.id, item_no=item.no)",
            "yield 7",
            "it yielded a int, which is not in its",
        ),
        (
            "yield ItemAdded(box_id=change.after.id, item_no=item.no)",
            "other = BoxGone(box_id=1); yield other",
            "it yielded a BoxGoneV1, which is not in its `emits`",
        ),
        (
            "yield ItemAdded(box_id=change.after.id, item_no=item.no)",
            "yield ItemAdded(**{'box_id': 1})",
            "raised TypeError",
        ),
    ],
)
def test_an_event_that_does_not_fit_its_contract_is_the_rules_failure(
    box_domain: Load, box_files: dict[str, str], old: str, new: str, says: str
) -> None:
    boxes = Rehearsal(box_domain({"rules.py": box_files["rules.py"].replace(old, new)}))
    told = boxes.when(box(), item(1))
    assert told.events == []
    assert [failure.rule for failure in told.failures] == ["item_added"]
    assert says in told.failures[0].reason


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": 1, "note": None, "owner_id": None}, "missing required field `state`"),
        (
            {"id": "x", "state": "open", "note": None, "owner_id": None},
            "Expected `int`, got `str` - at `$.id`",
        ),
        ({"id": 1, "state": "shut", "note": None, "owner_id": None}, "Invalid enum value - at `$.state`"),
    ],
)
def test_rows_that_do_not_fit_leave_the_state_as_it_was(
    boxes: Rehearsal, row: dict[str, Any], says: str
) -> None:
    boxes.when(box())
    state = boxes.states["Box", "1"]
    change_set = ChangeSet(
        "Box", "1", 10**9, 7, 1, snapshot=False, rows=(RowChange("public.boxes", "u", None, row, 1),)
    )
    found = boxes.evaluator.apply(state, change_set)
    assert found.new_state is state
    assert [failure.rule for failure in found.failures] == [None]
    assert says in found.failures[0].reason
    assert "shut" not in found.failures[0].reason
    assert "compare the table's columns with Box at " in found.failures[0].reason


def test_references_are_as_of_the_commit(boxes: Rehearsal) -> None:
    boxes.when(insert("public.owners", id=5, name="Ann"), insert("public.owners", id=6, name="Bo"))
    boxes.when(box(owner_id=5))
    boxes.when(update("public.owners", id=5, name="Anna"))
    told = boxes.when(update("public.boxes", id=1, state="packed"))
    assert told.published[0].payload["owner"] == "Anna"
    boxes.when(update("public.boxes", id=1, state="open", owner_id=6))
    assert boxes.when(update("public.boxes", id=1, state="packed")).published[0].payload["owner"] == "Bo"
    boxes.when(update("public.boxes", id=1, state="open", owner_id=None))
    assert boxes.when(update("public.boxes", id=1, state="packed")).published[0].payload["owner"] is None


def test_a_reference_that_did_not_come_along_is_the_last_known_one(boxes: Rehearsal) -> None:
    boxes.when(insert("public.owners", id=5, name="Ann"))
    boxes.when(box(owner_id=5))
    (change_set,) = boxes.change_sets(update("public.boxes", id=1, state="packed"))
    told = boxes.apply(msgspec.structs.replace(change_set, references={}))
    assert told.published[0].payload["owner"] == "Ann"


def test_a_reference_that_came_along_with_a_child_is_newer(boxes: Rehearsal) -> None:
    boxes.when(insert("public.owners", id=5, name="Ann"))
    boxes.when(box(owner_id=5))
    (change_set,) = boxes.change_sets(item(1))
    boxes.apply(
        msgspec.structs.replace(change_set, references={"public.owners": {"5": {"id": 5, "name": "Anna"}}})
    )
    (packing,) = boxes.change_sets(update("public.boxes", id=1, state="packed"))
    told = boxes.apply(msgspec.structs.replace(packing, references={}))
    assert told.published[0].payload["owner"] == "Anna"


def test_a_box_that_is_deleted_and_made_again_is_empty(boxes: Rehearsal) -> None:
    boxes.when(box(), item(1))
    told = boxes.when(delete("public.boxes", id=1), box(state="packed"))
    assert told.published[0].payload["weight"] == 0


def test_a_child_that_moves_leaves_one_box_and_enters_the_other(boxes: Rehearsal) -> None:
    boxes.when(box(), box(id=2), insert("public.seals", id=9, box_id=1))
    assert names(boxes.when(update("public.seals", id=9, box_id=2))) == []
    weights = [
        boxes.when(update("public.boxes", id=number, state="packed")).published[0].payload["weight"]
        for number in (1, 2)
    ]
    assert weights == [0, 1]


def test_an_unchanged_toast_value_comes_from_the_state(boxes: Rehearsal) -> None:
    boxes.when(box(note="long text"))
    boxes.when(update("public.boxes", id=1, note="__debezium_unavailable_value", state="packed"))
    state = boxes.evaluator._aggregates["Box"].decode(boxes.states["Box", "1"] or b"")
    assert state.aggregate.note == "long text"


def test_an_unchanged_toast_value_of_an_unknown_row_is_a_failure(boxes: Rehearsal) -> None:
    told = boxes.when(box(note="__debezium_unavailable_value"))
    assert "public.boxes.note is unchanged TOAST" in told.failures[0].reason


def test_a_once_rule_says_it_once(box_domain: Load, box_files: dict[str, str]) -> None:
    rules = box_files["rules.py"].replace("emits=BoxPacked)", "emits=BoxPacked, once=True)")
    boxes = Rehearsal(box_domain({"rules.py": rules}))
    boxes.when(box())
    told = [
        names(boxes.when(update("public.boxes", id=1, state=state))) for state in ("packed", "open", "packed")
    ]
    assert told == [["BoxPackedV2"], [], []]


def test_three_live_versions_come_from_one_evaluation(
    box_domain: Load,
    box_files: dict[str, str],
    box_contracts: dict[str, str],
    make_contract: Callable[..., tuple[str, str]],
) -> None:
    path, text = make_contract("box-packed", 3, {"name": "box", "type": "long"})
    files = {
        "rules.py": box_files["rules.py"].replace(
            "BoxPacked(box_id=change.after.id, weight=weight, owner=owner.name if owner else None)",
            "BoxPacked(box=change.after.id)",
        ),
        "versions.py": box_files["versions.py"].replace(
            "import BoxPackedV1,", "import BoxPackedV3, BoxPackedV1,"
        )
        + "\n\n@down_conversion(BoxPackedV3, to=BoxPackedV2)\ndef box_packed_v2(event):\n"
        "    from decimal import Decimal\n\n    return BoxPackedV2(box_id=event.box, weight=Decimal(0))\n",
    }
    told = Rehearsal(box_domain(files, box_contracts | {path: text})).when(box(state="packed"))
    assert [(one.topic, msgspec.structs.astuple(one.event)) for one in told.published] == [
        ("depot.box-packed.v3", (1,)),
        ("depot.box-packed.v2", (1, 0, None)),
        ("depot.box-packed.v1", (1,)),
    ]
    assert len(told.events) == 1


def test_a_change_set_of_another_domain_is_refused(boxes: Rehearsal) -> None:
    with pytest.raises(TranslatorError, match=r"aggregate 'Crate', which boxes_\d+ does not define"):
        boxes.evaluator.apply(None, ChangeSet("Crate", "1", 1, 1, 1, snapshot=False, rows=()))


@pytest.mark.parametrize(
    "state", [b"", b"\xc0", b"\x95\x02\x01\xc0\xc0\x90", b"\x95\x01\x01\x81\xa1a\x01\xc0\x90"]
)
def test_a_foreign_state_is_refused(boxes: Rehearsal, state: bytes) -> None:
    (change_set,) = boxes.change_sets(box())
    with pytest.raises(StateError, match="the stored state of Box"):
        boxes.evaluator.apply(state, change_set)


def test_a_new_field_with_a_default_reads_an_older_state(box_domain: Load, box_files: dict[str, str]) -> None:
    old = Rehearsal(box_domain())
    old.when(box(), item(1))
    wider = box_files["aggregates.py"].replace(
        "    note: str | None\n", "    note: str | None\n    size: int | None = None\n"
    )
    evaluator = Evaluator(box_domain({"aggregates.py": wider}))
    (change_set,) = old.change_sets(update("public.boxes", id=1, state="packed"))
    assert len(evaluator.apply(old.states["Box", "1"], change_set).events) == 2
