"""What becomes of a commit that Kafka refuses amid a rebalance. (The mock is of librdkafka: the moment cannot be met at will.)"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from tidings_connect.data.subscription import Subscribe, TopicPartition
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.group_consumer import GroupConsumer

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


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
