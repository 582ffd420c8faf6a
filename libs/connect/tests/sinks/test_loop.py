"""A sink task's loop beyond the contract: a system that is busy, positions of its own, records it cannot write."""

from collections.abc import Collection, Mapping

import pytest
from sink_loop_parts import LETTERS, TOPIC, ZERO, System, committed, produce, sink_report, start, subscription
from structlog.testing import capture_logs

from tidings_connect.errors import OffsetError, OptionError, RecordError
from tidings_connect.task.sink import LeftOut, RetriableError, SlowError, TopicPartition
from tidings_connect.testing.memory_group import MemorySubscription
from tidings_connect.testing.memory_worker import MemoryWorker


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


def test_a_system_may_say_how_long_it_is_to_be_left_alone(worker: MemoryWorker, system: System) -> None:
    """Longer or shorter than the options of retries say."""
    system.errors = [RetriableError("busy", after_seconds=seconds) for seconds in (0.15, 0)]
    produce(worker, 1, 3)
    with capture_logs() as logs:
        start(worker)
        worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    assert [line["seconds"] for line in logs if line["event"].startswith("a sink is busy")] == [0.15, 0]


def test_a_slow_system_gets_the_batch_again_at_once_and_is_not_busy(
    worker: MemoryWorker, system: System
) -> None:
    """Although it was before; nothing more is read meanwhile."""
    slow = SlowError("two of three")
    system.errors = [RetriableError("busy", after_seconds=0), *[slow] * 3]
    produce(worker, 1, 3)
    with capture_logs() as logs:
        start(worker)
        worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
        produce(worker, 4, 4)
        worker.wait_for(lambda: committed(worker) == {0: 4}, "the next commit")
    assert system.tried == [[1, 2, 3]] * 5 + [[4]]
    assert len([line for line in logs if line["event"].startswith("a sink is busy")]) == 1
    assert len([line for line in logs if line["event"].startswith("a sink is slow")]) == 3
    worker.wait_for(lambda: sink_report(worker).counts.retries == 1, "the report")
    assert sink_report(worker).retrying_seconds == 0


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


def test_a_transform_knows_where_a_sink_s_record_stands(worker: MemoryWorker, system: System) -> None:
    produce(worker, 5, 7)
    insert = {
        "transforms": "where",
        "transforms.where.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.where.offset.field": "number",
    }
    start(worker, **insert)
    worker.wait_for(lambda: system.numbers == [0, 1, 2], "the offsets in place of the numbers")


def test_a_commit_that_comes_amid_a_rebalance_is_made_again(
    worker: MemoryWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions may stay this task's, and nothing may follow for days."""
    accepts, refused = MemorySubscription.commit, []

    def commit(
        member: MemorySubscription, offsets: Mapping[TopicPartition, int]
    ) -> Collection[TopicPartition]:
        if len(refused) < 2:
            refused.append(offsets)
            return ()
        return accepts(member, offsets)

    monkeypatch.setattr(MemorySubscription, "commit", commit)
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: committed(worker) == {0: 3}, "a later commit")
    assert len(refused) == 2
    assert sink_report(worker).counts.commit_failures == 2
