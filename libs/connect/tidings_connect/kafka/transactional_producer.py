"""The producer of a task that writes exactly once: records and source offset in one Kafka transaction.

A transaction is always open towards librdkafka; the broker hears of it with the first record. `commit` ends it and opens
the next. What a transaction holds is seen by nobody who reads committed records before that, and never when the process
dies: the next producer with the same ``transactional.id`` aborts it (KIP-98, KIP-447). Fencing is the broker's: once
another producer has called `open`, everything this one does is refused.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from tidings_connect.errors import BrokerError, FencedError
from tidings_connect.kafka.producer import RecordProducer, describe_failure
from tidings_service import Retry, get_logger

_SLICE_SECONDS: Final = 0.05
_OPEN_SECONDS: Final = 60.0
_ABORT_SECONDS: Final = 3.0
_DEFAULT_TIMEOUT_MS: Final = 60_000
"""Of Kafka's own producer, and of librdkafka."""
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""The broker says these of a producer whose id another one has taken, and of one whose transaction it has given up."""

_log = get_logger(__name__)


class TransactionalProducer(RecordProducer):
    """Records in transactions; `open` before anything else.

    Args:
        settings: librdkafka's.
        transactional_id: of the task; the last producer that opens with it is the only one that can write.
        on_wait: called again and again in every wait; may raise to give up.
    """

    def __init__(
        self, settings: Mapping[str, Any], transactional_id: str, *, on_wait: Callable[[], None]
    ) -> None:
        timeout = int(settings.get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))
        wanted = int(settings.get("delivery.timeout.ms", timeout))
        if wanted > timeout:
            _log.info(
                "delivery.timeout.ms is lowered to transaction.timeout.ms", wanted_ms=wanted, used_ms=timeout
            )
        super().__init__(
            {
                **settings,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout,
                "delivery.timeout.ms": min(wanted, timeout),
            },
            on_wait=on_wait,
        )
        self._id = transactional_id
        self.timeout_seconds = timeout / 1000
        """How long the broker lets a transaction be open."""
        self.dirty = False
        """Whether the transaction holds a record."""
        self._dirty_since = 0.0
        self._open = False
        self.commits = 0
        self.commit_seconds = 0.0
        """Time spent in commits, in all."""

    def open(self) -> None:
        """Fence every other producer of this id, end what it left open, and begin a transaction.

        Raises:
            BrokerError: no transaction coordinator, or Kafka refused.
        """
        began = time.monotonic()
        while True:
            try:
                self._producer.init_transactions(_SLICE_SECONDS)
                self._producer.begin_transaction()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() - began > _OPEN_SECONDS:
                    raise self._translated("cannot begin transactions", error) from error
                self._on_wait()
            else:
                self._open = True
                return

    def send(
        self, topic: str, records: Sequence[tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]]
    ) -> None:
        if not self.dirty:
            self._begin()
        try:
            super().send(topic, records)
        except BrokerError as error:
            raise self._judged(error) from error

    def send_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        if not self.dirty:
            self._begin()
        try:
            super().send_one(topic, key, value, headers, partition, timestamp)
        except BrokerError as error:
            raise self._judged(error) from error

    def open_seconds(self, now: float) -> float:
        """Since when the transaction holds records; 0 while it holds none."""
        return now - self._dirty_since if self.dirty else 0.0

    def commit(self) -> None:
        """Make everything sent since the last commit visible at once; returns when Kafka has said so.

        Raises:
            FencedError: another producer has begun to use the id.
            BrokerError: Kafka refused a record, or did not answer; whether the transaction is committed is then not known.
        """
        began = time.monotonic()
        while not self.flush(_SLICE_SECONDS):
            self._on_wait()
        while True:
            try:
                self._producer.commit_transaction(_SLICE_SECONDS)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise self._translated("cannot commit a transaction", error) from error
                if time.monotonic() - began > self.timeout_seconds:
                    raise BrokerError(
                        f"a transaction of transactional.id={self._id} was not committed within"
                        f" transaction.timeout.ms={self.timeout_seconds * 1000:.0f}",
                        retry=Retry.TIMED,
                    ) from error
            self._on_wait()
        self.dirty = False
        self.commits += 1
        self.commit_seconds += time.monotonic() - began
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._translated("cannot begin a transaction", error) from error

    def poll(self) -> None:
        try:
            super().poll()
        except BrokerError as error:
            raise self._judged(error) from error

    def flush(self, seconds: float) -> bool:
        try:
            return super().flush(seconds)
        except BrokerError as error:
            raise self._judged(error) from error

    def close(self) -> None:
        """Abort what is open, so that readers need not wait for the broker to give it up."""
        if not self._open:
            return
        self._open = False
        try:
            self._producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException as error:
            # The next producer of this id, or transaction.timeout.ms, ends it as well.
            _log.info(
                "a transaction was left to be aborted", transactional_id=self._id, reason=str(error.args[0])
            )

    def _begin(self) -> None:
        self.dirty = True
        self._dirty_since = time.monotonic()

    def _translated(self, action: str, error: KafkaException) -> BrokerError:
        return self._judged(
            describe_failure(
                f"{action} of transactional.id={self._id}", error, f"Write on transactional id {self._id}"
            )
        )

    def _judged(self, error: BrokerError) -> BrokerError:
        """The broker uses one word for a transaction that took too long and for a producer that was replaced."""
        if error.kafka_code == "_FATAL":
            error = self._what_was_fatal() or error
        if error.kafka_code not in _FENCED:
            return error
        if self.open_seconds(time.monotonic()) > 0.9 * self.timeout_seconds:
            return BrokerError(
                f"the broker gave up a transaction of transactional.id={self._id}, which was open for longer than"
                f" transaction.timeout.ms={self.timeout_seconds * 1000:.0f}",
                kafka_code=error.kafka_code,
                hint="raise producer.override.transaction.timeout.ms, up to the broker's transaction.max.timeout.ms",
                retry=Retry.TIMED,
            )
        return FencedError(
            f"another producer has taken over transactional.id={self._id}: this task must not write any more",
            kafka_code=error.kafka_code,
            hint="the connector runs on another worker, perhaps Kafka Connect's, with the same group.id and name;"
            " restart this task only when that one is stopped",
        )
