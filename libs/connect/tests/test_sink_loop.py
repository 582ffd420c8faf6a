"""A sink task's loop beyond the contract: a system that is busy, positions of its own, records it cannot write."""

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidings_connect.errors import OffsetError, OptionError, RecordError
from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_connect.testing.memory_worker import MemoryWorker

TOPIC = "numbers"
ZERO = TopicPartition(TOPIC, 0)
QUICK = {"errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "40"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}


class System:
    """What the sink writes to; it does as a test says."""

    def __init__(self) -> None:
        self.busy = threading.Event()
        self.busy_flushes = 0
        self.begin: dict[TopicPartition, int] = {}
        self.refuses: int | None = None
        self.durable_shift = 0
        self.settles = False
        self.letters_at_put: list[int] = []
        self.count_letters: Callable[[], int] = lambda: 0
        self.tried: list[list[int]] = []
        self.numbers: list[int] = []


class Task(SinkTask):
    def __init__(self, system: System, context: SinkContext) -> None:
        self._system, self._context = system, context

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {at: offset for at, offset in self._system.begin.items() if at in partitions}

    def put(self, batch: Sequence[SinkRecord]) -> None:
        self._system.tried.append([record.value["number"] for record in batch])
        if self._system.busy.is_set():
            raise RetriableError("the system is busy")
        for record in batch:
            if record.value["number"] == self._system.refuses:
                self._context.report(record, ValueError("a value that nobody may see"))
            else:
                self._system.numbers.append(record.value["number"])
        if self._system.settles:
            self._context.settle()
            self._system.letters_at_put.append(self._system.count_letters())

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self._system.busy_flushes > 0:
            self._system.busy_flushes -= 1
            raise RetriableError("the system is busy")
        return {at: offset + self._system.durable_shift for at, offset in offsets.items()}


@pytest.fixture
def system() -> System:
    return System()


@pytest.fixture
def worker(counting: None, system: System) -> Iterator[MemoryWorker]:
    import listing

    class Connector(listing.List):  # type: ignore[misc]  # the page's module has no types
        def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
            return Task(system, context)

    with MemoryWorker(Connector(), "loop") as worker:
        worker.kafka.inputs.create(TOPIC, 2)
        system.count_letters = lambda: len(worker.kafka.topics.get("letters", []))
        yield worker


def start(worker: MemoryWorker, **more: str) -> None:
    worker.put({"list.file": str(Path("unused")), "topics": TOPIC, **QUICK, **more})


def produce(worker: MemoryWorker, first: int, last: int, partition: int = 0) -> None:
    for number in range(first, last + 1):
        worker.kafka.inputs.produce(
            TOPIC, b'"k"', json.dumps({"number": number}).encode(), partition=partition
        )


def committed(worker: MemoryWorker) -> dict[int, int]:
    return {
        entry["partition"]["kafka_partition"]: entry["offset"]["kafka_offset"] for entry in worker.offsets()
    }


def subscription(worker: MemoryWorker) -> Any:
    return worker._tasks[0]._transport.subscription


@pytest.mark.parametrize(
    "name",
    [
        "consumer.override.bootstrap.servers",
        "producer.override.bootstrap.servers",
        "admin.override.client.id",
    ],
)
def test_an_override_that_nobody_would_obey_is_refused_by_name(worker: MemoryWorker, name: str) -> None:
    with pytest.raises(OptionError, match=name.replace(".", r"\.")):
        start(worker, **{name: "elsewhere:9092"})


def test_a_busy_system_gets_the_same_batch_again_while_its_partitions_rest(
    worker: MemoryWorker, system: System
) -> None:
    system.busy.set()
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: len(system.tried) >= 4, "further attempts")
    produce(worker, 4, 6)
    produce(worker, 7, 9, partition=1)
    seen = len(system.tried)
    worker.wait_for(lambda: len(system.tried) >= seen + 3, "attempts after more has come")
    assert subscription(worker)._paused == {ZERO, TopicPartition(TOPIC, 1)}
    assert {tuple(batch) for batch in system.tried} == {(1, 2, 3)}, "what comes later waits in Kafka"
    worker.wait_for(lambda: worker.state == "RUNNING", "the report of a task that waits")
    assert committed(worker) == {}
    system.busy.clear()
    worker.wait_for(lambda: len(system.numbers) == 9, "everything")
    assert sorted(system.numbers) == list(range(1, 10))
    assert [number for number in system.numbers if number <= 6] == [1, 2, 3, 4, 5, 6]
    worker.wait_for(lambda: committed(worker) == {0: 6, 1: 3}, "the commit")
    assert subscription(worker)._paused == set()


def test_nothing_is_committed_while_a_flush_fails(worker: MemoryWorker, system: System) -> None:
    system.busy_flushes = 3
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: system.busy_flushes == 2, "a flush that fails")
    assert committed(worker) == {}
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    assert (system.busy_flushes, system.numbers) == (0, [1, 2, 3])


def test_it_begins_where_the_system_says(worker: MemoryWorker, system: System) -> None:
    system.begin = {ZERO: 2}
    produce(worker, 1, 4)
    produce(worker, 11, 12, partition=1)
    start(worker)
    worker.wait_for(lambda: len(system.numbers) == 4, "what the system does not have")
    assert sorted(system.numbers) == [3, 4, 11, 12]


def test_the_group_comes_to_know_where_the_system_is_although_nothing_follows(
    worker: MemoryWorker, system: System
) -> None:
    system.begin = {ZERO: 2}
    produce(worker, 1, 2)
    start(worker)
    worker.wait_for(lambda: committed(worker) == {0: 2}, "the commit of what the system has")
    assert system.numbers == []


def test_letters_are_stored_when_a_task_asks_for_it(worker: MemoryWorker, system: System) -> None:
    system.refuses, system.settles = 2, True
    produce(worker, 1, 3)
    start(worker, **LETTERS)
    worker.wait_for(lambda: len(system.numbers) == 2, "the others")
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    assert system.letters_at_put == [1], "stored before the task went on"


def test_only_what_the_task_says_is_committed(worker: MemoryWorker, system: System) -> None:
    system.durable_shift = -1
    produce(worker, 1, 4)
    start(worker)
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit of all but the last")
    worker.stop()
    assert committed(worker) == {0: 3}
    worker.resume()
    worker.wait_for(lambda: system.numbers == [1, 2, 3, 4, 4], "the last once more")


def test_a_task_cannot_claim_what_it_was_not_given(worker: MemoryWorker, system: System) -> None:
    system.durable_shift = 1
    produce(worker, 1, 4)
    start(worker)
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert isinstance(worker.error, OffsetError)
    assert "partition 0 is durable up to 5" in str(worker.error)
    assert committed(worker) == {}


def test_a_record_that_the_task_refuses_fails_it_and_no_value_is_told(
    worker: MemoryWorker, system: System
) -> None:
    system.refuses = 2
    produce(worker, 1, 3)
    start(worker)
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert isinstance(worker.error, RecordError)
    assert "partition 0, offset 1" in str(worker.error)
    assert "nobody may see" not in str(worker.error)
    assert committed(worker) == {}


def test_a_record_that_the_task_refuses_is_a_dead_letter_and_the_others_are_written(
    worker: MemoryWorker, system: System
) -> None:
    system.refuses = 2
    produce(worker, 1, 3)
    start(worker, **LETTERS)
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit, also of the letter")
    assert system.numbers == [1, 3]
    ((_, value, headers),) = worker.kafka.topics["letters"]
    assert value == b'{"number": 2}'
    said = dict(headers or [])
    assert said["__connect.errors.stage"] == b"TASK_PUT"
    assert said["__connect.errors.offset"] == b"1"
    assert said["__connect.errors.exception.message"] == b"ValueError"
    assert not any(b"nobody may see" in (text or b"") for text in said.values())
