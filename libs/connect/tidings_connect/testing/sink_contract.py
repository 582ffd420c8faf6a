"""The contract that every sink connector keeps, as tests for pytest: `SinkContract` with a fixture ``case``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from tidings_connect.connector import Connector
from tidings_connect.errors import NotStoppedError, OptionError, RecordError
from tidings_connect.testing.memory_worker import MemoryWorker

SINK_POINTS = ("sink.put", "sink.flush", "sink.flushed", "sink.committed")
"""Where a sink's task is killed."""
PARTITIONS: Final = 4


@dataclass
class SinkCase:
    """A sink, and what its system holds. The contract writes numbered records to a topic with four partitions."""

    connector: Connector
    config: Mapping[str, str]
    """Without ``topics`` and converters: values are JSON without schemas, such as ``{"number": 1}``; keys are text."""
    numbers: Callable[[], list[int]]
    """The numbers that the system holds, in the order in which they came, as often as they came."""
    repeats: bool = True
    """Whether a crash may repeat numbers; False for a sink whose effects are exactly once."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Options that may be changed while it runs."""
    wrong: tuple[str, str] = ("tasks.max", "none")
    """An option, and a value that it does not take."""


class SinkContract:
    """Inherit it, and give it a fixture ``case``."""

    topic = "numbers"

    @pytest.fixture
    def worker(self, case: SinkCase) -> Iterator[MemoryWorker]:
        """Runs the case's connector."""
        with MemoryWorker(case.connector, "contract") as worker:
            worker.kafka.inputs.create(self.topic, PARTITIONS)
            yield worker

    def test_everything_arrives_once_and_in_the_order_of_its_partition(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        self._produce(worker, 1, 8)
        self._start(case, worker)
        self._await(case, worker, 8)
        self._produce(worker, 9, 12)
        self._await(case, worker, 12)
        numbers = case.numbers()
        assert sorted(numbers) == list(range(1, 13))
        for partition in range(PARTITIONS):
            of_partition = [number for number in numbers if number % PARTITIONS == partition]
            assert of_partition == sorted(of_partition)
        worker.wait_for(lambda: self._committed(worker) == 12, "the commit of all")

    @pytest.mark.parametrize("pause", ["pause", "stop", "restart"])
    def test_it_goes_on_where_it_was_told_to_end(
        self, case: SinkCase, worker: MemoryWorker, pause: str
    ) -> None:
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        getattr(worker, pause)()
        if pause != "restart":
            self._produce(worker, 5, 8)
            assert worker.state == {"pause": "PAUSED", "stop": "STOPPED"}[pause]
            assert len(case.numbers()) == 4
            worker.resume()
        else:
            self._produce(worker, 5, 8)
        self._await(case, worker, 8)
        assert sorted(case.numbers()) == list(range(1, 9))

    @pytest.mark.parametrize("point", SINK_POINTS)
    def test_a_crash_loses_nothing(self, case: SinkCase, worker: MemoryWorker, point: str) -> None:
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        with worker.crash_at(point) as happened:
            self._produce(worker, 5, 8)
            worker.wait_for(lambda: happened.is_set() and worker.state == "FAILED", f"a crash at {point}")
        self._produce(worker, 9, 9)
        worker.resume()
        self._await(case, worker, 9)
        numbers = case.numbers()
        assert set(numbers) == set(range(1, 10))
        assert case.repeats or len(numbers) == len(set(numbers))

    def test_several_tasks_share_the_partitions_and_take_over_from_one_that_is_killed(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        self._produce(worker, 1, 8)
        self._start(case, worker, tasks=3)
        assert worker.tasks == 3
        self._await(case, worker, 8)
        with worker.crash_at("sink.put") as happened:
            self._produce(worker, 9, 16)
            worker.wait_for(happened.is_set, "a crash of one task")
        self._await(case, worker, 16)
        assert worker.tasks == 2, "the others have what was its own"
        worker.resume()
        worker.wait_for(lambda: worker.tasks == 3 and worker.state == "RUNNING", "three tasks again")
        self._produce(worker, 17, 20)
        self._await(case, worker, 20)
        numbers = case.numbers()
        assert set(numbers) == set(range(1, 21))
        assert case.repeats or len(numbers) == len(set(numbers))

    def test_what_was_put_is_durable_before_partitions_go_to_another_task(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        worker.flush_ms = 3_600_000  # only when they go
        self._start(case, worker, tasks=2)
        self._produce(worker, 1, 8)
        worker.wait_for(lambda: worker.taken == 8, "eight records")
        both = worker.partitions
        with worker.crash_at("sink.put") as happened:
            worker.kafka.inputs.produce(self.topic, b'"k"', b'{"number":9}', partition=1)
            worker.wait_for(happened.is_set, "a crash of the task that has the odd partitions")
        worker.wait_for(lambda: worker.partitions == both, "its partition at the other task")
        if case.repeats:  # otherwise the system has them, and the other task begins after them
            worker.wait_for(lambda: worker.taken >= 9, "its records at the other task")
        worker.resume()
        worker.wait_for(lambda: self._committed(worker) > 0, "a commit of what goes back")
        worker.stop()
        numbers = case.numbers()
        assert set(numbers) == set(range(1, 10))
        even = sorted(number for number in numbers if number % 2 == 0)
        assert even == [2, 4, 6, 8], "of the task that lived nothing is repeated"
        assert self._committed(worker) == 9

    def test_a_new_configuration_and_another_number_of_tasks_lose_and_repeat_nothing(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        for tasks, highest in ((3, 8), (2, 12)):
            self._start(case, worker, tasks=tasks, more=case.changed)
            self._produce(worker, highest - 3, highest)
            self._await(case, worker, highest)
            assert worker.tasks == tasks
        assert sorted(case.numbers()) == list(range(1, 13))

    def test_a_wrong_option_is_refused_by_name(self, case: SinkCase, worker: MemoryWorker) -> None:
        name, value = case.wrong
        for wrong in ({name: value}, {"contract.no.such.option": "1"}, {"topics": ""}, {"topics.regex": "x"}):
            with pytest.raises(OptionError, match=next(iter(wrong)).replace(".", r"\.")):
                self._start(case, worker, more=wrong)
        assert worker.state == "STOPPED"

    def test_a_record_that_cannot_be_read_is_an_error_or_a_dead_letter(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        self._produce(worker, 1, 1)
        worker.kafka.inputs.produce(self.topic, b'"k"', b"{secret", partition=3, headers=[("h", b"1")])
        self._start(case, worker)
        with pytest.raises(AssertionError, match="the task failed"):
            worker.wait_for(lambda: False, "a failure")
        assert isinstance(worker.error, RecordError)
        assert "partition 3, offset 0" in str(worker.error)
        assert "secret" not in str(worker.error)
        letters = {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "letters",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        self._start(case, worker, more=letters)
        self._produce(worker, 2, 2)
        self._await(case, worker, 2)
        worker.wait_for(lambda: self._committed(worker) == 3, "the commit, also of the letter")
        ((key, value, headers),) = worker.kafka.topics["letters"]
        assert (key, value) == (b'"k"', b"{secret")
        said = dict(headers or [])
        assert said["h"] == b"1"
        assert said["__connect.errors.partition"] == b"3"
        assert said["__connect.errors.stage"] == b"VALUE_CONVERTER"

    def test_offsets_are_altered_and_reset_while_it_is_stopped(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        with pytest.raises(NotStoppedError):
            worker.reset_offsets()
        worker.stop()
        stored = worker.offsets()
        assert len(stored) == PARTITIONS
        worker.reset_offsets()
        assert worker.offsets() == []
        worker.alter_offsets(stored)
        worker.resume()
        self._produce(worker, 5, 5)
        self._await(case, worker, 5)
        assert sorted(case.numbers()) == [1, 2, 3, 4, 5], "the offsets were put back"
        worker.stop()
        worker.reset_offsets()
        worker.resume()
        worker.wait_for(lambda: len(case.numbers()) == 10, "everything once more")

    def _produce(self, worker: MemoryWorker, first: int, last: int) -> None:
        for number in range(first, last + 1):
            value = f'{{"number":{number}}}'.encode()
            worker.kafka.inputs.produce(self.topic, b'"k"', value, partition=number % PARTITIONS)

    def _start(
        self, case: SinkCase, worker: MemoryWorker, *, tasks: int = 1, more: Mapping[str, str] | None = None
    ) -> None:
        worker.put({**case.config, "topics": self.topic, "tasks.max": str(tasks), **(more or {})})

    def _await(self, case: SinkCase, worker: MemoryWorker, highest: int) -> None:
        worker.wait_for(lambda: set(range(1, highest + 1)) <= set(case.numbers()), f"numbers to {highest}")

    def _committed(self, worker: MemoryWorker) -> int:
        return sum(entry["offset"]["kafka_offset"] for entry in worker.offsets())


class IdempotentSinkContract(SinkContract):
    """The contract of sinks that write what comes again over itself: their positions are the group's, and nothing is there
    twice."""

    def test_what_was_put_is_durable_before_partitions_go_to_another_task(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        """A record that comes again is there once, also where the group repeats it."""
        case.repeats = True
        super().test_what_was_put_is_durable_before_partitions_go_to_another_task(case, worker)
        numbers = case.numbers()
        assert len(numbers) == len(set(numbers))

    def test_offsets_are_altered_and_reset_while_it_is_stopped(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        """Records that are read again are what is there."""
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        worker.stop()
        stored = worker.offsets()
        worker.reset_offsets()
        worker.resume()
        worker.wait_for(lambda: worker.offsets() == stored, "everything once more")
        assert sorted(case.numbers()) == [1, 2, 3, 4]
