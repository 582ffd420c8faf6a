"""What the translator reads of Kafka through librdkafka, and the topics it creates.

* `Offsets`: committed offsets that wait for transactions in flight (KIP-447's require_stable), and ends of partitions.
* `read_partition`: a partition from its beginning to its end, committed transactions only; restores state.
* `Topics`: which topics there are, and creating those that the translator owns.

All calls block and are meant for threads. Kafka's errors become `BrokerError`, which names TIDINGS_KAFKA.
"""

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.beginnings import Standing
from tidings_translator.errors import BrokerError
from tidings_translator.kafka_clients import KafkaAdmin, KafkaConsumer, broken
from tidings_translator.records import MAX_RECORD_BYTES, Partition

REQUEST_SECONDS = 30.0
_COMPACTED_SEGMENT_BYTES = 64 << 20
"""Kafka compacts all but the segment that is being written, which has up to a gigabyte by default: a restart would read that."""
_RUN_GAP = 100
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NOT_THERE = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001 - their public names
"""The partition's end, and offsets that Kafka has not any more."""
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    # After a broker's restart the metadata and the partition's leader may be of different epochs.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


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

    def standings(self, partitions: Iterable[Partition]) -> dict[Partition, Standing]:
        """Where the group is in each partition, and where its log begins and ends, asked for in this order.

        Raises:
            BrokerError: Kafka did not answer.
        """
        committed = self._committed(partitions)
        starts, ends = self.starts(committed), self.ends(committed)
        return {one: Standing(offset, starts[one], ends[one]) for one, offset in committed.items()}

    def _committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        wanted = [TopicPartition(p.topic, p.partition) for p in partitions]
        try:
            found = self._stable.committed(wanted, self._patience)
        except KafkaException as error:
            raise broken(
                error, f"the committed offsets of group {self._group} cannot be read", self._stable
            ) from error
        for entry in found:
            if entry.error is not None:
                raise broken(
                    KafkaException(entry.error),
                    f"the committed offset of {entry.topic} cannot be read",
                    self._stable,
                )
        return {Partition(e.topic, e.partition): e.offset if e.offset >= 0 else None for e in found}

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
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            futures = admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_SECONDS
            )
            return {
                Partition(tp.topic, tp.partition): int(future.result().offset)
                for tp, future in futures.items()
            }
        except KafkaException as error:
            # A topic that was created a moment ago, or a broker that has just gone.
            if error.args[0].code() not in _NO_LEADER_YET or time.monotonic() > deadline:
                topics = ", ".join(sorted({place.topic for place in wanted}))
                raise broken(error, f"the ends of partitions cannot be read: {topics}", admin) from error
            time.sleep(0.1)


def arrived(consumer: Consumer, most: int, seconds: float) -> list[Message]:
    """Up to `most` messages that are here; waits `seconds` at most for the first. `consume` alone would wait for `most`."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def know_leaders(consumer: Consumer, topic: str) -> None:
    """Ask where a topic is, before it is assigned: by itself librdkafka does so half a second after that."""
    consumer.list_topics(topic, timeout=REQUEST_SECONDS)


def read_partition(
    kafka: KafkaAccess,
    partition: Partition,
    end: int,
    *,
    start: int = OFFSET_BEGINNING,
    stall_seconds: float = 120.0,
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of every committed record of a partition, from its beginning (or `start`) up to offset `end`.

    `end` is a high watermark: transactions that are open below it are waited for (they end within the transaction
    timeout), so that nothing a predecessor committed can be missed.

    Raises:
        BrokerError: Kafka is away, or nothing more came for `stall_seconds`.
    """
    consumer = KafkaConsumer(
        kafka,
        "tidings-restore",
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            # The end is only told by a fetch that finds nothing, and the default lets that one wait for half a second.
            "fetch.wait.max.ms": 10,
        },
    )
    position, moved = 0, time.monotonic()
    try:
        know_leaders(consumer, partition.topic)
        consumer.assign([TopicPartition(partition.topic, partition.partition, start)])
        while position < end:
            for message in arrived(consumer, 5_000, 0.1):
                error = message.error()
                if error is None:
                    position = _offset(message) + 1
                    yield message.key(), message.value()
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    # Also tells that control records and aborted transactions, which are never delivered, are passed.
                    position = max(position, _offset(message))
                else:
                    raise broken(KafkaException(error), f"{partition} cannot be read", consumer)
                moved = time.monotonic()
            if time.monotonic() - moved > stall_seconds:
                raise BrokerError(f"{partition} cannot be read beyond offset {position} of {end}")
    except KafkaException as error:
        raise broken(error, f"{partition} cannot be read", consumer) from error
    finally:
        consumer.close()


Original: TypeAlias = tuple[bytes | None, bytes | None]
"""A record's key and value."""


class RecordReader:
    """Reads single records again; those that are near each other in one go.

    Args:
        timeout_seconds: how long Kafka may be silent before what is missing is taken for gone.
    """

    def __init__(self, kafka: KafkaAccess, *, timeout_seconds: float = 10.0) -> None:
        self._timeout_seconds = timeout_seconds
        self._arrived: deque[Message] = deque()
        self._partition: Partition | None = None
        """Which can be read on at `_next_offset`."""
        self._next_offset = 0
        self._consumer = KafkaConsumer(
            kafka,
            "tidings-restore",
            {
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 16_384,
                "fetch.message.max.bytes": 4 * 1024 * 1024,
            },
        )

    def read(self, places: Iterable[tuple[Partition, int]]) -> dict[tuple[Partition, int], Original]:
        """Key and value of records; those that Kafka has not any more are left out.

        Raises:
            BrokerError: Kafka is away.
        """
        by_partition: dict[Partition, list[int]] = {}
        for partition, offset in places:
            by_partition.setdefault(partition, []).append(offset)
        found: dict[tuple[Partition, int], Original] = {}
        try:
            for partition, offsets in by_partition.items():
                for run in _runs(sorted(offsets)):
                    for offset, original in self._run(partition, run):
                        found[partition, offset] = original
        except KafkaException as error:
            raise broken(error, "records cannot be read again") from error
        return found

    def _run(self, partition: Partition, offsets: list[int]) -> Iterator[tuple[int, Original]]:
        wanted, last = set(offsets), offsets[-1]
        if self._partition != partition or not 0 <= offsets[0] - self._next_offset <= _RUN_GAP:
            self._consumer.assign([TopicPartition(partition.topic, partition.partition, offsets[0])])
            self._arrived.clear()
        self._partition = None
        while self._arrived or self._fetch():
            message = self._arrived.popleft()
            error = message.error()
            if error is not None and error.code() not in _NOT_THERE:
                raise KafkaException(error)
            if error is not None:
                return
            offset = _offset(message)
            if offset in wanted:
                yield offset, (message.key(), message.value())
            if offset >= last:
                self._partition, self._next_offset = partition, offset + 1
                return

    def _fetch(self) -> bool:
        self._arrived += arrived(self._consumer, _RUN_GAP, self._timeout_seconds)
        return bool(self._arrived)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()


def _runs(offsets: list[int]) -> Iterator[list[int]]:
    """Sorted offsets, cut where so many lie between two that going on there is faster."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > _RUN_GAP:
            yield run
            run = []
        run.append(offset)
    yield run


class TopicPlan(NamedTuple):
    """A topic to be created."""

    name: str
    partitions: int
    compacted: bool = False
    unlimited: bool = False
    """Kept for ever: business events, dead letters."""
    kept_seconds: float | None = None
    """Kept so long: change sets. Where nothing is said, by the broker's default."""
    own: bool = True
    """Only our stages read and write it, so that its retention is ours to look after."""


class Topics:
    """Which topics Kafka has."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka)

    def partitions(self, *, timeout_seconds: float = 10.0) -> dict[str, int]:
        """Every topic with the number of its partitions.

        Raises:
            BrokerError: no broker answered in time.
        """
        try:
            metadata = self._admin.list_topics(timeout=timeout_seconds)
        except KafkaException as error:
            raise broken(error, f"no Kafka broker answers at {self._kafka.bootstrap}", self._admin) from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def check_visible(self, missing: str) -> None:
        """See whether a topic only seems to be missing: Kafka lists no topic that the user has no right to.

        Args:
            missing: a topic's name; other words are let pass.

        Raises:
            BrokerError: the right is missing, or Kafka did not answer.
        """
        if not _TOPIC_NAME.fullmatch(missing):
            return
        [future] = self._admin.describe_topics(
            TopicCollection([missing]), request_timeout=REQUEST_SECONDS
        ).values()
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise broken(error, f"topic {missing} cannot be read", self._admin) from error

    def create(self, plans: Sequence[TopicPlan], *, replication: int) -> list[str]:
        """Create those of `plans` that do not exist; returns their names.

        Raises:
            BrokerError: Kafka refused one.
        """
        have = self.partitions()
        new = [plan for plan in plans if plan.name not in have]
        if not new:
            return []
        futures = self._admin.create_topics(
            [
                NewTopic(
                    plan.name,
                    num_partitions=plan.partitions,
                    replication_factor=replication,
                    config=_topic_settings(plan),
                )
                for plan in new
            ],
            request_timeout=REQUEST_SECONDS,
        )
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise broken(error, f"topic {name} cannot be created", self._admin) from error
        return [plan.name for plan in new]

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermarks."""
        return partition_ends(self._admin, partitions)


def _topic_settings(plan: TopicPlan) -> dict[str, str]:
    settings = {"max.message.bytes": str(MAX_RECORD_BYTES)} | retention_of(plan)
    if plan.compacted:
        settings["segment.bytes"] = str(_COMPACTED_SEGMENT_BYTES)
    return settings


def retention_of(plan: TopicPlan) -> dict[str, str]:
    """What a topic's settings must say so that nothing is deleted which is still needed."""
    if plan.compacted:
        return {"cleanup.policy": "compact"}
    if plan.unlimited or plan.kept_seconds == 0:
        return {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    if plan.kept_seconds is not None:
        kept = str(int(plan.kept_seconds * 1000))
        return {"cleanup.policy": "delete", "retention.ms": kept, "retention.bytes": "-1"}
    return {}


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
