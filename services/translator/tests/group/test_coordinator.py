"""Committed offsets while nobody coordinates the group yet.

A new broker answers so for a moment, when the first of all groups is asked for; a broker that is warm cannot be made to.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Partition
from tidings_translator.kafka import offsets as module
from tidings_translator.kafka.offsets import Offsets

HERE = Partition("in", 0)
NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
Answer = Callable[[int], Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Offsets]]:
    """Offsets whose n-th request is answered by a function; its clock moves on only while it waits."""
    now = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    monkeypatch.setattr(module, "time", clock)
    made: list[Any] = []

    def make(answer: Answer) -> Offsets:
        offsets: Any = Offsets(KafkaAccess("127.0.0.1:1"), "g")
        made.append(offsets._stable)
        calls = iter(range(10_000))
        login = SimpleNamespace(kafka=KafkaAccess("127.0.0.1:1"), refused=None)
        offsets._stable = SimpleNamespace(
            committed=lambda _places, _seconds: answer(next(calls)), login=login, poll=lambda _seconds: None
        )
        return offsets  # type: ignore[no-any-return]

    yield make
    for consumer in made:
        consumer.close()


def place(offset: int, code: int | None = None) -> Any:
    """A partition of librdkafka's answer."""
    if code is None:
        return TopicPartition(HERE.topic, HERE.partition, offset)
    return SimpleNamespace(topic=HERE.topic, partition=HERE.partition, offset=offset, error=KafkaError(code))


@pytest.mark.parametrize("code", NOT_YET)
@pytest.mark.parametrize("by_partition", [False, True])
def test_it_is_asked_again(asked: Callable[[Answer], Offsets], code: int, by_partition: bool) -> None:
    def answer(call: int) -> list[Any]:
        if call == 2:
            return [place(7)]
        if by_partition:
            return [place(-1, code)]
        raise KafkaException(KafkaError(code))

    assert asked(answer).committed([HERE]) == {HERE: 7}


def test_it_is_an_error_after_a_while(asked: Callable[[Answer], Offsets]) -> None:
    calls = []

    def answer(call: int) -> list[Any]:
        calls.append(call)
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))

    with pytest.raises(
        BrokerError, match=r"the committed offsets of group g cannot be read.*NOT_COORDINATOR"
    ):
        asked(answer).committed([HERE])
    assert len(calls) > 10


def test_another_error_is_told_at_once(asked: Callable[[Answer], Offsets]) -> None:
    def answer(call: int) -> list[Any]:
        assert call == 0
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        asked(answer).committed([HERE])
