"""A sink task's loop beyond the contract: a system that is busy, positions of its own, records it cannot write."""

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.errors import OffsetError, OptionError, RecordError
from tidings_connect.herder.local_task import Counters
from tidings_connect.herder.series_bounds import SeriesBounds
from tidings_connect.herder.sink_metrics import sink_metrics
from tidings_connect.task.channel import Report, SinkCounts, SinkReport
from tidings_connect.task.sink import (
    LeftOut,
    RetriableError,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.kinds import TRANSFORMS
from tidings_envelope.errors import RegistryError

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
        self.paused: set[TopicPartition] = set()
        self.works = 0
        self.busy_works = 0
        self.left_out: list[LeftOut] = []


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


def sink_report(worker: MemoryWorker) -> SinkReport:
    return worker._tasks[0].supervision.last.sink


def test_a_report_says_how_far_a_sink_is_behind_and_for_how_long_its_system_has_been_busy(
    worker: MemoryWorker, system: System
) -> None:
    system.busy.set()
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: len(system.tried) >= 3, "further attempts")
    produce(worker, 4, 7, partition=1)
    worker.wait_for(lambda: sink_report(worker).lags == {"numbers:0": 3, "numbers:1": 4}, "both lags")
    behind = sink_report(worker)
    assert behind.retrying_seconds > 0
    assert behind.paused == 2
    assert behind.counts.retries >= 2
    assert behind.counts.puts == behind.counts.commits == 0
    assert abs(time.time() - 1_700_000_000 - behind.lag_seconds) < 60, "as old as the oldest record"
    system.busy.clear()
    worker.wait_for(lambda: sink_report(worker).lags == {"numbers:0": 0, "numbers:1": 0}, "abreast")
    worker.wait_for(lambda: sink_report(worker).counts.commits > 0, "the commit")
    abreast = sink_report(worker)
    assert (abreast.retrying_seconds, abreast.lag_seconds, abreast.paused) == (0, 0, 0)
    assert abreast.counts.puts >= 1
    assert 0 < abreast.put_average_seconds <= abreast.put_longest_seconds <= abreast.counts.put_seconds


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        ({"source": {"ts_us": 1_600_000_000_000_000, "ts_ms": 1}}, []),
        ({"source": {"ts_ms": 1_600_000_000_000}}, []),
        ({"__source_ts_ms": 1_600_000_000_000}, []),
        ({}, [("ce_time", b"2020-09-13T12:26:40Z")]),
    ],
    ids=["envelope", "envelope in milliseconds", "flat", "event"],
)
def test_the_lag_since_the_commit_is_that_of_the_oldest_change_that_is_not_durable(
    worker: MemoryWorker, system: System, value: dict[str, Any], headers: list[tuple[str, bytes]]
) -> None:
    """Of a slow system: first it takes nothing, then it takes records and does not make them durable."""
    system.busy.set()
    system.busy_flushes = 1_000_000
    encoded = json.dumps({"number": 1, **value}).encode()
    worker.kafka.inputs.produce(
        TOPIC, None, encoded, partition=0, headers=headers
    )  # Kafka's time is 1,700,000,000 s
    start(worker)

    def is_old() -> bool:
        return abs(time.time() - 1_600_000_000 - sink_report(worker).commit_lag_seconds) < 5

    worker.wait_for(is_old, "the lag while nothing is taken")
    system.busy.clear()
    worker.wait_for(lambda: system.numbers == [1], "the record")
    worker.wait_for(lambda: sink_report(worker).lag_seconds == 0, "all put")
    worker.wait_for(is_old, "the lag while it is not durable")
    system.busy_flushes = 0
    worker.wait_for(lambda: sink_report(worker).commit_lag_seconds == 0, "all durable")


def test_a_record_without_a_commit_s_time_counts_from_its_own(worker: MemoryWorker, system: System) -> None:
    system.busy.set()
    produce(worker, 1, 1)
    start(worker)
    worker.wait_for(
        lambda: abs(time.time() - 1_700_000_000 - sink_report(worker).commit_lag_seconds) < 5, "the lag"
    )


def test_a_flush_that_fails_counts_as_a_commit_that_failed_and_as_busy(
    worker: MemoryWorker, system: System
) -> None:
    system.busy_flushes = 1000
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: sink_report(worker).counts.commit_failures > 2, "failures")
    assert sink_report(worker).retrying_seconds > 0
    assert sink_report(worker).counts.commits == 0
    system.busy_flushes = 0
    worker.wait_for(lambda: sink_report(worker).counts.commits == 1, "the commit")
    assert sink_report(worker).retrying_seconds == 0


def test_the_metrics_of_a_sink_go_by_task_and_partition(
    counting: None,
) -> None:
    run = SimpleNamespace(
        name="s", task=1, has_task=True, config={"connector.class": "List"},
        report=Report(
            "streaming", outstanding=5, partitions=3,
            sink=SinkReport(
                SinkCounts(3, 0.5, 3, 1, 7), 0.1, 0.3, {"a:0": 4, "a.b:1": 2, "c:0": 1}, 40.0, 3, 12.0, 50.0
            ),
        ),
        counters=lambda: Counters({"a": 8}, read=9, sink=SinkCounts(6, 1.0, 5, 2, 9)),
    )  # fmt: skip
    idle = SimpleNamespace(name="s", task=2, has_task=False, config=run.config)
    found = {
        (sample.name, *list(sample.labels.values())[2:]): sample.value
        for family in sink_metrics([run, idle], SeriesBounds(2))  # type: ignore[list-item]  # all that is asked for
        for sample in family.samples
    }
    assert found[("tidings_sink_lag_records", "a", "0")] == 4
    assert found[("tidings_sink_lag_records", "a.b", "1")] == 2
    assert found[("tidings_sink_lag_records", "other", "other")] == 1
    assert found[("tidings_sink_offset_commits_total", "ok")] == 5
    assert found[("tidings_sink_offset_commits_total", "failed")] == 2
    assert {name[0]: value for name, value in found.items() if len(name) == 1} == {
        "kafka_connect_sink_task_sink_record_read_total": 9,
        "kafka_connect_sink_task_sink_record_send_total": 8,
        "kafka_connect_sink_task_sink_record_active_count": 5,
        "kafka_connect_sink_task_partition_count": 3,
        "kafka_connect_sink_task_sink_record_lag_max": 4,
        "kafka_connect_sink_task_put_batch_avg_time_ms": 100,
        "kafka_connect_sink_task_put_batch_max_time_ms": 300,
        "kafka_connect_sink_task_offset_commit_completion_total": 5,
        "kafka_connect_connector_task_offset_commit_success_percentage": 0.75,
        "kafka_connect_connector_task_offset_commit_failure_percentage": 0.25,
        "kafka_connect_task_error_metrics_total_retries": 7,
        "tidings_sink_lag_seconds": 40,
        "tidings_sink_commit_lag_seconds": 50,
        "tidings_sink_retrying_seconds": 12,
        "tidings_sink_paused_partitions": 3,
        "tidings_sink_puts_total": 6,
        "tidings_sink_put_seconds_total": 1,
        "tidings_sink_retries_total": 9,
    }


@pytest.fixture(params=["converter", "transform"])
def away(request: pytest.FixtureRequest, counting: None, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, what a step before the put needs is away."""
    event = threading.Event()
    event.set()

    def failing(step: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*given: Any) -> Any:
            if event.is_set():
                raise RegistryError("the registry is away", retry="timed")
            return step(*given)

        return tried

    import counting_transforms

    monkeypatch.setitem(TRANSFORMS, "counting.Same", counting_transforms.Same)
    if request.param == "converter":
        monkeypatch.setattr(JsonConverter, "decode", failing(JsonConverter.decode))
    else:
        monkeypatch.setattr(counting_transforms.Same, "apply", failing(counting_transforms.Same.apply))
    return event


SAME = {"transforms": "same", "transforms.same.type": "counting.Same"}


def test_a_step_whose_failure_may_pass_is_tried_again_in_place(
    worker: MemoryWorker, system: System, away: threading.Event
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **LETTERS, **{"errors.retry.timeout": "20000"})
    worker.wait_for(lambda: sink_report(worker).counts.retries >= 3, "further attempts")
    worker.wait_for(lambda: sink_report(worker).retrying_seconds > 0, "the report")
    assert committed(worker) == {}
    away.clear()
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    assert system.numbers == [1, 2, 3]
    assert "letters" not in worker.kafka.topics
    worker.wait_for(lambda: sink_report(worker).retrying_seconds == 0, "the report")


@pytest.mark.parametrize(("timeout", "least"), [("0", 0), ("400", 2)], ids=["at once", "in time"])
def test_it_fails_the_task_and_leaves_no_record_out_when_the_time_is_over(
    worker: MemoryWorker, system: System, away: threading.Event, timeout: str, least: int
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **LETTERS, **{"errors.retry.timeout": timeout})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert getattr(worker.error, "retry", None) == "timed", "it is started again"
    retries = sink_report(worker).counts.retries
    assert retries >= least
    assert bool(retries) == bool(least)
    assert committed(worker) == {}
    assert "letters" not in worker.kafka.topics


def test_a_step_that_is_tried_without_end_ends_with_the_task(
    worker: MemoryWorker, system: System, away: threading.Event
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **{"errors.retry.timeout": "-1"})
    worker.wait_for(lambda: sink_report(worker).counts.retries >= 1, "another attempt")
    worker.stop()
    assert committed(worker) == {}


@pytest.mark.parametrize("messages", ["true", "false"])
def test_the_log_of_a_record_that_is_left_out_has_its_time_if_asked_and_no_value(
    worker: MemoryWorker, system: System, messages: str
) -> None:
    system.refuses = 2
    produce(worker, 1, 3)
    with capture_logs() as logs:
        start(
            worker,
            **LETTERS,
            **{"errors.log.enable": "true", "errors.log.include.messages": messages},
        )
        worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    (line,) = (line for line in logs if line["event"].startswith("a record is left out"))
    assert line["place"] == "topic numbers, partition 0, offset 1"
    times = {"timestamp_ms": 1_700_000_000_000, "timestamp_type": "CreateTime"}
    assert {name: value for name, value in line.items() if name in times} == (
        times if messages == "true" else {}
    )
    assert "nobody may see" not in str(line)


def test_partitions_that_a_task_wants_paused_rest_also_through_its_failures(
    worker: MemoryWorker, system: System
) -> None:
    system.paused = {ZERO}
    start(worker)
    worker.wait_for(lambda: subscription(worker)._paused == {ZERO}, "the pause")
    produce(worker, 1, 2)
    produce(worker, 3, 3, partition=1)
    worker.wait_for(lambda: system.numbers == [3], "the other partition")
    system.busy.set()
    produce(worker, 4, 4, partition=1)
    worker.wait_for(lambda: subscription(worker)._paused == {ZERO, TopicPartition(TOPIC, 1)}, "a rest of all")
    system.busy.clear()
    worker.wait_for(lambda: system.numbers == [3, 4], "the other partition again")
    worker.wait_for(lambda: subscription(worker)._paused == {ZERO}, "the pause to stay")
    system.paused = set()
    worker.wait_for(lambda: system.numbers == [3, 4, 1, 2], "what had rested")


def test_a_task_works_without_records_and_may_be_busy_then(worker: MemoryWorker, system: System) -> None:
    start(worker)
    worker.wait_for(lambda: system.works > 1, "work without records")
    system.busy_works = 2
    worker.wait_for(lambda: system.busy_works == 0, "failures")
    before = system.works
    produce(worker, 1, 1)
    worker.wait_for(lambda: system.works > before and system.numbers == [1], "work and records again")
    assert not subscription(worker)._paused


def test_a_task_is_told_of_records_that_it_is_not_given(worker: MemoryWorker, system: System) -> None:
    inputs = worker.kafka.inputs
    inputs.produce(TOPIC, b'"k"', b"{not json")
    inputs.produce(TOPIC, b'"k"', b'{"number": 1}', headers=[("drop", b"yes")])
    produce(worker, 2, 2)
    drop = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "marked",
        "predicates": "marked",
        "predicates.marked.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
        "predicates.marked.name": "drop",
    }
    start(worker, **LETTERS, **drop)
    worker.wait_for(lambda: system.numbers == [2], "the record that is left")
    unread, dropped = system.left_out
    assert unread == LeftOut(ZERO, 0, None)
    assert (dropped.at, dropped.offset) == (ZERO, 1)
    assert dropped.record is not None
    assert dropped.record.value == {"number": 1}
