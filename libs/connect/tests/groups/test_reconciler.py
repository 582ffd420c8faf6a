"""What the reconciler does when the stored connectors, the assignment or a task's needs change: no server, no process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.connector import Connector
from tidings_connect.errors import BrokerError, FencingError, OptionError
from tidings_connect.group.worker_group import AloneGroup
from tidings_connect.herder.fencing import Fencing
from tidings_connect.herder.leadership import Leadership
from tidings_connect.herder.local_task import FAILED, UNASSIGNED, LocalTask
from tidings_connect.herder.reconciler import Reconciler
from tidings_connect.storage.memory import MemoryStorage
from tidings_connect.storage.records import PAUSED, STARTED, STOPPED, FencingState
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.forks import TaskForks
from tidings_connect.task.transport import TaskContext
from tidings_connect.task_id import TaskId
from tidings_service import Health, Retry, TidingsError

ME = "worker:1"
CONFIG = {"connector.class": "counting.CounterConnector", "counter.file": "f", "counter.topic": "t"}


class MovableGroup(AloneGroup):
    """Gives connectors to whom a test says."""

    def __init__(self) -> None:
        super().__init__(ME)
        self.owners: dict[TaskId, str] = {}
        self.further: list[TaskId] = []

    def further_tasks(self, connector: str) -> list[TaskId]:
        return self.further

    def owner(self, task: TaskId) -> str | None:
        return self.owners.get(task, ME)


class Bench:
    """A reconciler whose tasks fail at once, for good: their jobs cannot be made. `exactly_once`: with fencing."""

    def __init__(self, tmp_path: Path, *, exactly_once: bool = False) -> None:
        self.wake = asyncio.Event()
        self.tasks: dict[TaskId, LocalTask] = {}
        self.jobs: list[str] = []
        self.given: list[tuple[TaskId, dict[str, str]]] = []
        self.ended: list[TidingsError] = []
        worker = read_worker_config(
            {
                "bootstrap.servers": "nowhere:1",
                "offset.storage.file.filename": str(tmp_path / "offsets"),
                "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            }
        )
        if exactly_once:
            worker = replace(worker, exactly_once="enabled")
        self.storage = MemoryStorage(worker, ME, self.wake.set)
        self.group = MovableGroup()
        self.fenced: list[int] = []
        self.refusal: BrokerError | None = None
        self.leadership = Leadership()
        self.leadership.of(self.storage, self.group)
        self.fencing = Fencing(
            worker, self.storage, self.group, self.leadership, lambda *_: cast("TaskJob", None),
            self._take_over,
        )  # fmt: skip
        self.reconciler = Reconciler(
            worker, ME, self.storage, self.group, self.tasks, Health(), self.wake, self._job, TaskForks(),
            self.ended.append, self.fencing,
        )  # fmt: skip

    @property
    def runs(self) -> dict[str, LocalTask]:
        return {task_id.connector: run for task_id, run in self.tasks.items() if not task_id.task}

    def _job(self, task_id: TaskId, config: dict[str, str]) -> TaskJob:
        self.jobs.append(task_id.connector)
        self.given.append((task_id, config))
        raise OptionError("there is no such task here")

    def _take_over(self, _job: TaskJob, task: int, given_up: Callable[[], bool]) -> None:
        if given_up():
            raise FencingError("another worker leads the group now")
        if self.refusal is not None:
            raise self.refusal
        self.fenced.append(task)

    def told(self, name: str, task: int = 0) -> str | None:
        """The state that the status topic says."""
        status = self.storage.statuses.task(name, task)
        return None if status is None else status.state

    def fencing_of(self, name: str) -> FencingState:
        """What the config topic says."""
        return self.storage.configs.connectors[name].fencing

    def put(self, name: str, config: dict[str, str], state: str | None = None) -> None:
        self.storage.configs.put_connector(name, config, state)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - of several objects, which tell nobody
                await asyncio.sleep(0.01)


@pytest.fixture
async def bench(tmp_path: Path, counting: None) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    made.reconciler.start()
    yield made
    await made.reconciler.stop()
    for run in made.runs.values():
        await run.stop()
    assert made.ended == []


@pytest.fixture
async def exact(tmp_path: Path, pair: None) -> AsyncIterator[Bench]:
    """With exactly once."""
    made = Bench(tmp_path, exactly_once=True)
    made.reconciler.start()
    yield made
    await made.reconciler.stop()
    for run in made.tasks.values():
        await run.stop()
    assert made.ended == []


async def test_a_stored_connector_is_started_and_a_deleted_one_let_go(bench: Bench) -> None:
    bench.put("a", CONFIG)
    await bench.until(lambda: bench.told("a") == FAILED)
    told = bench.storage.statuses.task("a", 0)
    assert told is not None
    assert told.worker_id == ME
    assert "there is no such task here" in (told.trace or "")
    bench.storage.configs.delete_connector("a")
    await bench.until(lambda: not bench.runs)
    assert bench.storage.statuses.task("a", 0) is None


async def test_a_connector_that_another_worker_is_given_is_let_go_and_said_to_be_unassigned(
    bench: Bench,
) -> None:
    bench.put("a", CONFIG)
    bench.put("b", CONFIG)
    await bench.until(lambda: {"a", "b"} <= bench.runs.keys())
    bench.group.owners[TaskId("a")] = "other:1"
    bench.wake.set()
    await bench.until(lambda: bench.runs.keys() == {"b"})
    told = bench.storage.statuses.connector("a")
    assert told is not None
    assert told.state == UNASSIGNED
    bench.group.owners.clear()
    bench.wake.set()
    await bench.until(lambda: "a" in bench.runs)


async def test_a_changed_configuration_starts_a_new_run_that_keeps_the_counters(bench: Bench) -> None:
    bench.put("a", CONFIG)
    await bench.until(lambda: "a" in bench.runs and bench.runs["a"].errors)
    first = bench.runs["a"]
    bench.put("a", {**CONFIG, "counter.topic": "other"})
    await bench.until(lambda: bench.runs["a"] is not first and bench.runs["a"].errors.get("option") == 2)
    assert bench.runs["a"].config["counter.topic"] == "other"
    assert bench.runs["a"].generation > first.generation


async def test_a_paused_connector_has_no_task_and_one_of_an_unknown_class_no_run(bench: Bench) -> None:
    bench.put("paused", CONFIG, PAUSED)
    bench.put("foreign", {"connector.class": "org.example.Other"})
    bench.put("a", CONFIG)
    await bench.until(lambda: {"a", "paused"} <= bench.runs.keys() and bench.jobs)
    assert bench.runs.keys() == {"a", "paused"}
    assert set(bench.jobs) == {"a"}


async def test_an_interrupted_task_starts_again_whatever_came_of_it(bench: Bench) -> None:
    bench.put("a", CONFIG)
    await bench.until(lambda: "a" in bench.runs and bench.runs["a"].task_state == FAILED)
    first = bench.runs["a"]

    async def action() -> None:
        assert bench.runs["a"] is first
        raise OptionError("it could not be done")

    with pytest.raises(OptionError, match="could not be done"):
        await bench.reconciler.interrupt("a", action)
    assert bench.runs["a"] is not first
    await bench.reconciler.interrupt("nobody", action)


PAIR = {"connector.class": "dividing.PairConnector", "tasks.max": "3"}


@pytest.fixture
def pair(counting: None, register: Callable[[type[Connector]], None]) -> None:
    """A connector that has as many tasks as it may."""

    class Pair(Connector):
        class_name = "dividing.PairConnector"
        version = "1"
        kind = "source"

        def task_configs(self, config: dict[str, str], most: int) -> list[dict[str, str]]:
            return [{**config, "share": str(number)} for number in range(most)]

        def run_task(self, context: TaskContext) -> None:
            raise NotImplementedError

    register(Pair)


@pytest.mark.usefixtures("pair")
async def test_each_task_has_its_share_its_state_and_its_worker(bench: Bench) -> None:
    bench.group.owners[TaskId("a", 1)] = "other:1"
    bench.put("a", PAIR)
    await bench.until(lambda: (bench.told("a"), bench.told("a", 2)) == (FAILED, FAILED))
    assert [(task.task, config["share"]) for task, config in bench.given] == [(0, "0"), (2, "2")]
    assert bench.told("a", 1) is None, "another worker's"
    view = bench.reconciler.view("a", bench.storage.configs.connectors["a"])
    assert [(task.task, task.task_state, task.worker_id) for task in view.tasks] == [
        (0, FAILED, ME),
        (1, UNASSIGNED, "other:1"),
        (2, FAILED, ME),
    ]
    assert view.config == PAIR, "the connector's own"

    bench.put("a", {**PAIR, "tasks.max": "2"})
    await bench.until(lambda: set(bench.tasks) == {TaskId("a")} and bench.told("a", 2) is None)
    bench.group.owners[TaskId("a")] = "other:1"
    del bench.group.owners[TaskId("a", 1)]
    bench.wake.set()
    await bench.until(lambda: set(bench.tasks) == {TaskId("a", 1)} and bench.told("a", 1) == FAILED)


@pytest.mark.usefixtures("pair")
async def test_only_the_tasks_that_are_asked_for_start_again_and_a_stop_ends_all(bench: Bench) -> None:
    bench.put("a", PAIR)
    await bench.until(lambda: len(bench.tasks) == 3 and bench.told("a", 2) == FAILED)
    first = dict(bench.tasks)
    await bench.reconciler.conform("a", anew=lambda task_id: task_id.task == 1)
    assert [bench.tasks[task_id] is run for task_id, run in first.items()] == [True, False, True]
    bench.storage.configs.put_target_state("a", STOPPED)
    await bench.until(lambda: set(bench.tasks) == {TaskId("a")} and bench.reconciler.is_stopped("a"))
    bench.group.further = [TaskId("a", 1)]
    assert not bench.reconciler.is_stopped("a"), "another worker has yet to let go"
    assert bench.reconciler.view("a", bench.storage.configs.connectors["a"]).tasks == ()


async def test_tasks_of_a_new_configuration_wait_until_the_former_ones_are_fenced(exact: Bench) -> None:
    exact.put("a", PAIR)
    await exact.until(lambda: len(exact.given) == 3)
    assert exact.fenced == [], "there were none before"
    assert exact.fencing_of("a") == FencingState(3, done=True)
    exact.refusal = BrokerError("the coordinator is away", retry=Retry.TIMED)
    exact.put("a", {**PAIR, "tasks.max": "2"})
    reason = "fencing: tasks of the former configuration could not be fenced: the coordinator is away"
    await exact.until(lambda: all(reason in (task.trace or "") for task in exact.tasks.values()))
    await exact.until(lambda: exact.told("a") == exact.told("a", 1) == FAILED)
    assert len(exact.given) == 3, "no task has started"
    assert exact.fencing_of("a") == FencingState(3, done=False)
    exact.refusal = None
    await exact.until(lambda: len(exact.given) == 5)
    assert exact.fenced == [0, 1, 2]
    assert exact.fencing_of("a") == FencingState(2, done=True)


async def test_one_task_that_follows_one_needs_no_round(exact: Bench) -> None:
    one = {**PAIR, "tasks.max": "1"}
    exact.put("a", one)
    await exact.until(lambda: len(exact.given) == 1 and exact.fencing_of("a").done)
    exact.put("a", {**one, "share": "other"})
    await exact.until(lambda: len(exact.given) == 2 and exact.fencing_of("a").done)
    assert exact.fenced == []
    exact.put("a", PAIR)
    await exact.until(lambda: len(exact.given) == 5)
    assert exact.fenced == [0]
    exact.put("a", one)
    await exact.until(lambda: len(exact.given) == 6)
    assert exact.fenced == [0, 0, 1, 2]


async def test_only_the_leader_fences_and_others_wait_for_it(exact: Bench) -> None:
    exact.group.leads = False
    exact.put("a", PAIR)
    await exact.until(lambda: len(exact.tasks) == 3)
    assert (exact.given, exact.fencing_of("a").done) == ([], False)
    exact.storage.configs.put_fenced("a", 3)
    await exact.until(lambda: len(exact.given) == 3)


async def test_a_configuration_that_comes_during_a_round_gets_one_of_its_own(exact: Bench) -> None:
    exact.put("a", PAIR)
    await exact.until(lambda: len(exact.given) == 3)
    async with exact.leadership.writing():
        exact.put("a", {**PAIR, "tasks.max": "2"})
        await exact.until(lambda: len(exact.tasks) == 2)
        exact.put("a", PAIR)
        await exact.until(lambda: len(exact.tasks) == 3)
        assert len(exact.given) == 3
    await exact.until(lambda: len(exact.given) == 6)
    assert set(exact.fenced) == {0, 1, 2}
    assert [config["tasks.max"] for _, config in exact.given[3:]] == ["3"] * 3


async def test_before_offsets_are_changed_the_tasks_of_a_stopped_connector_are_fenced(exact: Bench) -> None:
    exact.put("a", PAIR)
    await exact.until(lambda: len(exact.given) == 3)
    exact.storage.configs.put_target_state("a", STOPPED)
    await exact.until(lambda: exact.reconciler.is_stopped("a"))
    exact.refusal = BrokerError("the coordinator is away", retry=Retry.TIMED)
    with pytest.raises(FencingError, match="zombie fencing for source connector prior to modifying offsets"):
        await exact.fencing.fence_stopped("a")
    exact.refusal = None
    await exact.fencing.fence_stopped("a")
    assert exact.fenced == [0, 1, 2]
    exact.storage.configs.put_target_state("a", STARTED)
    await exact.until(lambda: len(exact.given) == 6)
    assert exact.fenced == [0, 1, 2], "the same configuration: each task fences its own predecessor"
