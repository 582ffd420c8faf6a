"""Topics in Kafka: reading one whole, creating one, and the topic that signals come from. Settings are librdkafka's."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import AdminClient, Consumer
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, describe_failure
from tidings_connect.kafka.topic_creation import TopicGroup
from tidings_service import Retry

_REQUEST_SECONDS: Final = 15.0
_READ_SECONDS: Final = 90.0
"""Longer than a transaction that was left open lasts (``transaction.timeout.ms``, a minute)."""
_LOOK_AGAIN_SECONDS: Final = 0.1
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NOT_THERE_YET: Final = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the metadata was newer than the broker that was asked
        KafkaError.FENCED_LEADER_EPOCH,
    )
)
"""What a broker says of a topic that it is just about to create."""
_DENIED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_OF_SECURITY: Final = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})


def read_compacted(settings: Mapping[str, Any], topic: str) -> dict[bytes, bytes]:
    """The last committed value of every key of a compacted topic, read to its end; deleted keys are left out.

    A transaction that somebody has left open in the topic hides what was committed after it began: waits for its end.

    Raises:
        BrokerError: the topic cannot be read.
    """
    consumer = Consumer(
        {
            **settings,
            "group.id": "tidings-capture-storage",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # The end is only told by a fetch that finds nothing, and the default lets that one wait for half a second.
            "fetch.wait.max.ms": 10,
        },
        logger=LIBRDKAFKA_LOG,
    )
    try:
        waiting = partitions_of(consumer, topic)
        return _read_to_end(
            consumer, topic, ends_of(settings, topic, waiting, IsolationLevel.READ_UNCOMMITTED)
        )
    except KafkaException as error:
        raise describe_failure(f"cannot read {topic}", error, f"Read on topic {topic}") from error
    finally:
        consumer.close()


def partitions_of(consumer: Consumer, topic: str) -> set[int]:
    """A topic's partitions. A broker that has created a topic says for a moment that there is none."""
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        metadata = consumer.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
        if metadata.error is None:
            return set(metadata.partitions)
        if metadata.error.code() not in NOT_THERE_YET or time.monotonic() > deadline:
            raise KafkaException(metadata.error)
        time.sleep(_LOOK_AGAIN_SECONDS)


def told_offset(future: Future[Any]) -> int:
    """The answer of `AdminClient.list_offsets` for a partition. Where a broker does not answer in time, librdkafka's answer is
    an offset below 0, and no error: every place would be behind it.

    Raises:
        KafkaException: there is no answer.
    """
    offset: int = future.result().offset
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "where a partition ends was not told in time"))  # noqa: SLF001 - librdkafka's own name
    return offset


def ends_of(
    settings: Mapping[str, Any], topic: str, partitions: set[int], isolation: IsolationLevel
) -> dict[int, int]:
    """Where a topic's partitions end: behind every record, or READ_COMMITTED: before the first transaction that is open."""
    admin = AdminClient({**settings, "socket.timeout.ms": 10_000}, logger=LIBRDKAFKA_LOG)
    wanted = {TopicPartition(topic, partition): _LATEST for partition in partitions}
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        asked = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_REQUEST_SECONDS)
        try:
            return {place.partition: told_offset(future) for place, future in asked.items()}
        except KafkaException as error:
            if error.args[0].code() not in NOT_THERE_YET or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def _read_to_end(consumer: Consumer, topic: str, ends: Mapping[int, int]) -> dict[bytes, bytes]:
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in sorted(ends)])
    waiting = set(ends)
    found: dict[bytes, bytes] = {}
    deadline = time.monotonic() + _READ_SECONDS
    while waiting:
        if time.monotonic() > deadline:
            raise BrokerError(
                f"cannot read {topic}: its end was not reached in {_READ_SECONDS:.0f} seconds",
                hint="a producer that died may have left a transaction open: it ends after transaction.timeout.ms",
                retry=Retry.TIMED,
            )
        for message in arrived(consumer, 500, 0.5):
            error = message.error()
            if error is None:
                _apply(found, message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
                # Of what is committed: it comes again when a transaction that was open has ended.
                partition, offset = message.partition(), message.offset()
                if partition is not None and offset is not None and offset >= ends[partition]:
                    waiting.discard(partition)
            elif error.code() not in NOT_THERE_YET:
                raise KafkaException(error)
    return found


def arrived(consumer: Consumer, most: int, seconds: float) -> list[Message]:
    """Up to `most` messages that are here; waits `seconds` at most for the first. `consume` alone would wait for `most`."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def _apply(found: dict[bytes, bytes], message: Message) -> None:
    key, value = message.key(), message.value()
    if not isinstance(key, bytes):
        return
    if isinstance(value, bytes):
        found[key] = value
    else:
        found.pop(key, None)


class TopicAdmin:
    """Looks at the cluster and creates topics."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._servers = str(settings.get("bootstrap.servers"))
        self._trouble = ""
        config: dict[str, Any] = {**settings, "socket.timeout.ms": 10_000, "error_cb": self._heard}
        self._admin = AdminClient(config, logger=LIBRDKAFKA_LOG)

    def check_reachable(self, seconds: float = 10.0) -> str:
        """The cluster's id.

        Raises:
            BrokerError: no broker answered; names bootstrap.servers.
        """
        try:
            metadata = self._admin.list_topics(timeout=seconds)
        except KafkaException as error:
            self._admin.poll(0)  # hears why
            raise BrokerError(
                f"no Kafka broker answers at bootstrap.servers={self._servers}{self._trouble}",
                hint="check bootstrap.servers in the worker's properties, and that the broker is up; where it asks for "
                "them, security.protocol, sasl.* and ssl.*",
            ) from error
        return str(metadata.cluster_id)

    def _heard(self, error: KafkaError) -> None:
        # A broker that misses a client's certificate closes the connection: only the words tell.
        if error.name() in _OF_SECURITY or "SSL" in error.str():
            self._trouble = f" ({error.str()})"

    def ensure_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str],
        setting: str = "",
    ) -> bool:
        """Create a topic unless it exists; whether it was created.

        Args:
            setting: the setting that asks for the topic, for the message when Kafka refuses.

        Raises:
            BrokerError: Kafka refused to create it.
        """
        wanted = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config)
        )
        (future,) = self._admin.create_topics([wanted], request_timeout=_REQUEST_SECONDS).values()
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            asked = f" for {setting}" if setting else ""
            raise describe_failure(
                f"cannot create topic {name}{asked}", error, f"Create on topic {name}"
            ) from error
        return True

    def topics(self) -> set[str]:
        """The topics that exist, as far as this client may see them.

        Raises:
            BrokerError: no broker answered.
        """
        try:
            found = self._admin.list_topics(timeout=_REQUEST_SECONDS).topics
        except KafkaException as error:
            raise describe_failure("cannot list topics", error) from error
        return {name for name, topic in found.items() if topic.error is None}

    def create_topics(self, topics: Mapping[str, TopicGroup]) -> set[str]:
        """Ask for many topics in one request; those that exist then. Of the others `ensure_topic` says why they do not."""
        wanted = [
            NewTopic(name, group.partitions, group.replication_factor, config=dict(group.config))
            for name, group in topics.items()
        ]
        asked = self._admin.create_topics(wanted, request_timeout=_REQUEST_SECONDS)
        found = set()
        for name, future in asked.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
            found.add(name)
        return found


class SignalConsumer:
    """Reads the signals topic, partition 0, from where its group has come; nothing counts as read before `commit`."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        client = {
            "group.id": "kafka-signal",
            "auto.offset.reset": "earliest",
            **settings,
            "enable.auto.commit": False,
        }
        self._group = client["group.id"]
        self._consumer = Consumer(client, logger=LIBRDKAFKA_LOG)
        self._consumer.assign([TopicPartition(topic, 0)])
        self._last: Message | None = None

    def poll(self) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of what has arrived; never waits for more.

        Raises:
            BrokerError: the topic cannot be read, or a right is missing.
        """
        found = []
        for message in self._consumer.consume(100, timeout=0.05):
            error = message.error()
            if error is None:
                self._last = message
                found.append((message.key(), message.value()))
            elif error.fatal() or error.code() in _DENIED:
                raise describe_failure(f"cannot read {self._topic}", error, self._right(error))
        return found

    def commit(self) -> None:
        """What `poll` gave need not be given again.

        Raises:
            BrokerError: Kafka refused.
        """
        if self._last is None:
            return
        last, self._last = self._last, None
        try:
            self._consumer.commit(message=last, asynchronous=False)
        except KafkaException as error:
            right = self._right(error.args[0])
            raise describe_failure(f"cannot commit on {self._topic}", error, right) from error

    def _right(self, error: KafkaError) -> str:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return f"Read on group {self._group}"
        return f"Read on topic {self._topic}"

    def close(self) -> None:
        self._consumer.close()
