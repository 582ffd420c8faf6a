"""Records that nobody can use, put on a pipeline's topics by somebody who may write there, and the letters they must become."""

import json
import random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidings_stack.kafka import arrived

Place = tuple[str, int, int]
"""Topic, partition, offset."""

_EVENT: dict[str, Any] = {
    "before": None,
    "after": {"id": 1},
    "source": {"name": "x", "db": "x", "ts_ms": 1, "snapshot": "false", "sequence": None, "schema": "public", "table": "orders",
               "txId": 1, "lsn": 1},
    "transaction": {"id": "1:1", "total_order": 1, "data_collection_order": 1},
    "op": "c",
}  # fmt: skip
_PLAIN = json.dumps(_EVENT, separators=(",", ":")).encode()
KINDS = (
    b"no envelope",
    b"",
    b"\x00\x7f\xff\xff\xff a schema id that nobody has",
    b"\x07\x00\x00\x00\x01",
    _PLAIN[:-9],
    _PLAIN.replace(b'{"id":1}', b"[" * 5_000 + b"]" * 5_000),
    _PLAIN.replace(b'"total_order":1', b'"total_order":' + b"9" * 40),
    _PLAIN.replace(b'"sequence":null', b'"sequence":"[1]"'),
    b'{"schema":{"fields":[1]},"payload":' + _PLAIN + b"}",
    json.dumps({**_EVENT, "transaction": None}).encode(),
)


def spoil(bootstrap: str, topics: list[str], chance: random.Random, count: int) -> set[Place]:
    """Write some into random partitions; where those are that have arrived."""
    places: set[Place] = set()
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 10_000, "log_level": 0})

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            places.add((message.topic(), message.partition(), message.offset()))

    for _ in range(count):
        producer.produce(
            chance.choice(topics), chance.choice(KINDS), b"%d" % chance.randrange(99), on_delivery=delivered
        )
    producer.flush(15)
    return places


def letters(bootstrap: str, prefix: str) -> set[Place]:
    """What the dead letters that are committed are about, of every generation whose topics begin so."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "log_level": 0,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    found: set[Place] = set()
    try:
        names = consumer.list_topics(timeout=30).topics
        open_topics = {name for name in names if name.startswith(prefix) and name.endswith("dead-letters")}
        consumer.assign([TopicPartition(topic, 0, 0) for topic in open_topics])
        while open_topics:
            for message in arrived(consumer, 5):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        open_topics.discard(message.topic())
                        continue
                    raise KafkaException(error)
                headers = {name: value.decode() for name, value in message.headers() or ()}
                if "tidings_resolution" not in headers:
                    found.add(
                        (
                            headers["tidings_topic"],
                            int(headers["tidings_partition"]),
                            int(headers["tidings_offset"]),
                        )
                    )
    except KafkaException:
        pass  # a broker that is away; the next look may see more
    finally:
        consumer.close()
    return found
