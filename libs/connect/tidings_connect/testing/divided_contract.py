"""The contract of source connectors whose work is divided among tasks: `DividedContract` with a fixture ``case``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tidings_connect.connector import Connector
from tidings_connect.errors import FencedError
from tidings_connect.testing.memory_worker import Crash, MemoryWorker

POINTS = ("batch.sent", "offset.written", "offset.stored")
"""Where a task is killed, with transactions and without."""


@dataclass
class DividedCase:
    """A connector with three tasks, each with a part of a source whose things are numbered from 1 on: number n belongs to
    part n modulo 3."""

    connector: Connector
    config: Mapping[str, str]
    """Without ``tasks.max``."""
    produce: Callable[[int], None]
    """Let so many more things happen at the source."""
    numbers: Callable[[MemoryWorker], list[int]]
    """The numbers of the records there are; those of a part in their order."""


class DividedContract:
    """Inherit it, and give it a fixture ``case``."""

    @pytest.fixture(params=[False, True], ids=["at-least-once", "exactly-once"])
    def exactly_once(self, request: pytest.FixtureRequest) -> bool:
        """Whether tasks write in transactions."""
        return bool(request.param)

    @pytest.fixture
    def worker(self, case: DividedCase, exactly_once: bool) -> Iterator[MemoryWorker]:
        """Runs the case's connector with three tasks and six numbers."""
        with MemoryWorker(case.connector, "divided", exactly_once=exactly_once) as worker:
            case.produce(6)
            worker.put({**case.config, "tasks.max": "3"})
            self._await(case, worker, 6)
            yield worker

    def test_each_task_has_a_part(self, case: DividedCase, worker: MemoryWorker) -> None:
        assert worker.tasks == 3
        case.produce(3)
        self._await(case, worker, 9)
        self._once(case, worker, 9)
        worker.wait_for(lambda: len(worker.offsets()) == 3, "three stored offsets")

    @pytest.mark.parametrize("point", POINTS)
    def test_a_crash_of_one_task_loses_nothing(
        self, case: DividedCase, worker: MemoryWorker, exactly_once: bool, point: str
    ) -> None:
        with worker.crash_at(point) as happened:
            case.produce(6)
            worker.wait_for(lambda: happened.is_set() and worker.state == "FAILED", f"a crash at {point}")
        assert isinstance(worker.error, Crash)
        assert worker.tasks == 2
        case.produce(3)
        worker.resume()
        self._await(case, worker, 15)
        if exactly_once:
            self._once(case, worker, 15)
        else:
            self._in_order(list(dict.fromkeys(case.numbers(worker))))

    def test_fewer_and_more_tasks_lose_and_repeat_nothing(
        self, case: DividedCase, worker: MemoryWorker
    ) -> None:
        highest = 6
        for tasks in (2, 1, 3):
            case.produce(3)
            worker.put({**case.config, "tasks.max": str(tasks)})
            case.produce(3)
            highest += 6
            self._await(case, worker, highest)
            assert worker.tasks == tasks
        self._once(case, worker, highest)

    def test_a_task_that_goes_to_another_worker_goes_on_there(
        self, case: DividedCase, worker: MemoryWorker
    ) -> None:
        for number in range(3):
            case.produce(2)
            worker.move(number)
        self._await(case, worker, 12)
        self._once(case, worker, 12)

    def test_offsets_of_all_parts_are_altered_and_reset(
        self, case: DividedCase, worker: MemoryWorker
    ) -> None:
        worker.stop()
        stored = worker.offsets()
        assert len(stored) == 3
        worker.reset_offsets()
        worker.alter_offsets(stored)
        worker.resume()
        case.produce(3)
        self._await(case, worker, 9)
        self._once(case, worker, 9)
        worker.stop()
        worker.reset_offsets()
        assert worker.offsets() == []
        worker.resume()
        worker.wait_for(lambda: len(case.numbers(worker)) >= 18, "everything once more")
        assert sorted(case.numbers(worker)) == sorted([*range(1, 10), *range(1, 10)])

    @pytest.mark.parametrize("exactly_once", [True], indirect=True)
    @pytest.mark.parametrize("tasks", ["2", "1"])
    def test_a_frozen_task_that_wakes_up_after_tasks_have_become_fewer_writes_nothing(
        self, case: DividedCase, worker: MemoryWorker, tasks: str
    ) -> None:
        """The last one stands before the commit of what another task then writes."""
        with worker.freeze_at("offset.written", 2) as happened:
            case.produce(6)
            worker.wait_for(happened.is_set, "a frozen task")
            worker.put({**case.config, "tasks.max": tasks})
            self._await(case, worker, 12)
        assert isinstance(worker.lost_error, FencedError)
        self._once(case, worker, 12)

    def _await(self, case: DividedCase, worker: MemoryWorker, highest: int) -> None:
        wanted = set(range(1, highest + 1))
        worker.wait_for(lambda: wanted <= set(case.numbers(worker)), f"all numbers up to {highest}")

    def _once(self, case: DividedCase, worker: MemoryWorker, highest: int) -> None:
        numbers = case.numbers(worker)
        assert sorted(numbers) == list(range(1, highest + 1))
        self._in_order(numbers)

    def _in_order(self, numbers: list[int]) -> None:
        for part in range(3):
            found = [number for number in numbers if number % 3 == part]
            assert found == sorted(found)
