"""Reads committed offsets, waiting for transactions in flight (KIP-447's require_stable), and ends of partitions.

All calls block and are meant for threads. Kafka's errors become `BrokerError`, which names TIDINGS_KAFKA.
"""

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.kafka.clients import KafkaAdmin, KafkaConsumer, broken

REQUEST_SECONDS = 30.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_NO_LEADER_YET = {
    # A topic that was created a moment ago, or a broker that has just gone.
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    # After a broker's restart the metadata and the partition's leader may be of different epochs.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}

_NO_COORDINATOR_YET = {
    # A new broker says so to its first groups, and any broker when a coordinator has moved. librdkafka asks for the coordinator
    # then, and does not ask it for the offsets.
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_PAUSE_SECONDS = 0.1
_T = TypeVar("_T")


class PartitionOffsets(NamedTuple):
    """A partition as Kafka has it: offsets of the next record to read (None: nothing was committed), of the first record
    there is, and one past the last."""

    committed: int | None
    start: int
    end: int


class Offsets:
    """Reads committed offsets and ends of partitions.

    Args:
        transaction_seconds: how long a member that died may have left a transaction open.
    """

    def __init__(self, kafka: KafkaAccess, group: str, *, transaction_seconds: float = 0.0) -> None:
        self._group = group
        self._patience = REQUEST_SECONDS + transaction_seconds
        # read_committed makes librdkafka ask with require_stable: it waits for the offsets of open transactions.
        self._stable = KafkaConsumer(kafka, group)
        self._admin = KafkaAdmin(kafka)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The next offset to read for each partition; 0 where nothing was committed yet.

        Raises:
            BrokerError: Kafka did not answer.
        """
        return {partition: offset or 0 for partition, offset in self._committed(partitions).items()}

    def partition_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, PartitionOffsets]:
        """Where the group is in each partition, and where its log begins and ends, asked for in this order.

        Raises:
            BrokerError: Kafka did not answer.
        """
        committed = self._committed(partitions)
        starts, ends = self.starts(committed), self.ends(committed)
        return {one: PartitionOffsets(offset, starts[one], ends[one]) for one, offset in committed.items()}

    def _committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        wanted = [TopicPartition(p.topic, p.partition) for p in partitions]
        try:
            found = _asked(lambda seconds: self._ask(wanted, seconds), _NO_COORDINATOR_YET, self._patience)
        except KafkaException as error:
            what = f"the committed offsets of group {self._group} cannot be read"
            raise broken(error, what, self._stable) from error
        return {Partition(e.topic, e.partition): e.offset if e.offset >= 0 else None for e in found}

    def _ask(self, wanted: list[TopicPartition], seconds: float) -> list[TopicPartition]:
        found: list[TopicPartition] = self._stable.committed(wanted, seconds)
        for entry in found:
            if entry.error is None:
                continue
            error = KafkaException(entry.error)
            if entry.error.code() in _NO_COORDINATOR_YET:
                raise error
            raise broken(error, f"the committed offset of {entry.topic} cannot be read", self._stable)
        return found

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermarks: one past the last record, of open transactions too.

        Raises:
            BrokerError: Kafka did not answer.
        """
        return partition_ends(self._admin, partitions)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that each partition still has.

        Raises:
            BrokerError: Kafka did not answer.
        """
        return partition_ends(self._admin, partitions, first=True)

    def close(self) -> None:
        """Leave Kafka; the object cannot be used after."""
        self._stable.close()


def partition_ends(
    admin: KafkaAdmin, partitions: Iterable[Partition], *, first: bool = False
) -> dict[Partition, int]:
    """The high watermarks of `partitions`, or their first offsets."""
    spec = _EARLIEST if first else _LATEST
    wanted = {TopicPartition(p.topic, p.partition): spec for p in partitions}
    if not wanted:
        return {}

    def ask(_: float) -> dict[Partition, int]:
        futures = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_SECONDS
        )
        return {Partition(tp.topic, tp.partition): _told(future) for tp, future in futures.items()}

    try:
        return _asked(ask, _NO_LEADER_YET, REQUEST_SECONDS)
    except KafkaException as error:
        topics = ", ".join(sorted({place.topic for place in wanted}))
        raise broken(error, f"the ends of partitions cannot be read: {topics}", admin) from error


def _asked(ask: Callable[[float], _T], passing: Collection[int], patience: float) -> _T:
    """What Kafka answers, which is asked again while its error is one that passes.

    Args:
        ask: is given the seconds that are left.
        passing: librdkafka's codes.
        patience: seconds.

    Raises:
        KafkaException: another error, or the last one.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask(max(deadline - time.monotonic(), _PAUSE_SECONDS))
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _told(future: Future[Any]) -> int:
    """Where a broker does not answer in time, librdkafka's answer is an offset below 0, and no error: a partition would seem to be
    empty."""
    offset = int(future.result().offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in time"))  # noqa: SLF001 - librdkafka's own name
    return offset
