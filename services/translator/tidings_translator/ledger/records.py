"""Reads the ledger as it grows, writes it for the command, and removes a generation's topics and groups.

The command writes the ledger with a transactional id of its own, so that of two commands at a time the later one fences the
earlier: what a command has read is still true when it writes. All calls block and are meant for threads.
"""

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)

from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES
from tidings_envelope.headers.reading import read_headers
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError, GenerationError
from tidings_translator.base.naming import ledger_topic
from tidings_translator.base.records import Headers, Output, Partition
from tidings_translator.kafka.clients import KafkaAdmin, KafkaConsumer, KafkaProducer, broken
from tidings_translator.kafka.offsets import partition_ends
from tidings_translator.kafka.reading import arrived, know_leaders, read_partition
from tidings_translator.ledger.ledger import Ledger

_REQUEST_SECONDS = 30.0
_CATCH_UP_SECONDS = 60.0
_FEW_OFFSETS = 32
"""Between a group's offset and the end of a partition: so few are looked at one by one."""
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - its public name
}


class LedgerReader:
    """Reads the ledger from its beginning and follows it; committed records only."""

    def __init__(self, kafka: KafkaAccess, source: str) -> None:
        self.ledger = Ledger()
        self._kafka = kafka
        self._partition = Partition(ledger_topic(source), 0)
        self._admin = KafkaAdmin(kafka)
        self._follower: KafkaConsumer | None = None
        self._position = 0
        """The offset of the next record to take in."""

    def poll(self, timeout_seconds: float = 0.0) -> bool:
        """Take in what has come; whether there was anything.

        Raises:
            BrokerError: it cannot be read.
        """
        found = False
        try:
            while messages := arrived(self._following(), 500, timeout_seconds):
                for message in messages:
                    error = message.error()
                    if error is None:
                        found = self._take(message.key(), message.value()) or found
                        self._position = (message.offset() or 0) + 1
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                        self._position = max(self._position, message.offset() or 0)
                    elif error.fatal() or not (error.retriable() or error.code() in _GONE):
                        raise broken(KafkaException(error), f"{self._partition} cannot be read", self._admin)
        except KafkaException as error:
            raise broken(error, f"{self._partition} cannot be read", self._admin) from error
        return found

    def catch_up(self) -> Ledger:
        """The ledger with everything that was committed before this call; transactions under way are waited for.

        Raises:
            BrokerError: Kafka is away, or a transaction does not end.
        """
        end = partition_ends(self._admin, [self._partition])[self._partition]
        if self._position < end:
            # Not by the follower: half a second passes before it knows the leader, and another before it is told of the end.
            for key, value, _ in read_partition(
                self._kafka, self._partition, end, start=self._position, stall_seconds=_CATCH_UP_SECONDS
            ):
                self._take(key, value)
            self._position = end
            if self._follower is not None:
                self._follower.assign([self._place()])
        return self.ledger

    def close(self) -> None:
        """Leave Kafka."""
        if self._follower is not None:
            self._follower.close()

    def _take(self, key: bytes | None, value: bytes | None) -> bool:
        if key is None or value is None:
            return False
        self.ledger.load(key, value)
        return True

    def _following(self) -> KafkaConsumer:
        if self._follower is None:
            self._follower = KafkaConsumer(
                self._kafka, "tidings-ledger", {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
            )
            self._follower.assign([self._place()])
        return self._follower

    def _place(self) -> TopicPartition:
        return TopicPartition(self._partition.topic, 0, self._position or OFFSET_BEGINNING)


class LedgerWriter:
    """A command's turn at the ledger; a context manager. A later command's turn ends this one.

    Raises:
        BrokerError: Kafka is away.
    """

    def __init__(self, kafka: KafkaAccess, source: str) -> None:
        self._topic = ledger_topic(source)
        self._producer = KafkaProducer(
            kafka,
            {
                "transactional.id": f"tidings-generations-{source}",
                "max.in.flight.requests.per.connection": 1,  # as the translator's, and so the partitioner
                "message.max.bytes": MAX_RECORD_BYTES,
                "partitioner": "murmur2_random",
            },
        )
        try:
            self._producer.init_transactions(_REQUEST_SECONDS)
        except KafkaException as error:
            raise broken(error, "the ledger of generations cannot be written", self._producer) from error

    def write(self, key: str, value: msgspec.Struct) -> None:
        """Write one record.

        Raises:
            GenerationError: another command has had its turn meanwhile; nothing is written.
            BrokerError: Kafka is away; whether it is written is not known.
        """
        self.publish([Output(self._topic, key.encode(), msgspec.json.encode(value), None, 0)])

    def publish(self, outputs: Iterable[Output]) -> None:
        """Write records in one Kafka transaction.

        Raises:
            GenerationError: another command has had its turn meanwhile; nothing is written.
            BrokerError: Kafka is away; whether they are written is not known.
        """
        try:
            self._producer.begin_transaction()
            for topic, name, value, headers, partition in outputs:
                self._producer.produce(topic, value, name, partition, headers=headers)  # type: ignore[arg-type]  # lists are invariant
            self._producer.commit_transaction(_REQUEST_SECONDS)
        except KafkaException as error:
            cause: Any = error.args[0]
            if cause.fatal() or cause.code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}:  # noqa: SLF001
                raise GenerationError(
                    "another command is changing this source's generations", hint="look at their status first"
                ) from error
            raise broken(error, "the ledger of generations cannot be written", self._producer) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.flush(0)


class GenerationAdmin:
    """Looks at and removes what belongs to generations."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka)

    def members(self, groups: Iterable[str]) -> dict[str, int]:
        """The number of members of each group that exists.

        Raises:
            BrokerError: Kafka is away, or does not let us describe groups.
        """
        found = {}
        try:
            futures = self._admin.describe_consumer_groups(list(groups), request_timeout=_REQUEST_SECONDS)
            for name, future in futures.items():
                try:
                    found[name] = len(future.result().members)
                except KafkaException as error:
                    if error.args[0].code() not in _GONE:
                        raise
        except KafkaException as error:
            raise broken(error, "consumer groups cannot be described", self._admin) from error
        return found

    def behind(self, group: str, topics: Mapping[str, int]) -> int:
        """Records between what a group has committed and the ends of its partitions.

        Where only a few offsets are between the two they are read, because they may be a transaction's control records,
        which nobody ever gets; of more than that control records count, too.

        Args:
            group: need not exist.
            topics: those that it certainly reads, with their partitions: from the beginning where nothing is committed.

        Raises:
            BrokerError: Kafka is away, or does not let us look at offsets.
        """
        committed = {Partition(topic, n): 0 for topic, count in topics.items() for n in range(count)}
        try:
            asked = [ConsumerGroupTopicPartitions(group)]
            future: Any = self._admin.list_consumer_group_offsets(asked, request_timeout=_REQUEST_SECONDS)[
                group
            ]
            for one in future.result().topic_partitions or ():
                if one.offset >= 0:
                    committed[Partition(one.topic, one.partition)] = one.offset
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                raise broken(error, f"the offsets of group {group} cannot be read", self._admin) from error
        ends = partition_ends(self._admin, committed)
        return sum(
            self._records(partition, offset, ends[partition])
            for partition, offset in committed.items()
            if ends[partition] > offset
        )

    def _records(self, partition: Partition, start: int, end: int) -> int:
        if end - start > _FEW_OFFSETS:
            return end - start
        return sum(1 for _ in read_partition(self._kafka, partition, end, start=start))

    def first_offsets(self, topics: Mapping[str, int]) -> dict[Partition, int]:
        """The first offset that each partition still has.

        Raises:
            BrokerError: Kafka is away.
        """
        consumer = KafkaConsumer(self._kafka, "tidings-ledger")
        found = {}
        try:
            for topic, partitions in topics.items():
                for number in range(partitions):
                    place = TopicPartition(topic, number)
                    low, _ = consumer.get_watermark_offsets(place, _REQUEST_SECONDS)
                    found[Partition(topic, number)] = low
        except KafkaException as error:
            raise broken(error, "the first offsets of topics cannot be read", consumer) from error
        finally:
            consumer.close()
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The id that tells a topic from one of the same name that was deleted.

        Raises:
            BrokerError: Kafka is away.
        """
        try:
            futures = self._admin.describe_topics(
                TopicCollection(list(topics)), request_timeout=_REQUEST_SECONDS
            )
            return {name: topic_id_text(future.result().topic_id) for name, future in futures.items()}
        except KafkaException as error:
            raise broken(error, "topics cannot be described", self._admin) from error

    def remove_groups(self, groups: Iterable[str]) -> list[str]:
        """Delete consumer groups; those that were there.

        Raises:
            BrokerError: Kafka is away, or one has members.
        """
        return self._remove(self._admin.delete_consumer_groups, list(groups), "consumer group")

    def remove_topics(self, topics: Iterable[str]) -> list[str]:
        """Delete topics; those that were there.

        Raises:
            BrokerError: Kafka is away, or refuses (``delete.topic.enable``).
        """
        return self._remove(self._admin.delete_topics, list(topics), "topic")

    def _remove(self, call: Any, names: list[str], what: str) -> list[str]:
        removed: list[str] = []
        if not names:
            return removed
        for name, future in call(names, request_timeout=_REQUEST_SECONDS).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() not in _GONE:
                    raise broken(error, f"{what} {name} cannot be deleted", self._admin) from error
            else:
                removed.append(name)
        return sorted(removed)


def topic_id_text(topic_id: Any) -> str:
    """A topic's id (a `confluent_kafka.Uuid`, for which there are no stubs) as Kafka's Java clients write it, and so Spark:
    base64 for URLs, without padding."""
    bits = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    raw = b"".join(part.to_bytes(8, "big", signed=True) for part in bits)
    return urlsafe_b64encode(raw).decode().rstrip("=")


def read_topic(
    kafka: KafkaAccess, topic: str, partitions: int
) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    """Key, value and headers of every committed record that a topic has now, partition by partition at the same pace.

    Raises:
        BrokerError: Kafka is away.
    """
    for _, message in read_partitions(kafka, [Partition(topic, number) for number in range(partitions)]):
        yield message.key(), message.value(), cast("Headers", list(read_headers(message)))


def read_partitions(
    kafka: KafkaAccess, partitions: Iterable[Partition]
) -> Iterator[tuple[Partition, Message]]:
    """Every committed record that these partitions have now, from all of them at the same pace.

    Raises:
        BrokerError: Kafka is away.
    """
    ends = partition_ends(KafkaAdmin(kafka), partitions)
    left = {partition for partition, end in ends.items() if end > 0}
    topics = ", ".join(sorted({partition.topic for partition in left}))
    consumer = KafkaConsumer(
        kafka,
        "tidings-ledger",
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # as in `read_partition`
        },
    )
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    try:
        for topic in {partition.topic for partition in left}:
            know_leaders(consumer, topic)
        consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in left])
        while left:
            for message in arrived(consumer, 2_000, 0.1):
                error, offset = message.error(), message.offset() or 0
                partition = Partition(message.topic() or "", message.partition() or 0)
                if error is None:
                    if offset < ends[partition]:
                        yield partition, message
                    position = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    position = offset
                else:
                    raise broken(KafkaException(error), f"{topics} cannot be read", consumer)
                if position >= ends[partition]:
                    left.discard(partition)
                deadline = time.monotonic() + _CATCH_UP_SECONDS
            if time.monotonic() > deadline:
                raise BrokerError(f"{topics} cannot be read to its end")
    except KafkaException as error:
        raise broken(error, f"{topics} cannot be read", consumer) from error
    finally:
        consumer.close()


def newest_value(kafka: KafkaAccess, partition: Partition, key: bytes) -> bytes | None:
    """The newest committed value under a key that is written often: it is looked for from the end, a window at a time.

    Raises:
        BrokerError: Kafka is away.
    """
    admin = KafkaAdmin(kafka)
    end = partition_ends(admin, [partition])[partition]
    window = 1_000
    while True:
        start = max(0, end - window)
        found = None
        for message_key, value, _ in read_partition(kafka, partition, end, start=start):
            if message_key == key:
                found = value
        if found is not None or start == 0:
            return found
        window *= 10
