"""Asks Kafka which consumer groups read given topics, how far they are, and whether anybody is in them.

The second module of the translator that speaks Kafka's admin protocol (`kafka` is the first). What it cannot see are
readers without committed offsets, such as a Spark job with offsets of its own.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from tidings_service import Retry
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Partition
from tidings_translator.kafka.clients import KafkaAdmin, KafkaConsumer, broken
from tidings_translator.kafka.offsets import partition_ends
from tidings_translator.readers.versions import Reader

_REQUEST_SECONDS = 10.0
_NEVER_SECONDS = 3600.0
"""What librdkafka is told: a request to a coordinator that has timed out there, and is answered after all, ends the process
(2.16). So patience ends here, and the request is dropped together with its client."""
_LOOK_BACK_RECORDS = 32
"""Before a committed offset stand control records, which are never delivered; this far back there is surely a record."""


class Readers:
    """The consumer groups of a Kafka cluster."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka
        self._admin = self._new_admin()

    def _new_admin(self) -> KafkaAdmin:
        return KafkaAdmin(self._kafka)

    def of(self, topics: Mapping[str, int]) -> list[Reader]:
        """Who reads.

        Args:
            topics: the topics with the number of their partitions.

        Raises:
            BrokerError: Kafka is away, or does not let us describe groups.
        """
        try:
            positions = self._positions(topics)
            states = self._states({group for group, _ in positions})
        except KafkaException as error:
            raise broken(error, "the consumer groups cannot be listed") from error
        partitions = {Partition(topic, number) for _, topic in positions for number in range(topics[topic])}
        ends = partition_ends(self._admin, partitions)
        starts = partition_ends(self._admin, partitions, first=True)
        readers = []
        for (group, topic), committed in sorted(positions.items()):
            state, members = states[group]
            behind = sum(
                max(0, ends[Partition(topic, number)] - committed.get(number, 0))
                for number in range(topics[topic])
            )
            distances = [
                offset - start
                for number, offset in committed.items()
                if (start := starts[Partition(topic, number)]) > 0
            ]
            distance = min(distances, default=None)
            readers.append(Reader(group, topic, state, members, behind, committed, distance))
        return readers

    def read_until_ms(self, reader: Reader) -> int | None:
        """The time of the last record that a group has behind it, milliseconds since 1970; None where there is none.

        Raises:
            BrokerError: Kafka is away.
        """
        # Each question for a partition's ends waits behind the fetch of the partition before.
        looking = {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}
        consumer = KafkaConsumer(self._kafka, "tidings-readers", looking)
        newest: int | None = None
        try:
            for number, offset in reader.positions.items():
                found = self._time_before(consumer, reader.topic, number, offset)
                if found is not None and (newest is None or found > newest):
                    newest = found
        except KafkaException as error:
            raise broken(error, f"{reader.topic} cannot be read", consumer) from error
        finally:
            consumer.close()
        return newest

    def _time_before(self, consumer: Consumer, topic: str, number: int, offset: int) -> int | None:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_REQUEST_SECONDS)
        position = max(low, offset - _LOOK_BACK_RECORDS)
        if position >= offset:
            return None
        consumer.assign([TopicPartition(topic, number, position)])
        newest, deadline = None, time.monotonic() + _REQUEST_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None or message.error() is not None:
                if message is None and consumer.position([TopicPartition(topic, number)])[0].offset >= offset:
                    break
                continue
            if (message.offset() or 0) >= offset:
                break
            newest = message.timestamp()[1]
            if message.offset() == offset - 1:
                break
        return newest

    def _positions(self, topics: Mapping[str, int]) -> dict[tuple[str, str], dict[int, int]]:
        """Committed offsets by partition, by group and topic."""
        listed = self._admin.list_consumer_groups(request_timeout=_REQUEST_SECONDS).result()
        futures: list[Future[Any]] = [
            self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group.group_id)], request_timeout=_NEVER_SECONDS
            )[group.group_id]
            for group in listed.valid
        ]
        found: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for result in self._answers(futures):
            for one in result.topic_partitions or ():
                if one.topic in topics and one.offset >= 0:
                    found[result.group_id, one.topic][one.partition] = one.offset
        return dict(found)

    def _states(self, groups: Iterable[str]) -> dict[str, tuple[str, int]]:
        """State and number of members by group."""
        names = sorted(groups)
        if not names:
            return {}
        futures = self._admin.describe_consumer_groups(names, request_timeout=_NEVER_SECONDS)
        described = dict(zip(futures, self._answers(futures.values()), strict=True))
        return {name: (one.state.name.lower(), len(one.members)) for name, one in described.items()}

    def _answers(self, futures: Iterable[Future[Any]]) -> list[Any]:
        """What coordinators say.

        Raises:
            BrokerError: one does not answer.
        """
        deadline = time.monotonic() + _REQUEST_SECONDS
        try:
            return [future.result(max(0.0, deadline - time.monotonic())) for future in futures]
        except TimeoutError as error:
            self._admin = self._new_admin()
            raise BrokerError(
                f"the coordinators of the consumer groups have not answered in {_REQUEST_SECONDS:.0f} seconds",
                retry=Retry.TIMED,
            ) from error
