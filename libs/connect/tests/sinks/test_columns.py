"""Batches that a sink task takes as columns, and what becomes of those that it does not take."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sink_loop_parts import LETTERS, TOPIC, ZERO, System, Task, committed, sink_report, start, subscription

from tidings_connect.converters.encoding import AvroConverter
from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, TopicColumns, TopicPartition
from tidings_connect.task.sink import records as module
from tidings_connect.testing.memory_registry import MemoryRegistry
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.kinds import TRANSFORMS
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

KEY = ConnectSchema(ConnectType.STRUCT, name="Key", fields=(Field("id", ConnectSchema(ConnectType.INT32)),))
ROW = ConnectSchema(
    ConnectType.STRUCT, name="Row", fields=(Field("number", ConnectSchema(ConnectType.INT64)),)
)


class ColumnsTask(Task):
    """Takes columns, if the test says so."""

    takes_columns = True
    durable_at_put = True

    def __init__(self, system: System, context: SinkContext) -> None:
        super().__init__(system, context)
        self.errors: list[RetriableError] = []
        self.takes = True
        self.offered: list[list[int]] = []
        self.batches: list[Sequence[TopicColumns]] = []

    def put_columns(self, batch: Sequence[TopicColumns]) -> bool:
        numbers = [
            number
            for topic in batch
            if topic.values is not None
            for number in topic.values.fields["number"]()
        ]
        self.offered.append(numbers)
        if self.errors:
            raise self.errors.pop(0)
        if self.takes:
            self._system.numbers += numbers
            self.batches.append(batch)
        return self.takes

    def put(self, batch: Sequence[SinkRecord]) -> None:
        self._system.tried.append([record.value["number"] for record in batch if record.value])
        self._system.numbers += [record.value["number"] for record in batch if record.value]


@pytest.fixture
def task(system: System) -> ColumnsTask:
    """The task that the worker's connector opens."""
    system.task = made = ColumnsTask(system, SinkContext("list", 0, lambda *_: None))
    return made


@pytest.fixture
def write(worker: MemoryWorker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes numbers of a partition in Avro, which the sink reads."""
    registry: Any = MemoryRegistry()
    monkeypatch.setattr(module, "make_converter", lambda _, is_key: AvroConverter(registry, is_key=is_key))
    encode_key, encode = (
        AvroConverter(registry, is_key=is_key).encoder(TOPIC, schema)
        for is_key, schema in ((True, KEY), (False, ROW))
    )

    def produce(numbers: Sequence[int | None], partition: int = 0, **more: Any) -> None:
        for number in numbers:
            value = None if number is None else encode({"number": number})
            worker.kafka.inputs.produce(
                TOPIC, encode_key({"id": number or 0}), value, partition=partition, **more
            )

    return produce


def test_a_plain_batch_is_taken_whole_and_committed(
    worker: MemoryWorker, system: System, task: ColumnsTask, write: Callable[..., None]
) -> None:
    write(range(100))
    write(range(100, 180), partition=1, timestamp=1_700_000_000_007)
    write([None, None], headers=[("h", b"7")])
    start(worker)
    worker.wait_for(lambda: committed(worker) == {0: 102, 1: 80}, "the commit")
    assert sorted(system.numbers) == list(range(180))
    assert system.tried == []
    worker.wait_for(lambda: worker.taken == 182, "the report")
    assert sink_report(worker).counts.puts == len(task.batches)
    topics = [topic for batch in task.batches for topic in batch]
    assert {topic.topic for topic in topics} == {TOPIC}
    last = topics[-1]
    assert (last.key_schema, last.value_schema) == (KEY, ROW)
    for topic in topics:
        for place, record in enumerate(topic.records):
            made = topic.record(place)
            assert (made.offset, tuple(made.original)) == (record.offset, record[:2])
            assert made.key == {"id": topic.keys.fields["id"]()[place]}
            assert (made.value is None) == (topic.places is not None and place not in topic.places)
    said = [[header.value for header in headers] for topic in topics for headers in topic.headers]
    assert sum(headers == [7] for headers in said) == 1


def test_what_the_task_does_not_take_comes_as_records_and_columns_are_offered_again_later(
    worker: MemoryWorker, system: System, task: ColumnsTask, write: Callable[..., None]
) -> None:
    task.takes = False
    most = {"consumer.override.max.poll.records": "70"}
    write(range(7 * 70))
    start(worker, **most)
    worker.wait_for(
        lambda: committed(worker) == {0: 490, 1: 0} or committed(worker) == {0: 490}, "the commit"
    )
    assert system.numbers == list(range(490))
    assert task.offered == [list(range(70)), list(range(140, 210)), list(range(420, 490))]
    task.takes = True
    system.paused = {ZERO}  # so that whole batches are there when it reads on
    worker.wait_for(lambda: ZERO in subscription(worker)._paused, "the pause")
    write(range(490, 490 + 9 * 70))
    system.paused = set()
    worker.wait_for(lambda: committed(worker)[0] == 1120, "the commit")
    assert system.numbers == list(range(1120))
    assert [batch[0] for batch in task.offered[3:]] == [980, 1050]


@pytest.mark.parametrize("spoilt", ["key", "value", "header"])
def test_a_record_that_cannot_be_read_becomes_a_letter_and_the_others_come_as_records(
    worker: MemoryWorker, system: System, task: ColumnsTask, write: Callable[..., None], spoilt: str
) -> None:
    write(range(80))
    log = worker.kafka.inputs.records[ZERO]
    bad = log[7]
    log[7] = bad._replace(
        key=b"no Avro" if spoilt == "key" else bad.key,
        value=(bad.value or b"") + b"more" if spoilt == "value" else bad.value,
        headers=[("h", b"\xff")] if spoilt == "header" else [],
    )
    start(worker, **LETTERS)
    worker.wait_for(lambda: committed(worker).get(0) == 80, "the commit")
    assert system.numbers == [*range(7), *range(8, 80)]
    assert task.offered == []
    assert len(worker.kafka.topics["letters"]) == 1


def test_a_busy_system_gets_the_batch_again_as_records(
    worker: MemoryWorker, system: System, task: ColumnsTask, write: Callable[..., None]
) -> None:
    task.errors = [RetriableError("the system is busy")]
    write(range(80))
    start(worker)
    worker.wait_for(lambda: committed(worker).get(0) == 80, "the commit")
    assert (len(task.offered), system.numbers) == (1, list(range(80)))
    worker.wait_for(lambda: sink_report(worker).counts.retries == 1, "the report")
    assert subscription(worker)._paused == set()


def test_records_that_a_transform_changes_come_as_records(
    worker: MemoryWorker,
    system: System,
    task: ColumnsTask,
    write: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import counting_transforms

    monkeypatch.setitem(TRANSFORMS, "counting.Same", counting_transforms.Same)
    write(range(80))
    start(worker, **{"transforms": "same", "transforms.same.type": "counting.Same"})
    worker.wait_for(lambda: committed(worker).get(0) == 80, "the commit")
    assert (task.offered, system.numbers) == ([], list(range(80)))


class KeepingTask(ColumnsTask):
    """Keeps what it is given until it is flushed, and then refuses a number."""

    durable_at_put = False
    keeps_records = True

    def __init__(self, system: System, context: SinkContext) -> None:
        super().__init__(system, context)
        self.kept_bytes: list[int] = []
        self.again: list[SinkRecord] = []
        self.flushes = threading.Event()

    def put_columns(self, batch: Sequence[TopicColumns]) -> bool:
        taken = super().put_columns(batch)
        self.kept_bytes.append(self._context.kept_bytes())
        return taken

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if not self.flushes.is_set():
            raise RetriableError("not yet")
        for batch in self.batches:
            for topic in batch:
                self.again += self._context.read_again(topic.records)
        self.batches.clear()
        for record in self.again:
            if record.value["number"] == self._system.refuses:
                self._system.refuses = None
                self._context.report(record, ValueError("no"))
        return offsets


def test_what_a_task_keeps_as_columns_is_held_and_read_again_and_refused_whole(
    worker: MemoryWorker, system: System, write: Callable[..., None]
) -> None:
    made: list[KeepingTask] = []

    def make(context: SinkContext) -> KeepingTask:
        made.append(KeepingTask(system, context))
        return made[-1]

    system.make_task = make
    system.refuses = 42
    write(range(80), timestamp=1_600_000_000_000)
    start(worker, **LETTERS)

    def lag() -> float:
        return time.time() - 1_600_000_000 - sink_report(worker).commit_lag_seconds

    worker.wait_for(lambda: len(system.numbers) == 80 and abs(lag()) < 5, "the lag of what is kept")
    (task,) = made
    assert task._context.kept_bytes() > 80 * 7
    assert committed(worker) == {}
    task.flushes.set()
    worker.wait_for(lambda: committed(worker).get(0) == 80, "the commit")
    assert [record.value["number"] for record in task.again] == list(range(80))
    assert [tuple(record.original) for record in task.again] == [tuple(ZERO)] * 80
    (letter,) = worker.kafka.topics["letters"]
    assert worker.kafka.inputs.records[ZERO][42].value in letter
    worker.wait_for(lambda: sink_report(worker).commit_lag_seconds == 0, "all durable")
    assert task._context.kept_bytes() == 0
