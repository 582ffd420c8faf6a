"""What capture reads from a real broker."""

import os
import signal
import threading
import time
from typing import Any

import pytest

from tidings_connect.errors import BrokerError
from tidings_connect.kafka import producer as kafka
from tidings_connect.kafka.compacted_log import TopicTail
from tidings_connect.kafka.producer import AcknowledgedProducer, RecordProducer
from tidings_connect.kafka.topics import TopicAdmin, read_compacted
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_stack.provision.provider import Provider


def test_a_topic_that_is_just_being_created_is_waited_for(kafka_bootstrap: str, unique_name: str) -> None:
    settings = {"bootstrap.servers": kafka_bootstrap}

    def create() -> None:
        TopicAdmin(settings).ensure_topic(unique_name, partitions=2, replication_factor=1, config={})
        AcknowledgedProducer(settings).put_and_wait(unique_name, b"key", b"value")

    timer = threading.Timer(1.0, create)
    timer.start()
    found = read_compacted(settings, unique_name)
    timer.join()
    assert found in ({}, {b"key": b"value"})
    assert read_compacted(settings, unique_name) == {b"key": b"value"}


def test_a_broker_that_does_not_answer_is_not_taken_for_the_end_of_a_topic(
    stack: Provider, unique_name: str
) -> None:
    """librdkafka gives offset -1001 then, and no error: a worker that was cut off from its group started what it had long lost."""
    settings = {"bootstrap.servers": stack.kafka.url}
    pid = getattr(stack.kafka, "pid", None)
    if pid is None:
        pytest.skip("Kafka is not a process of this machine")
    TopicAdmin(settings).ensure_topic(unique_name, partitions=2, replication_factor=1, config={})
    tail = TopicTail(settings, [unique_name], lambda _: None, lambda _: None, lambda _: None)
    tail.start()
    try:
        tail.wait_end()
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(BrokerError, match="was not told in time"):
                tail.wait_end(1.0)
        finally:
            os.kill(pid, signal.SIGCONT)
        tail.wait_end()
    finally:
        tail.close()


def test_a_topic_that_never_comes_is_named(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_connect.kafka.topics._REQUEST_SECONDS", 0.5)
    with pytest.raises(BrokerError, match="no-such-topic"):
        read_compacted({"bootstrap.servers": kafka_bootstrap}, "no-such-topic")


@pytest.mark.parametrize(
    "make",
    [
        RecordProducer,
        AcknowledgedProducer,
        lambda settings: TransactionalProducer(settings, "id", on_wait=lambda: None),
    ],
)
def test_one_request_in_flight_unless_somebody_asks_for_more(
    monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """With more librdkafka may take a partition's first records for stored that were refused: `tests/faults/new_topics.py`,
    which needs minutes to see it, shows it with a real broker."""
    made: list[dict[str, Any]] = []

    class Producer:
        def __init__(self, settings: dict[str, Any], **_: object) -> None:
            made.append(settings)

        def produce(self) -> None: ...

    monkeypatch.setattr(kafka, "Producer", Producer)
    name = "max.in.flight.requests.per.connection"
    make({"bootstrap.servers": "nobody:1"})
    make({"bootstrap.servers": "nobody:1", name: "5"})
    assert [settings[name] for settings in made] == [1, "5"]


@pytest.mark.parametrize("chosen", [{}, {"linger.ms": "60000"}])
def test_records_are_hurried_unless_somebody_has_set_how_long_they_linger(
    kafka_bootstrap: str, unique_name: str, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str]
) -> None:
    monkeypatch.setitem(kafka._PRODUCER_DEFAULTS, "linger.ms", 60_000)
    settings = {"bootstrap.servers": kafka_bootstrap, **chosen}
    TopicAdmin(settings).ensure_topic(unique_name, partitions=1, replication_factor=1, config={})
    producer = RecordProducer(settings)
    producer.send(unique_name, [(b"key", b"value", None)])
    deadline = time.monotonic() + 20.0
    hurried = 0
    while producer.outstanding() and hurried < (100 if chosen else 100_000):
        assert time.monotonic() < deadline
        producer.hurry(time.monotonic())
        time.sleep(0.01)
        hurried += 1
    assert producer.outstanding() == (1 if chosen else 0)
    producer.abandon()


def test_records_that_wait_for_a_request_are_hurried_when_it_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How far a broker has come is said here: no real one waits to be asked between two instants."""
    flushed: list[int] = []

    class Producer:
        unacknowledged = 0

        def __init__(self, *_: object, **__: object) -> None: ...

        def __len__(self) -> int:
            return self.unacknowledged

        def produce(self, *_: object) -> None:
            Producer.unacknowledged += 1

        def flush(self, _seconds: float) -> int:
            flushed.append(self.unacknowledged)
            return self.unacknowledged

    monkeypatch.setattr(kafka, "Producer", Producer)
    producer = RecordProducer({"bootstrap.servers": "nobody:1"})
    assert not producer.hurry(9.0)
    producer.send("topic", [(b"1", b"", None)])
    assert not producer.hurry(10.000)
    producer.send("topic", [(b"2", b"", None), (b"3", b"", None)])
    assert producer.hurry(10.003), "they wait for the first one"
    assert flushed == [1]
    Producer.unacknowledged = 2
    assert not producer.hurry(10.003)
    assert flushed == [1, 2]
    assert not producer.hurry(10.006), "under way"
    assert flushed == [1, 2]
    assert not producer.hurry(10.009), "librdkafka's thread may have come too late"
    assert flushed == [1, 2, 2]
    Producer.unacknowledged = 0
    assert not producer.hurry(11.0)
    assert flushed == [1, 2, 2]
