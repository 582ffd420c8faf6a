"""The one module that speaks to Kafka: a producer, the worker's compacted topics, and topic creation.

Delivery contract: `RecordProducer.send` only queues. Nothing counts as delivered before `flush` has returned True; any
record that Kafka refused for good makes the next call raise. librdkafka keeps the order within a partition
(``enable.idempotence``), sends one request at a time to each broker (more may lose a producer's first records in a
partition, see `_PRODUCER_DEFAULTS`), and partitions by murmur2 as Kafka's Java producer does. Settings are librdkafka's.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidings_capture.errors import BrokerError, hint_of_kafka, retry_of_kafka
from tidings_service import Retry

_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
_REQUEST_SECONDS: Final = 15.0
_READ_SECONDS: Final = 90.0
"""Longer than a transaction that was left open lasts (``transaction.timeout.ms``, a minute)."""
_LOOK_AGAIN_SECONDS: Final = 0.1
_FATAL_SECONDS: Final = 5.0
_HURRY_SECONDS: Final = 0.005
_HURRYING_SECONDS: Final = 0.001
"""Long enough for librdkafka's thread to see that somebody waits."""
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NOT_THERE_YET: Final = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the metadata was newer than the broker that was asked
        KafkaError.FENCED_LEADER_EPOCH,
    )
)
"""What a broker says of a topic that it is just about to create."""
_OF_SECURITY: Final = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})
BROKER_DEFAULT: Final = -1
"""Partitions or replication factor of a new topic: what the broker is configured for."""

_ANY_PARTITION: Final = -1
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
QUEUE_RECORDS: Final = 200_000
"""How many records may wait in a producer, unless ``producer.override.*`` says otherwise."""

_PRODUCER_DEFAULTS: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    # As Kafka Connect's source producers, and for a reason of librdkafka's own: a broker that has just become a partition's leader
    # may refuse a producer's first batch as not yet its leader, and then take the second one, whose sequence it cannot check.
    # librdkafka concludes that the first was stored after all, and reports its records as delivered: they are lost.
    IN_FLIGHT: 1,
    "acks": "all",
    "partitioner": "murmur2_random",
    # Longer than a request takes: librdkafka's thread does not sleep while records wait that have lingered long enough, and they
    # cannot go before the request before them is done. `RecordProducer.hurry` ends the waiting as soon as the source pauses.
    "linger.ms": 25,
    "batch.size": 1_000_000,
    "batch.num.messages": 20_000,
    "queue.buffering.max.messages": QUEUE_RECORDS,
    "queue.buffering.max.kbytes": 16_384,  # more only makes a checkpoint, which waits for it to drain, stop for longer
    "compression.type": "none",  # as Kafka's own; some clients cannot read lz4 without a further library
    "delivery.timeout.ms": 120_000,
    "socket.keepalive.enable": True,
}


def describe_failure(action: str, error: KafkaError | BaseException) -> BrokerError:
    """Our error for one of Kafka's, with whether a retry can cure it; for the other modules that speak to Kafka."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    if isinstance(error, KafkaError):
        name = error.name()
        return BrokerError(
            f"{action}: {error.str()} ({name})",
            kafka_code=name,
            hint=hint_of_kafka(name),
            retry=retry_of_kafka(name),
        )
    return BrokerError(f"{action}: {type(error).__name__}")


class RecordProducer:
    """An idempotent producer with a bounded queue.

    Args:
        settings: librdkafka's, at least ``bootstrap.servers``; they override the defaults here.
        on_wait: called again and again while the queue is full, so that the source's connection stays alive; may raise.
    """

    def __init__(self, settings: Mapping[str, Any], *, on_wait: Callable[[], None] = lambda: None) -> None:
        self._failed: BrokerError | None = None
        self._fatal: BrokerError | None = None
        self._on_wait = on_wait
        try:
            self._producer = Producer(
                {
                    **_PRODUCER_DEFAULTS,
                    **settings,
                    "on_delivery": self._delivered,
                    "delivery.report.only.error": True,
                    "error_cb": self._error,
                },
                logger=_LOG,
            )
        except KafkaException as error:
            raise describe_failure("the producer's settings cannot be used together", error) from error
        self._produce = self._producer.produce
        self._hurries = "linger.ms" not in settings
        self._hurried = 0.0

    def send(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]]
    ) -> None:
        """Queue records; waits while the queue is full.

        Raises:
            BrokerError: an earlier record was refused for good.
        """
        produce = self._produce
        for key, value, headers in records:
            try:
                # By position, which takes a third less time than by name.
                produce(topic, value, key, _ANY_PARTITION, None, None, 0, headers)  # type: ignore[arg-type]  # invariant list
            except BufferError:
                self._send_when_room(topic, key, value, {"headers": headers} if headers else {})
            except KafkaException as error:
                raise describe_failure(f"cannot produce to {topic}", error) from error

    def send_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        """Queue one record that may say its partition and its time; waits while the queue is full.

        Args:
            partition: None: chosen by the key.
            timestamp: milliseconds since the Unix epoch; None: now.

        Raises:
            BrokerError: an earlier record was refused for good.
        """
        choices: dict[str, Any] = {}
        if headers:
            choices["headers"] = headers
        if partition is not None:
            choices["partition"] = partition
        if timestamp is not None:
            choices["timestamp"] = timestamp
        try:
            self._produce(topic, value, key, **choices)
        except BufferError:
            self._send_when_room(topic, key, value, choices)
        except KafkaException as error:
            raise describe_failure(f"cannot produce to {topic}", error) from error

    def poll(self) -> None:
        """Serve callbacks without waiting.

        Raises:
            BrokerError: a record was refused for good.
        """
        try:
            self._producer.poll(0)
        except KafkaException as error:
            raise describe_failure("the producer cannot go on", error) from error
        if self._failed is not None:
            raise self._failed

    def hurry(self, now: float) -> None:
        """Send what is queued at once, for nothing more is coming; `now` is on the monotonic clock. At most once in five
        milliseconds, so that many small transactions still share requests; not if ``linger.ms`` has been set."""
        if self._hurries and now - self._hurried >= _HURRY_SECONDS and len(self._producer):
            self._hurried = now
            self.flush(_HURRYING_SECONDS)

    def flush(self, seconds: float) -> bool:
        """Wait until Kafka has acknowledged all that was sent; False when `seconds` were not enough.

        Raises:
            BrokerError: a record was refused for good.
        """
        try:
            remaining = self._producer.flush(seconds)
        except KafkaException as error:  # of a fatal error
            raise describe_failure("the producer cannot go on", error) from error
        if self._failed is not None:
            raise self._failed
        return remaining == 0

    def outstanding(self) -> int:
        """Records that are queued or sent, but not yet acknowledged."""
        return len(self._producer)

    def abandon(self) -> None:
        """Drop what is queued: for a task that stops while Kafka is away."""
        self._producer.purge()
        self._producer.flush(1.0)

    def _send_when_room(
        self, topic: str, key: bytes | None, value: bytes | None, choices: dict[str, Any]
    ) -> None:
        while True:
            try:
                self._producer.poll(0.05)
                if self._failed is not None:
                    raise self._failed
                self._on_wait()
                self._produce(topic, value, key, **choices)
            except BufferError:
                continue
            except KafkaException as error:
                raise describe_failure(f"cannot produce to {topic}", error) from error
            return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            where = f"a record for {message.topic()} was not delivered"
            self._failed = describe_failure(where, error)

    def _error(self, error: KafkaError) -> None:
        if error.fatal() and self._fatal is None:
            self._fatal = describe_failure("the producer cannot go on", error)
            self._failed = self._failed or self._fatal

    def _what_was_fatal(self) -> BrokerError | None:
        """The error after which librdkafka refuses every call with ``_FATAL``; it tells which in a callback, a moment later."""
        deadline = time.monotonic() + _FATAL_SECONDS
        while self._fatal is None and time.monotonic() < deadline:
            try:
                self._producer.poll(0.05)
            except KafkaException as error:  # how it tells in some versions
                self._error(error.args[0])
        return self._fatal


class AcknowledgedProducer:
    """Writes single records to a compacted topic, and tells when each is stored."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._failed: BrokerError | None = None
        self._producer = Producer(
            {**_PRODUCER_DEFAULTS, **settings, "linger.ms": 0, "queue.buffering.max.kbytes": 4096},
            logger=_LOG,
        )

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:
        """Send one record; `on_stored` is called by `poll` once Kafka has acknowledged it."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                on_stored()
            elif self._failed is None:
                self._failed = describe_failure(f"cannot write to {topic}", error)

        try:
            self._producer.produce(topic, value, key, on_delivery=delivered)
        except (KafkaException, BufferError) as error:
            raise describe_failure(f"cannot write to {topic}", error) from error

    def put_and_wait(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Send one record and wait for the acknowledgement.

        Raises:
            BrokerError: it was not acknowledged in time.
        """
        answers: list[KafkaError | None] = []
        try:
            self._producer.produce(
                topic, value, key, on_delivery=lambda error, _message: answers.append(error)
            )
        except (KafkaException, BufferError) as error:
            raise describe_failure(f"cannot write to {topic}", error) from error
        self._producer.flush(_REQUEST_SECONDS)
        if not answers:
            raise BrokerError(
                f"cannot write to {topic}: no acknowledgement from bootstrap.servers", retry=Retry.TIMED
            )
        if answers[0] is not None:
            raise describe_failure(f"cannot write to {topic}", answers[0])

    def settle(self) -> None:
        """Wait until it is decided for every record whether it is stored: one that `put_and_wait` gave up may still be sent.

        Raises:
            BrokerError: Kafka still does not answer.
        """
        if self._producer.flush(_REQUEST_SECONDS):
            raise BrokerError("no acknowledgement from bootstrap.servers", retry=Retry.TIMED)

    def poll(self) -> None:
        """Serve callbacks.

        Raises:
            BrokerError: a record was refused.
        """
        self._producer.poll(0)
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def flush(self, seconds: float) -> None:
        """Wait for the acknowledgement of everything that was put."""
        self._producer.flush(seconds)
        self.poll()


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
        logger=_LOG,
    )
    try:
        waiting = _partitions(consumer, topic)
        return _read_to_end(consumer, topic, _ends(settings, topic, waiting))
    except KafkaException as error:
        raise describe_failure(f"cannot read {topic}", error) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> set[int]:
    """A topic's partitions. A broker that has created a topic says for a moment that there is none."""
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        metadata = consumer.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
        if metadata.error is None:
            return set(metadata.partitions)
        if metadata.error.code() not in _NOT_THERE_YET or time.monotonic() > deadline:
            raise KafkaException(metadata.error)
        time.sleep(_LOOK_AGAIN_SECONDS)


partitions_of = _partitions
NOT_THERE_YET: Final = _NOT_THERE_YET


def _ends(settings: Mapping[str, Any], topic: str, partitions: set[int]) -> dict[int, int]:
    """The high watermarks of a topic: behind every record, committed or not."""
    admin = AdminClient({**settings, "socket.timeout.ms": 10_000}, logger=_LOG)
    wanted = {TopicPartition(topic, partition): _LATEST for partition in partitions}
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        asked = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_REQUEST_SECONDS
        )
        try:
            return {place.partition: future.result().offset for place, future in asked.items()}
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THERE_YET or time.monotonic() > deadline:
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
            elif error.code() not in _NOT_THERE_YET:
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
        self._admin = AdminClient(config, logger=_LOG)

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
            raise describe_failure(f"cannot create topic {name}{asked}", error) from error
        return True


class SignalConsumer:
    """Reads the signals topic, partition 0, from where its group has come; nothing counts as read before `commit`."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "group.id": "kafka-signal",
                "auto.offset.reset": "earliest",
                **settings,
                "enable.auto.commit": False,
            },
            logger=_LOG,
        )
        self._consumer.assign([TopicPartition(topic, 0)])
        self._last: Message | None = None

    def poll(self) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of what has arrived; never waits for more."""
        found = []
        for message in self._consumer.consume(100, timeout=0.05):
            error = message.error()
            if error is None:
                self._last = message
                found.append((message.key(), message.value()))
            elif error.fatal():
                raise describe_failure(f"cannot read {self._topic}", error)
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
            raise describe_failure(f"cannot commit on {self._topic}", error) from error

    def close(self) -> None:
        self._consumer.close()
