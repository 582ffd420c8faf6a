"""Topics of a schedule: they are made, and how far they have been written."""

from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create_topics(bootstrap: str, name: str, tables: Iterable[str], partitions: int) -> None:
    """Make a source's transaction topic, and those of tables, which are named as behind its name."""
    topics = [NewTopic(f"{name}.{table}", partitions, 1) for table in tables]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([*topics, NewTopic(f"{name}.transaction", 1, 1)]).values():
        made.result(60)


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
