"""References: what a type checker knows of them, and what happens when the row of a required one is not known."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from holding import Run, box, item, pack

from tidings_domain import Domain
from tidings_domain.changes import encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.testing import Rehearsal, Statement, delete, insert, update
from tidings_translator.translation.policies import Policies

Load = Callable[..., Domain]
OWNER = 'owner = reference(Owner, by="owner_id")'
REQUIRED = 'owner = reference(Owner, by="owner_id", required=True)'
LINES = """
from tidings_domain import Aggregate, Row, reference

class Owner(Row, table="public.owners", key="id"):
    id: int
    name: str

class Box(Aggregate, root="public.boxes", key="id"):
    id: int
    owner_id: int
    maybe = reference(Owner, by="owner_id")
    owner = reference(Owner, by="owner_id", required=True)

def known(box: Box) -> str:
    return box.owner.name

def perhaps(box: Box) -> str:
    return box.maybe.name if box.maybe else ""

def wrong(box: Box) -> str:
    return box.maybe.name
"""


def test_a_type_checker_knows_that_a_reference_may_be_none(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(LINES, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "lines.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    last = len(LINES.splitlines())
    assert errors == [
        f'lines.py:{last}: error: Item "None" of "Owner | None" has no attribute "name"  [union-attr]'
    ], done.stdout + done.stderr


@pytest.fixture
def domain(box_domain: Load, box_files: dict[str, str]) -> Domain:
    return box_domain({"aggregates.py": box_files["aggregates.py"].replace(OWNER, REQUIRED)})


@pytest.fixture
def run(domain: Domain) -> Run:
    return Run(domain)


def owner(name: str = "Ann") -> Statement:
    return insert("public.owners", id=5, name=name)


def told(run: Run) -> list[tuple[str, str]]:
    return [(topic.removeprefix("depot."), key) for topic, key in run.events]


def test_a_required_row_that_is_not_known_holds_the_aggregate_until_a_later_change_brings_it(
    run: Run,
) -> None:
    run.commit(box(1, state="packed", owner_id=5), item(1, 1))
    [letter] = run.open()
    assert (letter.headers["stage"], letter.headers["policy"]) == ("rows", "hold")
    assert letter.headers["reason"].startswith(
        "Box.owner is required, but the row of public.owners that public.boxes.owner_id names is not known"
    )
    run.commit(item(1, 2))
    run.commit(owner())
    run.restart()
    run.commit(item(1, 3))
    assert (told(run), len(run.shard.held[b"Box/1"].waiting)) == ([], 3)
    run.commit(update("public.boxes", id=1, note="touched"))
    packed = [("box-packed.v2", "1"), ("box-packed.v1", "1")]
    assert told(run) == [*packed, *[("item-added.v1", "1")] * 3]
    assert (run.shard.held, run.open()) == ({}, [])
    assert b"Ann" in (run.ids[0][1] or b"")
    run.restart()
    assert run.shard.held == {}


def test_the_same_events_come_as_if_the_row_had_been_known(domain: Domain) -> None:
    held, other = Run(domain), Run(domain)
    other.tables.change_sets(owner())
    held.tables.change_sets()
    other.commit(box(1, state="packed", owner_id=5), item(1, 1))
    held.commit(box(1, state="packed", owner_id=5), item(1, 1))
    held.tables.change_sets(owner())
    held.commit(update("public.boxes", id=1, note="touched"))
    assert held.ids == other.ids != []


def test_another_aggregate_goes_on(run: Run) -> None:
    run.commit(box(1, state="packed", owner_id=5))
    run.commit(insert("public.owners", id=6, name="Bo"))
    run.commit(box(2, state="packed", owner_id=6))
    assert told(run) == [("box-packed.v2", "2"), ("box-packed.v1", "2")]


def test_a_null_in_a_required_reference_holds_too(run: Run) -> None:
    run.commit(box(1, state="packed"))
    assert list(run.shard.held) == [b"Box/1"]


def test_a_person_may_go_on_without_the_change(run: Run) -> None:
    run.commit(box(1, state="packed", owner_id=5))
    [letter] = run.open()
    run.deal("replay", letter)
    [letter] = run.open()
    assert list(run.shard.held) == [b"Box/1"]
    run.deal("discard", letter)
    assert (run.shard.held, run.open(), run.events) == ({}, [], [])


def test_who_operates_can_have_it_skipped(domain: Domain) -> None:
    run = Run(domain)
    run.context = run.context._replace(policies=Policies(domain, on_missing_references="skip"))
    run.restart()
    run.commit(box(1, state="packed", owner_id=5))
    [letter] = run.open()
    assert (run.shard.held, letter.headers["stage"], letter.headers["policy"]) == ({}, "rows", "skip")
    run.deal("replay", letter)
    assert [one.headers["policy"] for one in run.open()] == ["skip"]


def test_a_rule_that_holds_after_the_row_has_come_has_a_letter_of_its_own(
    box_domain: Load, box_files: dict[str, str]
) -> None:
    rules = box_files["rules.py"].replace("emits=BoxPacked)", 'emits=BoxPacked, on_failure="hold")', 1)
    rules = rules.replace("def packed(change):", "def packed(change):\n    raise ValueError", 1)
    files = {"aggregates.py": box_files["aggregates.py"].replace(OWNER, REQUIRED), "rules.py": rules}
    run = Run(box_domain(files))
    run.commit(box(1, owner_id=5))
    run.commit(owner())
    run.commit(update("public.boxes", id=1, note="touched"))
    assert [(one.origin.rule, one.headers["policy"]) for one in run.open()] == [("packed", "hold")]
    run.deal("discard", run.open()[0])
    run.deal("discard", run.open()[0])
    assert (run.open(), run.shard.held) == ([], {})


def test_a_snapshot_brings_the_row_too(run: Run) -> None:
    run.commit(box(1, state="packed", owner_id=5))
    run.tables._change_sets((owner(),), snapshot=True)
    [read] = run.tables._change_sets((box(1, state="packed", owner_id=5),), snapshot=True)
    run.put(b"Box/1", encode_change_set(read))
    assert (run.shard.held, run.open()) == ({}, [])
    assert told(run) == [("box-packed.v2", "1"), ("box-packed.v1", "1")]


def test_rows_of_a_snapshot_do_not_hold_and_build_state(domain: Domain) -> None:
    run = Run(domain)
    [read] = run.tables._change_sets((box(1, owner_id=5),), snapshot=True)
    run.put(b"Box/1", encode_change_set(read))
    assert (run.shard.held, run.open(), list(run.shard.states)) == ({}, [], [b"Box/1"])
    # Its row has not come since, so nobody can bring what it refers to: the state goes on, the rules say what they lack.
    run.commit(item(1, 1))
    assert run.shard.held == {}
    assert {one.origin.rule for one in run.open()} == {"packed", "item_added", "gone"}
    assert all("Box.owner is required" in one.headers["reason"] for one in run.open())
    run.commit(owner())
    run.commit(pack(1))
    assert told(run) == [("box-packed.v2", "1"), ("box-packed.v1", "1")]


def test_a_deleted_aggregate_needs_nothing(domain: Domain) -> None:
    boxes = Rehearsal(domain).given(owner(), box(1, owner_id=5))
    assert [type(event).__name__ for event in boxes.when(delete("public.boxes", id=1)).events] == [
        "BoxGoneV1"
    ]


CHILD = """    label: str | None = None
    maker = reference(Owner, by="maker_id", required=True)
"""


def test_a_child_s_required_row_holds_as_well(box_domain: Load, box_files: dict[str, str]) -> None:
    text = box_files["aggregates.py"].replace("    label: str | None = None\n", CHILD)
    run = Run(box_domain({"aggregates.py": text}))
    run.commit(box(1))
    made: Any = item(1, 1)
    run.commit(msgspec.structs.replace(made, values=made.values | {"maker_id": 5}))
    assert "Item.maker is required" in run.open()[0].headers["reason"]
    run.commit(owner())
    run.commit(update("public.items", box_id=1, no=1, weight="2"))
    assert (told(run), run.shard.held) == ([("item-added.v1", "1")], {})


def test_a_domain_without_required_references_looks_at_none(box_domain: Load) -> None:
    evaluator = Evaluator(box_domain())
    [plan] = evaluator._aggregates.values()
    assert plan.required.lacking(object()) == []  # type: ignore[arg-type]
