"""How far topics have been written."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, TopicPartition


def ends(bootstrap: str, counts: Callable[[str], bool]) -> int:
    """How far the topics that count have been written; 0 while the broker is away."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "verdict", "log_level": 0})
    try:
        topics = consumer.list_topics(timeout=10).topics
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
            for topic in topics
            if counts(topic)
            for partition in topics[topic].partitions
        )
    except KafkaException:
        return 0
    finally:
        consumer.close()
