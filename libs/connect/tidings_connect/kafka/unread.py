"""Whether a consumer group has read its topics up to certain ends. Blocks on Kafka.

A group's offset may stay below the end of a partition for good: behind its last record there may be markers of transactions, and
records of transactions that were aborted, which no consumer is given. So who is below an end is asked whether a record is between.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as Place

from tidings_connect.data.subscription import TopicPartition
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import Consumer
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, describe_failure
from tidings_connect.kafka.topics import ends_of, partitions_of
from tidings_service import Retry

_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 30.0
_GROUP: Final = "tidings-unread"
"""Never joined: a consumer must have one."""


class TopicEnds:
    """The ends of topics, and what is before them.

    Args:
        settings: librdkafka's.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def ends(self, topics: Iterable[str], matches: Callable[[str], bool] | None) -> dict[TopicPartition, int]:
        """Where the partitions of topics end now: before the first transaction that is open.

        Args:
            matches: whether a topic is one of them, where no names are given.

        Raises:
            BrokerError: Kafka does not tell, or has no such topic.
        """
        consumer = self._consumer()
        try:
            names = list(topics)
            if matches is not None:
                names += [name for name in consumer.list_topics(timeout=_SECONDS).topics if matches(name)]
            return {
                TopicPartition(name, partition): end
                for name in names
                for partition, end in ends_of(
                    self._settings, name, partitions_of(consumer, name), IsolationLevel.READ_COMMITTED
                ).items()
            }
        except KafkaException as error:
            raise describe_failure("the ends of the topics", error) from error
        finally:
            consumer.close()

    def unread(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """How many records, at most, are between offsets and ends; without the partitions that have none there.

        Args:
            offsets: where a group goes on; a partition that is absent was not begun.

        Raises:
            BrokerError: Kafka does not tell.
        """
        behind = {at: end for at, end in ends.items() if offsets.get(at, 0) < end}
        if not behind:
            return {}
        consumer = self._consumer()
        try:
            consumer.assign([Place(*at, offsets.get(at, OFFSET_BEGINNING)) for at in behind])
            return self._with_records(consumer, offsets, behind)
        except KafkaException as error:
            raise describe_failure("what is still to be read", error) from error
        finally:
            consumer.close()

    def _with_records(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int], behind: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        waiting, found = dict(behind), dict[TopicPartition, int]()
        deadline = time.monotonic() + _LOOK_SECONDS
        while waiting:
            if time.monotonic() > deadline:
                at = next(iter(waiting))
                raise BrokerError(
                    f"topic {at.topic}, partition {at.partition} could not be read in {_LOOK_SECONDS:.0f} seconds",
                    retry=Retry.TIMED,
                )
            message = consumer.poll(0.5)
            if message is None:
                continue
            error, at = message.error(), TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
                raise KafkaException(error)
            end = waiting.pop(at, None)
            if error is None and end is not None and int(message.offset() or 0) < end:
                found[at] = end - offsets.get(at, 0)
        return found

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self._settings,
                "group.id": _GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            },
            logger=LIBRDKAFKA_LOG,
        )
