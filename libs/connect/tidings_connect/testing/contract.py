"""The contract that every source connector keeps, as tests for pytest: `SourceContract` with a fixture ``case``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tidings_connect.connector import Connector
from tidings_connect.errors import NotStoppedError, OptionError
from tidings_connect.testing.memory_worker import Crash, MemoryWorker

POINTS = ("batch.sent", "records.acknowledged", "offset.written", "offset.stored")
"""Where a task is killed (`tidings_envelope.fault_points`)."""


@dataclass
class Case:
    """A connector, and a source whose things are numbered from 1 on."""

    connector: Connector
    config: Mapping[str, str]
    produce: Callable[[int], None]
    """Let so many more things happen at the source."""
    numbers: Callable[[MemoryWorker], list[int]]
    """The numbers of the records there are, in order."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Options that may be changed while it runs."""
    wrong: tuple[str, str] = ("tasks.max", "none")
    """An option, and a value that it does not take."""


def without_repeats(numbers: list[int]) -> list[int]:
    """As first seen."""
    return list(dict.fromkeys(numbers))


class SourceContract:
    """Inherit it, and give it a fixture ``case``."""

    @pytest.fixture
    def worker(self, case: Case) -> Iterator[MemoryWorker]:
        """Runs the case's connector."""
        with MemoryWorker(case.connector, "contract") as worker:
            yield worker

    def test_everything_arrives_once_in_order(self, case: Case, worker: MemoryWorker) -> None:
        case.produce(3)
        self._start(case, worker, 3)
        case.produce(2)
        self._await(case, worker, 5)
        assert case.numbers(worker) == [1, 2, 3, 4, 5]
        assert worker.state == "RUNNING"
        worker.wait_for(lambda: bool(worker.offsets()), "a stored offset")

    @pytest.mark.parametrize("pause", ["pause", "stop", "restart"])
    def test_it_goes_on_where_it_was_told_to_end(self, case: Case, worker: MemoryWorker, pause: str) -> None:
        case.produce(2)
        self._start(case, worker, 2)
        if pause != "restart":
            getattr(worker, pause)()
            assert worker.state == {"pause": "PAUSED", "stop": "STOPPED"}[pause]
            case.produce(2)
            assert case.numbers(worker) == [1, 2]
            worker.resume()
        else:
            worker.restart()
            case.produce(2)
        self._await(case, worker, 4)
        assert case.numbers(worker) == [1, 2, 3, 4]

    @pytest.mark.parametrize("point", POINTS)
    def test_a_crash_loses_nothing(self, case: Case, worker: MemoryWorker, point: str) -> None:
        case.produce(2)
        self._start(case, worker, 2)
        with worker.crash_at(point) as happened:
            case.produce(2)
            worker.wait_for(lambda: happened.is_set() and worker.state == "FAILED", f"a crash at {point}")
        assert isinstance(worker.error, Crash)
        case.produce(1)
        worker.resume()
        self._await(case, worker, 5)
        assert without_repeats(case.numbers(worker)) == [1, 2, 3, 4, 5]

    def test_a_new_configuration_loses_and_repeats_nothing(self, case: Case, worker: MemoryWorker) -> None:
        case.produce(2)
        self._start(case, worker, 2)
        worker.put({**case.config, **case.changed})
        case.produce(1)
        self._await(case, worker, 3)
        assert case.numbers(worker) == [1, 2, 3]

    def test_it_has_no_more_tasks_than_it_may(self, case: Case) -> None:
        config = {"connector.class": case.connector.class_name, **case.config}
        for most in (1, 2, 5):
            made = case.connector.task_configs(dict(config), most)
            assert 1 <= len(made) <= most
            assert made == case.connector.task_configs(dict(config), most), "it is the same on every worker"

    def test_a_wrong_option_is_refused_by_name(self, case: Case, worker: MemoryWorker) -> None:
        name, value = case.wrong
        with pytest.raises(OptionError, match=name.replace(".", r"\.")):
            worker.put({**case.config, name: value})
        with pytest.raises(OptionError, match=r"contract\.no\.such\.option"):
            worker.put({**case.config, "contract.no.such.option": "1"})
        assert worker.state == "STOPPED"

    def test_offsets_are_altered_and_reset_while_it_is_stopped(
        self, case: Case, worker: MemoryWorker
    ) -> None:
        case.produce(2)
        self._start(case, worker, 2)
        with pytest.raises(NotStoppedError):
            worker.reset_offsets()
        worker.stop()
        stored = worker.offsets()
        assert len(stored) == 1
        worker.reset_offsets()
        worker.alter_offsets(stored)
        worker.resume()
        case.produce(1)
        self._await(case, worker, 3)
        assert case.numbers(worker) == [1, 2, 3], "the offset was put back"
        worker.stop()
        worker.reset_offsets()
        assert worker.offsets() == []
        worker.resume()
        worker.wait_for(lambda: len(case.numbers(worker)) >= 6, "everything once more")
        assert case.numbers(worker) == [1, 2, 3, 1, 2, 3]

    def test_an_offset_that_nobody_understands_is_an_error(self, case: Case, worker: MemoryWorker) -> None:
        case.produce(1)
        self._start(case, worker, 1)
        worker.stop()
        worker.alter_offsets([{**entry, "offset": {"nonsense": "?"}} for entry in worker.offsets()])
        worker.resume()
        with pytest.raises(AssertionError, match="the task failed"):
            worker.wait_for(lambda: False, "a failure")
        assert getattr(worker.error, "code", None) == "offset"

    def _start(self, case: Case, worker: MemoryWorker, count: int) -> None:
        worker.put(case.config)
        self._await(case, worker, count)
        worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")

    def _await(self, case: Case, worker: MemoryWorker, highest: int) -> None:
        worker.wait_for(lambda: highest in case.numbers(worker), f"number {highest}")
