"""Commits outputs and consumer offsets in one Kafka transaction, fenced by the group's member and generation (KIP-447).

All calls block and are meant for threads. Kafka's errors become `BrokerError`, which names TIDINGS_KAFKA.
"""

import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES
from tidings_service import get_logger
from tidings_service.kafka_access import KafkaAccess
from tidings_service.logins import refused_since
from tidings_service.rotation import unfollow
from tidings_translator.base.errors import BrokerError, FencedError
from tidings_translator.base.fault_points import reached
from tidings_translator.base.records import Output, Partition
from tidings_translator.kafka.clients import KafkaProducer, broken
from tidings_translator.kafka.offsets import REQUEST_SECONDS

log = get_logger("tidings_translator.kafka_transactions")

_ATTEMPTS = 5
_SLICE_SECONDS = 5.0
"""So often it is looked whether the login was refused meanwhile."""
_QUEUE_KBYTES = 32 * 1024
"""In librdkafka, beside the outputs themselves, which are kept until they are committed; its default is a gigabyte."""

# The partitions belong to somebody else by now; the group's next generation reads from the committed offsets.
_LOST_MEMBERSHIP = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
}


class Membership(NamedTuple):
    """Who is producing: this process's place in the consumer group."""

    group: str
    member: str
    generation: int
    instance: str | None

    def serialized(self) -> bytes:
        """librdkafka's form of it, as `Consumer.consumer_group_metadata` returns it (rd_kafka_consumer_group_metadata_write).

        The consumer is Faust's and not librdkafka's, so it is built here; a test compares it with librdkafka's own.
        """
        instance = b"\1" if self.instance is None else b"\0" + self.instance.encode() + b"\0"
        return b"".join(
            (
                b"CGMDv2:",
                struct.pack("=i", self.generation),
                self.group.encode(),
                b"\0",
                self.member.encode(),
                b"\0",
                instance,
            )
        )


class TransactionalProducer:
    """Produces and commits offsets atomically; one per process, used by one thread at a time."""

    def __init__(
        self, kafka: KafkaAccess, transactional_id: str, *, transaction_timeout_seconds: float
    ) -> None:
        self.transactional_id = transactional_id
        self._kafka = kafka
        self._timeout_ms = int(transaction_timeout_seconds * 1000)
        self._committing = False
        self._made_at = time.monotonic()
        self._producer = self._make()

    def _make(self) -> KafkaProducer:
        return KafkaProducer(
            self._kafka,
            {
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": self._timeout_ms,
                "linger.ms": 5,
                # With more, librdkafka may report a producer's first records in a partition as delivered that a broker
                # which has only just become its leader has refused (see capture's kafka.py, and tests/faults/new_topics.py).
                "max.in.flight.requests.per.connection": 1,
                "retry.backoff.ms": 5,  # the default adds 100 ms to each transaction that follows another
                "batch.size": 262_144,
                "message.max.bytes": MAX_RECORD_BYTES,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            },
        )

    def begin_life(self) -> None:
        """Fence a predecessor with the same transactional id and abort what it left open.

        Raises:
            BrokerError: Kafka did not answer in time or refused.
        """
        try:
            self._producer.init_transactions(REQUEST_SECONDS)
        except KafkaException as error:
            raise broken(
                error, f"the transactional id {self.transactional_id} cannot be used", self._producer
            ) from error

    def transact(
        self,
        outputs: Iterable[Output],
        offsets: Mapping[Partition, int],
        member: Membership,
        *,
        on_retry: Callable[[], None] | None = None,
    ) -> None:
        """Produce `outputs` and commit `offsets` (next offset to read, per partition; perhaps none), all or nothing.

        Raises:
            FencedError: `member` does not own the partitions any more; nothing was committed.
            BrokerError: it failed for another reason; whether it was committed must be asked of the committed offsets.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._begin_anew_after_refusal()
                self._attempt(outputs, offsets, member)
                return
            except KafkaException as error:
                if not self._committing and attempt < _ATTEMPTS and refused_since(self._made_at):
                    continue  # nothing is committed; its successor aborts what is open
                self._abort(error, last=attempt == _ATTEMPTS)
                log.warning("transaction aborted, trying again", error=error.args[0].name())
                if on_retry is not None:
                    on_retry()

    def _begin_anew_after_refusal(self) -> None:
        """Replace the producer when brokers have refused the login since it was made: sending offsets to a transaction then
        hangs for ever in librdkafka 2.16, even with the right password (a producer without offsets recovers)."""
        if not refused_since(self._made_at):
            return
        log.info("a new producer, because brokers have refused the login of the old one")
        unfollow(self._producer)
        self._made_at = time.monotonic()
        self._producer = self._make()
        self.begin_life()

    def _attempt(
        self, outputs: Iterable[Output], offsets: Mapping[Partition, int], member: Membership
    ) -> None:
        producer = self._producer
        self._committing = False
        producer.begin_transaction()
        reached("transaction.begun")
        produce = producer.produce
        for topic, key, value, headers, partition in outputs:
            while True:
                try:
                    produce(topic, value, key, partition, headers=headers)  # type: ignore[arg-type]  # lists are invariant
                    break
                except BufferError:
                    producer.poll(0.05)
        reached("outputs.produced")
        if offsets:
            self._send_offsets(offsets, member)
        reached("offsets.sent")
        self._committing = True
        while True:
            try:
                producer.commit_transaction(REQUEST_SECONDS)
                reached("transaction.committed")
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _send_offsets(self, offsets: Mapping[Partition, int], member: Membership) -> None:
        places = [TopicPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                self._producer.send_offsets_to_transaction(places, member.serialized(), _SLICE_SECONDS)
                return
            except KafkaException as error:
                late = time.monotonic() > deadline or refused_since(self._made_at)
                if late or error.args[0].code() != KafkaError._TIMED_OUT:  # noqa: SLF001 - its public name
                    raise

    def _abort(self, error: KafkaException, *, last: bool) -> None:
        """End a failed transaction; returns when it may be tried again."""
        cause: KafkaError = error.args[0]
        if cause.fatal():
            raise broken(
                error, f"another process uses the transactional id {self.transactional_id}"
            ) from error
        try:
            self._producer.abort_transaction(REQUEST_SECONDS)
        except KafkaException as abort_error:
            raise broken(abort_error, "a Kafka transaction could not be aborted", self._producer) from error
        if cause.code() in _LOST_MEMBERSHIP:
            raise FencedError(f"the group has moved on: {cause.name()}") from error
        if cause.code() == KafkaError.FENCED_INSTANCE_ID:
            raise BrokerError(
                "another process has the same TIDINGS_INSTANCE",
                hint="give every process of a group an instance name of its own",
            ) from error
        if last or not cause.txn_requires_abort():
            raise broken(error, "a Kafka transaction failed", self._producer) from error
