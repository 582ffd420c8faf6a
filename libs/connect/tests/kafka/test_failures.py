"""Which of Kafka's errors another attempt can cure."""

import pytest
from confluent_kafka import KafkaError

from tidings_connect.kafka.producer import describe_failure
from tidings_service import Retry

STARTING = "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log directories cordoned."
TOO_MANY = "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."


@pytest.mark.parametrize(("told", "retry"), [(STARTING, Retry.TIMED), (TOO_MANY, Retry.NEVER)])
def test_a_cluster_that_starts_can_hold_no_topic_yet(told: str, retry: Retry) -> None:
    """The first text is what Kafka 4.3.1 said right behind a restart of its only broker."""
    error = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, told)
    found = describe_failure("cannot create topic shop.transaction", error)
    assert (found.retry, found.kafka_code) == (retry, "INVALID_REPLICATION_FACTOR")
    assert ("starting" in str(found.hint)) == (retry is Retry.TIMED)
