"""A topic of one partition that keeps its records for ever and is read whole: what Debezium calls a schema history topic."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import Consumer
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, AcknowledgedProducer, describe_failure
from tidings_connect.kafka.topics import NOT_THERE_YET, TopicAdmin

_PARTITION: Final = 0
_REQUEST_SECONDS: Final = 15.0
_SILENT_SECONDS: Final = 60.0
_FOR_EVER: Final = {"cleanup.policy": "delete", "retention.ms": str((1 << 63) - 1), "retention.bytes": "-1"}
_BROKERS_DEFAULT: Final = -1


class SingleLog:
    """Appends to such a topic.

    Its records are not part of a Kafka transaction: whoever reads the topic up to its last offset would wait for ever behind a
    transaction's mark, which no consumer gets.

    Args:
        producer: librdkafka's settings for writing, at least ``bootstrap.servers``.
        consumer: the same for looking.
        setting: the option that names the topic, for messages.
    """

    def __init__(
        self, topic: str, producer: Mapping[str, Any], consumer: Mapping[str, Any], setting: str
    ) -> None:
        self._topic = topic
        self._settings = producer
        self._looking = consumer
        self._setting = setting
        self._producer: AcknowledgedProducer | None = None

    def ensure(self) -> None:
        """Create the topic where there is none.

        Raises:
            BrokerError: Kafka refused.
        """
        TopicAdmin(self._settings).ensure_topic(
            self._topic,
            partitions=1,
            replication_factor=_BROKERS_DEFAULT,
            config=_FOR_EVER,
            setting=self._setting,
        )

    def is_empty(self) -> bool:
        """Whether it holds no record, or is not there.

        Raises:
            BrokerError: it cannot be looked at.
        """
        consumer = self._consumer()
        try:
            first, end = self._bounds(consumer)
        finally:
            consumer.close()
        return first == end

    def values(self) -> Iterator[bytes]:
        """The values of all records that are there now, from the first on; none, where there is no topic.

        Raises:
            BrokerError: they cannot be read.
        """
        consumer = self._consumer()
        try:
            reached, end = self._bounds(consumer)
            if reached == end:
                return
            consumer.assign([TopicPartition(self._topic, _PARTITION, reached)])
            while reached < end:
                found = consumer.poll(_SILENT_SECONDS)
                if found is None or found.error() is not None:
                    raise _stopped(self._topic, reached, end, found)
                reached = (found.offset() or 0) + 1
                yield found.value() or b""
        except KafkaException as error:
            right = f"Read on topic {self._topic}"
            raise describe_failure(f"cannot read {self._topic}", error, right) from error
        finally:
            consumer.close()

    def _bounds(self, consumer: Consumer) -> tuple[int, int]:
        """The first offset and the one behind the last; the same where there is no topic."""
        try:
            metadata = consumer.list_topics(self._topic, timeout=_REQUEST_SECONDS).topics[self._topic]
            if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0, 0
            place = TopicPartition(self._topic, _PARTITION)
            first, end = consumer.get_watermark_offsets(place, timeout=_REQUEST_SECONDS)
        except KafkaException as error:
            if error.args[0].code() in NOT_THERE_YET:
                return 0, 0
            right = f"Describe on topic {self._topic}"
            raise describe_failure(f"cannot look at {self._topic}", error, right) from error
        return int(first), int(end)

    def _consumer(self) -> Consumer:
        return Consumer(
            {"group.id": "schema-history", **self._looking, "enable.auto.commit": False},
            logger=LIBRDKAFKA_LOG,
        )

    def append(self, value: bytes) -> None:
        """Write one record, without a key, and wait until Kafka has it.

        Raises:
            BrokerError: it was not acknowledged in time.
        """
        if self._producer is None:
            self._producer = AcknowledgedProducer(self._settings)
        self._producer.put_and_wait(self._topic, None, value, _PARTITION)


def _stopped(topic: str, reached: int, end: int, found: Message | None) -> BrokerError:
    error = found.error() if found is not None else None
    why = "nothing came" if error is None else error.str()
    return BrokerError(f"{topic} cannot be read: it stops at record {reached} of {end}: {why}")
