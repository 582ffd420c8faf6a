"""Who runs what: the leader's decisions over random lives of a group, and the records they are kept in."""

import json
from collections.abc import Collection
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_connect.group.assignment import (
    Assignment,
    decode_applied,
    decode_assignment,
    encode_applied,
    encode_assignment,
    plan,
)
from tidings_connect.task_id import TaskId

WORKERS = st.sets(st.sampled_from(["a:1", "b:1", "c:1", "d:1"]))
CONNECTORS = st.sets(st.sampled_from([f"c{i}" for i in range(9)]))


def loads(assignment: Any, workers: Collection[str]) -> list[Any]:
    counts = {worker: len(assignment.owned_by(worker)) for worker in workers}
    return sorted(counts.values())


class World:
    """Workers that do what the assignments say: stop what is not theirs, then say so, then start what is."""

    def __init__(self) -> None:
        self.assignment = Assignment()
        self.applied = {}
        self.running = {}

    def decide(self, connectors: Any, workers: Collection[str], leader: str = "a:1") -> None:
        before = self.assignment
        self.assignment = plan(before, connectors, workers, self.applied, leader)
        if self.assignment is not before:
            assert self.assignment.epoch > max([before.epoch, *self.applied.values()])
        for name, owner in before.owners.items():
            now = self.assignment.owners.get(name)
            assert owner not in workers or now in {owner, None}, (
                "from one living worker to another in one step"
            )
        for name in [name for name, worker in self.running.items() if worker not in workers]:
            del self.running[name]  # it is dead, and so is what it ran

    def apply(self, worker: str) -> None:
        mine = self.assignment.owned_by(worker)
        for name in [n for n, w in self.running.items() if w == worker and n not in mine]:
            del self.running[name]
        self.applied[worker] = self.assignment.epoch
        for name in mine:
            assert self.running.get(name, worker) == worker, f"{name} runs twice"
            self.running[name] = worker


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CONNECTORS, WORKERS, WORKERS), max_size=8))
def test_never_twice_and_in_the_end_everything_runs_in_balance(steps: Any) -> None:
    world, connectors, workers = World(), set(), set()
    for connectors, workers, who_applies in steps:
        world.decide(connectors, workers)
        for worker in sorted(workers & who_applies):
            world.apply(worker)
    for _ in range(6):
        world.decide(connectors, workers)
        for worker in sorted(workers):
            world.apply(worker)
    rest = world.assignment
    world.decide(connectors, workers)
    assert world.assignment is rest, "it never comes to rest"
    if workers:
        assert set(world.assignment.owners) == set(world.running) == connectors
        counts = loads(world.assignment, workers)
        assert counts[-1] - counts[0] <= 1
    assert not world.assignment.leaving


def test_a_worker_that_comes_takes_only_its_share_and_one_that_goes_moves_only_its_own() -> None:
    names = [f"c{i}" for i in range(6)]
    world = World()
    for workers in (["a:1"], ["a:1", "b:1"], ["a:1", "b:1", "c:1"]):
        before = dict(world.assignment.owners)
        for _ in range(3):
            world.decide(names, workers)
            for worker in workers:
                world.apply(worker)
        moved = [n for n in before if before[n] != world.assignment.owners[n]]
        assert len(moved) == (0 if not before else 6 // len(workers))
    before = dict(world.assignment.owners)
    world.decide(names, ["a:1", "b:1"])
    assert all(world.assignment.owners[n] == w for n, w in before.items() if w != "c:1")
    assert loads(world.assignment, ["a:1", "b:1"]) == [3, 3]


def test_a_worker_that_left_is_awaited() -> None:
    names = ["c0", "c1"]
    first = plan(Assignment(), names, ["a:1", "b:1"], {}, "a:1")
    assert plan(first, names, ["a:1"], {}, "a:1", awaited=["b:1"]) is first
    assert set(plan(first, names, ["a:1"], {}, "a:1").owners.values()) == {"a:1"}


def test_what_a_dead_worker_once_said_does_not_count_for_a_later_epoch() -> None:
    """Epochs go on above every acknowledgement, also when the assignment itself was forgotten."""
    assert plan(Assignment(), ["c"], ["a:1"], {"a:1": 50}, "a:1").epoch == 51


def test_records() -> None:
    assignment = Assignment(
        3,
        "a:1",
        {TaskId("c"): "a:1", TaskId("c", 2): "b:1"},
        {TaskId("d"): ("b:1", 3), TaskId("c", 1): ("b:1", 2)},
    )
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_connectors_with_one_task_are_recorded_as_they_were_before_there_could_be_several() -> None:
    """A worker of the former release, in the same group, reads them."""
    record = json.loads(
        encode_assignment(Assignment(3, "a:1", {TaskId("c"): "a:1"}, {TaskId("d"): ("b:1", 3)}))
    )
    assert record == {"epoch": 3, "leader": "a:1", "owners": {"c": "a:1"}, "leaving": {"d": ["b:1", 3]}}


def test_the_tasks_of_a_connector_are_spread_over_the_workers() -> None:
    tasks = [TaskId("c", number) for number in range(4)]
    spread = plan(Assignment(), tasks, ["a:1", "b:1"], {}, "a:1")
    assert loads(spread, ["a:1", "b:1"]) == [2, 2]


def test_damaged_records() -> None:
    assert decode_applied(encode_applied(7)) == 7
    for damaged in (None, b"", b"[]", b'{"epoch":"x"}', b"\xff"):
        assert decode_assignment(damaged) == Assignment()
        assert decode_applied(damaged) == 0
