"""How far a sink's consumer group has come, in Kafka Connect's form: partition ``{"kafka_topic","kafka_partition"}``, offset
``{"kafka_offset"}``. Blocks on Kafka; offsets are changed only while the group has no members."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tidings_connect.errors import BrokerError, OptionError
from tidings_connect.kafka.clients import AdminClient
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, describe_failure

_REQUEST_SECONDS: Final = 15.0
_LEAVING_SECONDS: Final = 10.0
"""How long members are waited for: a consumer that was closed has gone before the brokers know it."""
_LOOK_SECONDS: Final = 0.2
_HAS_MEMBERS: Final = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"})
"""How brokers refuse to change the offsets of a group with members."""
_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"

Entry = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
_Place = tuple[str, int]


def understood(entries: Iterable[Entry]) -> dict[_Place, int | None]:
    """What entries ask for.

    Raises:
        OptionError: one is none of a sink's; says what is wrong.
    """
    return dict(_understood(partition, offset) for partition, offset in entries)


class GroupOffsets:
    """The offsets of one group.

    Args:
        settings: librdkafka's.
    """

    def __init__(self, settings: Mapping[str, Any], group: str) -> None:
        self._group = group
        self._admin = AdminClient({**settings, "socket.timeout.ms": 10_000}, logger=LIBRDKAFKA_LOG)

    def read(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Partitions and offsets, in order; none of a group that there is not.

        Raises:
            BrokerError: Kafka does not tell.
        """
        return [
            ({_TOPIC: topic, _PARTITION: partition}, {_OFFSET: offset})
            for (topic, partition), offset in sorted(self._stored().items())
        ]

    def alter(self, entries: Iterable[Entry]) -> None:
        """Store offsets; None deletes one.

        Raises:
            OptionError: an entry is none of a sink's; says what is wrong.
            BrokerError: Kafka refused, because the group has members for one.
        """
        wanted = understood(entries)
        stored = self._stored()
        if any(offset is None and place in stored for place, offset in wanted.items()):
            # There is no request for single ones: all are deleted, and those that stay are stored again.
            self.reset()
            wanted = {**stored, **wanted}
        left = {place: offset for place, offset in wanted.items() if offset is not None}
        if left:
            places = [TopicPartition(*place, offset) for place, offset in left.items()]
            asked = ConsumerGroupTopicPartitions(self._group, places)
            self._changed(
                lambda: self._admin.alter_consumer_group_offsets([asked], request_timeout=_REQUEST_SECONDS)
            )

    def reset(self) -> None:
        """Delete all.

        Raises:
            BrokerError: Kafka refused, because the group has members for one.
        """
        try:
            self._changed(
                lambda: self._admin.delete_consumer_groups([self._group], request_timeout=_REQUEST_SECONDS)
            )
        except _NoGroupError:
            return

    def _stored(self) -> dict[_Place, int]:
        asked = ConsumerGroupTopicPartitions(self._group)
        try:
            found = self._done(
                self._admin.list_consumer_group_offsets([asked], request_timeout=_REQUEST_SECONDS)
            )
        except _NoGroupError:
            return {}
        return {(p.topic, p.partition): p.offset for p in found.topic_partitions or () if p.offset >= 0}

    def _changed(self, ask: Callable[[], Mapping[Any, Any]]) -> None:
        """Ask for a change until it is made; not for long, as members may be there to stay."""
        deadline = time.monotonic() + _LEAVING_SECONDS
        while True:
            try:
                self._done(ask())
            except BrokerError as error:
                if error.kafka_code not in _HAS_MEMBERS or time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _done(self, asked: Mapping[Any, Any]) -> Any:
        (future,) = asked.values()
        try:
            found = future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                raise _NoGroupError from None
            raise describe_failure(f"the offsets of consumer group {self._group}", error) from error
        for place in getattr(found, "topic_partitions", None) or ():
            if place.error is not None:
                raise describe_failure(
                    f"the offset of topic {place.topic}, partition {place.partition}", place.error
                )
        return found


class _NoGroupError(Exception):
    """There is no such group."""


def _understood(
    partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
) -> tuple[_Place, int | None]:
    """In Kafka Connect's words where it has any (``SinkUtils.parseSinkConnectorOffsets``)."""
    if partition is None:
        raise OptionError("The partition for a sink connector offset cannot be null or missing")
    for key in (_TOPIC, _PARTITION):
        if partition.get(key) is None:
            raise OptionError(f"The partition for a sink connector offset must contain the key '{key}'")
    number = _whole(partition[_PARTITION], "Partition values for sink connectors need to be integers")
    place = str(partition[_TOPIC]), number
    if offset is None:
        return place, None
    if offset.get(_OFFSET) is None:
        raise OptionError(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
        )
    return place, _whole(offset[_OFFSET], "Offset values for sink connectors need to be integers")


def _whole(value: Any, problem: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise OptionError(problem)
    return int(text)
