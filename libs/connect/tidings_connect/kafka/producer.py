"""Kafka's producers: for records, and for what must be acknowledged before work goes on.

Delivery contract: `RecordProducer.send` only queues. Nothing counts as delivered before `flush` has returned True; any
record that Kafka refused for good makes the next call raise. librdkafka keeps the order within a partition
(``enable.idempotence``), sends one request at a time to each broker (more may lose a producer's first records in a
partition, see `_PRODUCER_DEFAULTS`), and partitions by murmur2 as Kafka's Java producer does. Settings are librdkafka's.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
)

from tidings_connect.data.records import Record
from tidings_connect.errors import BrokerError, hint_of_kafka, retry_of_kafka
from tidings_connect.kafka.clients import Producer, sole_user
from tidings_service import Retry

LIBRDKAFKA_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
"""Where librdkafka's own lines go."""
_REQUEST_SECONDS: Final = 15.0
_FATAL_SECONDS: Final = 5.0
_HURRY_SECONDS: Final = 0.002
"""At least so long between two requests that are hurried, so that many small transactions still share them."""
_HURRY_AGAIN_SECONDS: Final = 0.005
"""After which what was hurried is hurried once more: librdkafka's thread may have come too late to see it."""
_HURRYING_SECONDS: Final = 0.001
"""Long enough for librdkafka's thread to see that somebody waits."""
_ANY_PARTITION: Final = -1
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
QUEUE_RECORDS: Final = 8_000
"""How many records may wait in a producer, unless ``producer.override.*`` says otherwise: some requests' worth. It is this that
bounds a task's memory; a bound in bytes alone must leave room for the largest record."""

LARGEST_RECORD_BYTES: Final = 1_048_576
"""What Kafka's brokers take, and its Java producers send, by default; librdkafka's default is a million."""
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


def describe_failure(action: str, error: KafkaError | BaseException, right: str = "the right") -> BrokerError:
    """Our error for one of Kafka's, with whether a retry can cure it; for the other modules that speak to Kafka.

    Args:
        right: what was needed for the action, such as "Write on topic orders", if the brokers do not let it happen.
    """
    if isinstance(error, KafkaException):
        error = error.args[0]
    if isinstance(error, KafkaError):
        name, text = error.name(), error.str()
        return BrokerError(
            f"{action}: {text} ({name})",
            kafka_code=name,
            hint=_hint(name, text, right),
            retry=retry_of_kafka(name, text),
        )
    return BrokerError(f"{action}: {type(error).__name__}")


def _hint(name: str, text: str, right: str) -> str | None:
    user = sole_user()
    if not name.endswith("_AUTHORIZATION_FAILED"):
        return hint_of_kafka(name, text)
    who = "the principal" if user is None else f"user {user!r}"
    told = f"{who} lacks {right}: docs/security.md lists the ACLs"
    return told if user is not None else f"{told}; {hint_of_kafka(name)}"


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
                logger=LIBRDKAFKA_LOG,
            )
        except KafkaException as error:
            raise describe_failure("the producer's settings cannot be used together", error) from error
        self._produce = self._producer.produce
        self._hurries = "linger.ms" not in settings
        self._sent = 0
        self._hurried = 0
        """How many of the records that were sent have been hurried."""
        self._hurried_at = 0.0

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Queue records; waits while the queue is full.

        Raises:
            BrokerError: an earlier record was refused for good.
        """
        produce = self._produce
        self._sent += len(records)
        for key, value, headers in records:
            try:
                # By position, which takes a third less time than by name.
                produce(topic, value, key, _ANY_PARTITION, None, None, 0, headers)  # type: ignore[arg-type]  # invariant list
            except BufferError:
                self._send_when_room(topic, key, value, {"headers": headers} if headers else {})
            except KafkaException as error:
                raise describe_failure(
                    f"cannot produce to {topic}", error, f"Write on topic {topic}"
                ) from error

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
        self._sent += 1
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
            raise describe_failure(f"cannot produce to {topic}", error, f"Write on topic {topic}") from error

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

    def hurry(self, now: float) -> bool:
        """Send what is queued, once what was hurried before is acknowledged: it could not go earlier, with one request in
        flight. Not if ``linger.ms`` has been set.

        Args:
            now: on the monotonic clock.

        Returns:
            Whether records wait for a later call.
        """
        if not self._hurries:
            return False
        outstanding = len(self._producer)
        if outstanding > self._sent - self._hurried:
            wait = _HURRY_AGAIN_SECONDS  # some that were hurried are under way
        elif outstanding:
            wait = _HURRY_SECONDS
        else:
            return False
        if now - self._hurried_at < wait:
            return self._sent > self._hurried
        self._hurried, self._hurried_at = self._sent, now
        self.flush(_HURRYING_SECONDS)
        return False

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
                raise describe_failure(
                    f"cannot produce to {topic}", error, f"Write on topic {topic}"
                ) from error
            return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            where = f"a record for {message.topic()} was not delivered"
            self._failed = describe_failure(where, error, f"Write on topic {message.topic()}")

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
            {
                **_PRODUCER_DEFAULTS,
                "message.max.bytes": LARGEST_RECORD_BYTES,
                **settings,
                "linger.ms": 0,
                "queue.buffering.max.kbytes": 4096,
            },
            logger=LIBRDKAFKA_LOG,
        )

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:
        """Send one record; `on_stored` is called by `poll` once Kafka has acknowledged it."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                on_stored()
            elif self._failed is None:
                self._failed = describe_failure(f"cannot write to {topic}", error, f"Write on topic {topic}")

        try:
            self._producer.produce(topic, value, key, on_delivery=delivered)
        except (KafkaException, BufferError) as error:
            raise describe_failure(f"cannot write to {topic}", error, f"Write on topic {topic}") from error

    def put_and_wait(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int = _ANY_PARTITION
    ) -> None:
        """Send one record and wait for the acknowledgement.

        Args:
            partition: -1: chosen by the key.

        Raises:
            BrokerError: it was not acknowledged in time.
        """
        answers: list[KafkaError | None] = []
        try:
            self._producer.produce(
                topic, value, key, partition, on_delivery=lambda error, _message: answers.append(error)
            )
        except (KafkaException, BufferError) as error:
            raise describe_failure(f"cannot write to {topic}", error, f"Write on topic {topic}") from error
        self._producer.flush(_REQUEST_SECONDS)
        if not answers:
            raise BrokerError(
                f"cannot write to {topic}: no acknowledgement from bootstrap.servers", retry=Retry.TIMED
            )
        if answers[0] is not None:
            raise describe_failure(f"cannot write to {topic}", answers[0], f"Write on topic {topic}")

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
