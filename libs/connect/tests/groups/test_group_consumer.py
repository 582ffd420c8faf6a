"""Members of a group: partitions that go and come back, on a real broker; and what becomes of a commit that Kafka refuses amid
a rebalance. (There the mock is of librdkafka: the moment cannot be met at will.)"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_connect.data.subscription import Consumed, Reach, Subscribe, TopicPartition
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.group_consumer import GroupConsumer
from tidings_stack.waiting import wait_for

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Own:
    """The partitions of a member."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def assigned(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.partitions |= set(partitions)
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions -= set(partitions)

    lost = revoked


@pytest.mark.stack
def test_a_partition_that_went_while_it_was_paused_is_read_when_it_comes_back(
    kafka_bootstrap: str, unique_name: str
) -> None:
    topic = unique_name
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        made.result()
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    wanted = Subscribe(f"g-{topic}", "c", [topic], None, {"session.timeout.ms": "6000"}, 500)
    members = [Own(), Own()]
    settings = {"bootstrap.servers": kafka_bootstrap}
    first = GroupConsumer(settings, wanted, members[0])
    wait_for("the partitions", lambda: first.poll(0.1) == [] and members[0].partitions == both)
    first.pause(both)
    second = GroupConsumer(settings, wanted, members[1])

    def divided() -> bool:
        for each in (first, second):
            each.poll(0.1)
        return len(members[0].partitions) == len(members[1].partitions) == 1

    wait_for("a partition each", divided)
    first.resume(members[0].partitions)
    second.close()
    wait_for("both again", lambda: first.poll(0.1) == [] and members[0].partitions == both)
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    for partition in (0, 1):
        producer.produce(topic, b"x", partition=partition)
    producer.flush()
    read: list[Consumed] = []

    def come() -> bool:
        read.extend(first.poll(0.1))
        return {record.partition for record in read} == {0, 1}

    wait_for("a record of each", come, 30)
    first.close()


@pytest.mark.stack
def test_a_partition_of_which_nothing_is_fetched_is_behind(
    kafka_bootstrap: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_connect.kafka.group_consumer._ENDS_SECONDS", 1.0)
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(unique_name, b"x")
    producer.flush()
    wanted = Subscribe(f"g-{unique_name}", "c", [unique_name])
    own = Own()
    consumer = GroupConsumer({"bootstrap.servers": kafka_bootstrap}, wanted, own)
    at = TopicPartition(unique_name, 0)
    with monkeypatch.context() as fault:  # a broker that answers all but fetches cannot be had
        fault.setattr(GroupConsumer, "_fetched_end", lambda *_: -1)
        wait_for("the partition", lambda: consumer.poll(0) == [] and own.partitions == {at})
        assert consumer.reaches([at]) == {}
        wait_for("its reach", lambda: consumer.reaches([at]) == {at: Reach(1, 0)}, 15)
    wait_for("the record", lambda: [record.offset for record in consumer.poll(0.1)] == [0])
    assert consumer.reaches([at])[at].end == 1
    assert consumer._ends == {}
    consumer.close()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GroupConsumer]]:
    """A member whose commits are answered as a function says."""
    made: list[Any] = []

    def answer(commit: Callable[..., Any]) -> GroupConsumer:
        wanted = Subscribe("g", "c", [], lambda _: False, {}, 500)
        consumer = GroupConsumer({"bootstrap.servers": "127.0.0.1:1"}, wanted, None)  # type: ignore[arg-type]  # not used
        made.append(consumer._consumer)
        consumer._consumer = type("Answers", (), {"commit": staticmethod(commit)})()
        return consumer

    yield answer
    for each in made:
        each.close()


class Failed:
    """A partition of an answer; librdkafka's own cannot be given an error."""

    def __init__(self, place: Place, code: int) -> None:
        self.topic, self.partition, self.error = place.topic, place.partition, KafkaError(code)


def refused(code: int) -> Callable[..., Any]:
    def commit(**_: object) -> Any:
        raise KafkaException(KafkaError(code))

    return commit


@pytest.mark.parametrize("code", [KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION])
def test_a_commit_amid_a_rebalance_does_not_count(answering: Callable[..., GroupConsumer], code: int) -> None:
    assert list(answering(refused(code)).commit({ZERO: 5})) == []


def test_a_commit_that_is_refused_in_part_counts_for_the_others(
    answering: Callable[..., GroupConsumer],
) -> None:
    def commit(offsets: list[Place], **_: object) -> list[Place]:
        places = [Place(place.topic, place.partition, place.offset) for place in offsets]
        return [places[0], Failed(places[1], KafkaError.UNKNOWN_MEMBER_ID)]  # type: ignore[list-item]

    assert list(answering(commit).commit({ZERO: 5, ONE: 6})) == [ZERO]


def test_another_error_is_one(answering: Callable[..., GroupConsumer]) -> None:
    with pytest.raises(BrokerError):
        answering(refused(KafkaError.GROUP_AUTHORIZATION_FAILED)).commit({ZERO: 5})
