"""What a new group does not see: events that were published before its version of them was."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidings_client.errors import ClientError
from tidings_client.headers import read_headers

LOOKING: Final = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
"""Of a consumer that looks at one partition after the other: each question for a partition's ends waits behind the fetch of the one before."""
_SECONDS = 30.0


def unseen(settings: Mapping[str, Any], topic: str, others: Iterable[str]) -> str | None:
    """A sentence about the events that only older versions of a topic hold; None where there are none.

    Args:
        settings: of the consumer; its group is not joined, and commits nothing.
        topic: what the group reads from the beginning.
        others: topics of the event's older versions.

    Raises:
        ClientError: a topic cannot be read.
    """
    reader = Consumer({**settings, **LOOKING})
    try:
        begins = _first(reader, topic)
        for other in others:
            earlier = _first(reader, other)
            if earlier is None or (begins is not None and earlier[0] >= begins[0]):
                continue
            since = "holds nothing yet" if begins is None else f"begins with {begins[1]}"
            return (
                f"{topic} {since}, and {other} with {earlier[1]}: a new group gets none of what was published in between; "
                f"to have it, read {other} alone first, in the same group and with the same `seen`"
            )
    finally:
        reader.close()
    return None


def _first(reader: Consumer, topic: str) -> tuple[str, str] | None:
    """Sequence and time (as the events say them) of a topic's first event; None where it is empty."""
    firsts = []
    for number in reader.list_topics(topic, _SECONDS).topics[topic].partitions:
        message = _message(reader, topic, number)
        if message is not None:
            headers = dict(read_headers(message))
            firsts.append((_text(headers.get("ce_sequence")), _text(headers.get("ce_time"))))
    return min(firsts, default=None)


def _message(reader: Consumer, topic: str, partition: int) -> Message | None:
    low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), _SECONDS)
    if low >= high:
        return None
    reader.assign([TopicPartition(topic, partition, low)])
    while True:
        message = reader.poll(_SECONDS)
        if message is None:
            raise ClientError(f"kafka: {topic}/{partition} cannot be read")
        error = message.error()
        if error is None:
            return message
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            return None
        if error.fatal() or not error.retriable():
            raise ClientError(f"kafka: {error.name()}: {error.str()}")


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
