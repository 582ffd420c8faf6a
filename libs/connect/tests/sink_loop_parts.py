"""What the tests of a sink task's loop share: a sink whose system does as a test says."""

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings_connect.task.channel import SinkReport
from tidings_connect.task.sink import (
    LeftOut,
    RetriableError,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
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
        self.errors: list[RetriableError] = []
        """What the next puts end with."""
        self.busy_flushes = 0
        self.begin: dict[TopicPartition, int] = {}
        self.refuses: int | None = None
        self.durable_shift = 0
        self.settles = False
        self.letters_at_put: list[int] = []
        self.count_letters: Callable[[], int] = lambda: 0
        self.tried: list[list[int]] = []
        self.numbers: list[int] = []
        self.paused: set[TopicPartition] = set()
        self.works = 0
        self.busy_works = 0
        self.left_out: list[LeftOut] = []
        self.task: SinkTask | None = None
        """Another than `Task`."""
        self.make_task: Callable[[SinkContext], SinkTask] | None = None
        """Makes it."""


class Task(SinkTask):
    """A sink of a system."""

    def __init__(self, system: System, context: SinkContext) -> None:
        self._system, self._context = system, context

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {at: offset for at, offset in self._system.begin.items() if at in partitions}

    def put(self, batch: Sequence[SinkRecord]) -> None:
        self._system.tried.append([record.value["number"] for record in batch])
        if self._system.busy.is_set():
            raise RetriableError("the system is busy")
        if self._system.errors:
            raise self._system.errors.pop(0)
        for record in batch:
            if record.value["number"] == self._system.refuses:
                self._context.report(record, ValueError("a value that nobody may see"))
            else:
                self._system.numbers.append(record.value["number"])
        if self._system.settles:
            self._context.settle()
            self._system.letters_at_put.append(self._system.count_letters())

    def left_out(self, records: Sequence[LeftOut]) -> None:
        self._system.left_out += records

    def paused(self) -> Collection[TopicPartition]:
        return self._system.paused

    def work(self) -> None:
        if self._system.busy_works > 0:
            self._system.busy_works -= 1
            raise RetriableError("the system is busy")
        self._system.works += 1

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self._system.busy_flushes > 0:
            self._system.busy_flushes -= 1
            raise RetriableError("the system is busy")
        return {at: offset + self._system.durable_shift for at, offset in offsets.items()}


def start(worker: MemoryWorker, **more: str) -> None:
    """Start the sink."""
    worker.put({"list.file": str(Path("unused")), "topics": TOPIC, **QUICK, **more})


def produce(worker: MemoryWorker, first: int, last: int, partition: int = 0) -> None:
    """Write numbers to a partition, from a first to a last."""
    for number in range(first, last + 1):
        worker.kafka.inputs.produce(
            TOPIC, b'"k"', json.dumps({"number": number}).encode(), partition=partition
        )


def committed(worker: MemoryWorker) -> dict[int, int]:
    """Where the group's partitions go on."""
    return {
        entry["partition"]["kafka_partition"]: entry["offset"]["kafka_offset"] for entry in worker.offsets()
    }


def subscription(worker: MemoryWorker) -> Any:
    """What the first task reads of."""
    return worker._tasks[0].transport.subscription


def sink_report(worker: MemoryWorker) -> SinkReport:
    """The last report of the first task."""
    return worker._tasks[0].supervision.last.sink
