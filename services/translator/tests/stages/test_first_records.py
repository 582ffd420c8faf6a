"""The first record of each partition, on a real Kafka."""

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Partition
from tidings_translator.kafka.reading import first_records

pytestmark = pytest.mark.stack
LARGE = b"l" * 300_000
"""More than is asked for at a time."""
MANY = 40


@pytest.fixture
def topic(kafka_bootstrap: str, unique_name: str) -> str:
    """Its partitions: records of a transaction that was aborted, then others; none; the first ones deleted; a large one;
    of an aborted transaction only; and many with two records each."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for future in admin.create_topics([NewTopic(unique_name, 5 + MANY, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique_name})
    producer.init_transactions(30)
    for committed in (False, True):
        producer.begin_transaction()
        for number in range(3):
            text = b"%d %d" % (committed, number)
            producer.produce(unique_name, text, b"key", 0, headers={"h": b"x"})
            if committed:
                producer.produce(unique_name, text, partition=2)
                producer.produce(unique_name, LARGE, partition=3)
                for partition in range(5, 5 + MANY):
                    producer.produce(unique_name, b"%d %d" % (partition, number), partition=partition)
            else:
                producer.produce(unique_name, text, partition=4)
        producer.flush(30)  # what is aborted is in the log
        (producer.commit_transaction if committed else producer.abort_transaction)(30)
    for deleted in admin.delete_records([TopicPartition(unique_name, 2, 2)]).values():
        deleted.result(30)
    return unique_name


def test_partitions_of_all_kinds(kafka_bootstrap: str, topic: str) -> None:
    starts = {Partition(topic, number): 0 for number in range(5 + MANY)} | {Partition(topic, 6): 1}
    found = first_records(KafkaAccess(kafka_bootstrap), starts)
    values = {place.partition: one.value for place, one in found.items()}
    expected = {number: b"%d 0" % number for number in range(5, 5 + MANY)}
    assert values == {0: b"1 0", 2: b"1 2", 3: LARGE} | expected | {6: b"6 1"}
    first = found[Partition(topic, 0)]
    assert (first.key, list(first.headers)) == (b"key", [("h", b"x")])


def test_no_partitions(kafka_bootstrap: str) -> None:
    assert first_records(KafkaAccess(kafka_bootstrap), {}) == {}


def test_partitions_that_say_nothing_are_named(kafka_bootstrap: str, unique_name: str) -> None:
    with pytest.raises(BrokerError, match=f"first records of 1 partitions, such as {unique_name}/0"):
        first_records(KafkaAccess(kafka_bootstrap), {Partition(unique_name, 0): 0}, timeout_seconds=1)
