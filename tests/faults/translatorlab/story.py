"""What the topics say of one order, from its rows to its events: for who has to explain a verdict."""

from collections.abc import Iterator
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidings_domain.changes import decode_change_set
from tidings_stack.kafka import arrived

_LINES = 60


def story(bootstrap: str, name: str, generation_prefix: str, order: str) -> list[str]:
    """The records about an order with their places: of the source's topic, of the change sets, of the business topics."""
    lines: list[str] = []
    for topic, place, offset, key, value in _records(bootstrap, name, generation_prefix):
        where = f"{topic}/{place}@{offset}"
        if topic == f"{name}.public.orders":
            said = _row(key, value, order)
        elif topic == f"{generation_prefix}.change-sets":
            said = _change_set(key, value, order)
        else:
            said = "event" if key == order.encode() else None
        if said is not None:
            lines.append(f"{where} {said}")
    return lines[-_LINES:]


def _row(key: bytes | None, value: bytes | None, order: str) -> str | None:
    try:
        row: dict[str, Any] = msgspec.json.decode(value or b"null")
        if row is None or (row["after"] or row["before"])["id"] != int(order):
            return None
    except (msgspec.DecodeError, ValueError, KeyError, TypeError):
        return None  # poison, or a record in Avro
    source = row["source"]
    told = {name: source.get(name) for name in ("lsn", "txId", "snapshot", "sequence")}
    return f"{row['op']} {told}"


def _change_set(key: bytes | None, value: bytes | None, order: str) -> str | None:
    if key != f"Order/{order}".encode() or value is None:
        return None
    try:
        made = decode_change_set(value)
    except Exception as error:  # noqa: BLE001 - poison
        return type(error).__name__
    rows = [f"{change.op} {change.table}" for change in made.rows]
    return f"{made.commit_lsn} txid {made.txid} snapshot {made.snapshot} {rows}"


def _records(
    bootstrap: str, name: str, generation_prefix: str
) -> Iterator[tuple[str, int, int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "story",
            "log_level": 0,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        topics = consumer.list_topics(timeout=60).topics
        ours = (f"{name}.public.orders", f"{generation_prefix}.change-sets")
        others = tuple(
            topic for topic in topics if topic.startswith(f"{name}.") and topic.rpartition(".v")[2].isdigit()
        )
        for topic in (*ours, *sorted(others)):
            for partition in topics[topic].partitions if topic in topics else ():
                consumer.assign([TopicPartition(topic, partition, 0)])
                over = False
                while not over:
                    found = arrived(consumer, 10.0)
                    over = not found
                    for message in found:
                        error = message.error()
                        if error is None:
                            yield topic, partition, message.offset(), message.key(), message.value()
                        elif error.code() == KafkaError._PARTITION_EOF:
                            over = True
    except KafkaException as error:
        yield "the story ends", 0, 0, None, str(error).encode()
    finally:
        consumer.close()
