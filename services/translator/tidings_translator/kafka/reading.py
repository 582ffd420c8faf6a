"""Reads committed records through librdkafka.

* `read_partition`: a partition from its beginning to its end, committed transactions only; restores state.
* `first_records`: the first one of each of many partitions.
* `RecordReader`: single records again.

All calls block and are meant for threads. Kafka's errors become `BrokerError`, which names TIDINGS_KAFKA.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidings_envelope.headers.reading import Headers, read_headers
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Partition
from tidings_translator.kafka.clients import KafkaConsumer, broken
from tidings_translator.kafka.offsets import REQUEST_SECONDS

_RUN_GAP = 100
_NOT_THERE = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001 - their public names
"""The partition's end, and offsets that Kafka has not any more."""


class Original(NamedTuple):
    """What a record holds."""

    key: bytes | None
    value: bytes | None
    headers: Headers


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
) -> Iterator[Original]:
    """Key, value and headers of every committed record of a partition, from its beginning (or `start`) up to offset `end`.

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
                    yield _original(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    # Also tells that control records and aborted transactions, which are never delivered, are passed.
                    position = max(position, _offset(message))
                else:
                    raise broken(KafkaException(error), f"{partition} cannot be read", consumer)
                moved = time.monotonic()
            if time.monotonic() - moved > stall_seconds:
                raise BrokerError(
                    f"{partition} cannot be read beyond offset {position} of {end}",
                    hint="is Kafka running and is TIDINGS_KAFKA right?",
                )
    except KafkaException as error:
        raise broken(error, f"{partition} cannot be read", consumer) from error
    finally:
        consumer.close()


def first_records(
    kafka: KafkaAccess, starts: Mapping[Partition, int], *, timeout_seconds: float = 30.0
) -> dict[Partition, Original]:
    """The first committed record of each partition from an offset on; partitions that have none are left out.

    All are read side by side: one after the other librdkafka needs half a second for each, which is minutes for a source with
    hundreds of partitions.

    Raises:
        BrokerError: Kafka is away, or says nothing for `timeout_seconds`.
    """
    found: dict[Partition, Original] = {}
    if not starts:
        return found
    left = set(starts)
    consumer = KafkaConsumer(
        kafka,
        "tidings-restore",
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # A batch of each is enough; one that is larger comes whole.
            "fetch.message.max.bytes": 64 * 1024,
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": 16_384,
            # A partition whose records fill the queue is left out for a second by default, and the others with it.
            "fetch.queue.backoff.ms": 10,
        },
    )
    try:
        consumer.list_topics(timeout=REQUEST_SECONDS)  # as `know_leaders`, of all at once
        consumer.assign([TopicPartition(one.topic, one.partition, start) for one, start in starts.items()])
        heard = time.monotonic()
        while left:
            for message in arrived(consumer, 1_000, 0.1):
                heard = time.monotonic()
                place = _place(message)
                error = message.error()
                if error is not None and error.code() not in _NOT_THERE:
                    raise broken(KafkaException(error), f"{place} cannot be read", consumer)
                if error is None and place in left:
                    found[place] = _original(message)
                # What follows of the partition is not looked at: to pause it takes a second.
                left.discard(place)
            if time.monotonic() - heard > timeout_seconds:
                raise BrokerError(
                    f"the first records of {len(left)} partitions, such as {min(left)}, cannot be read",
                    hint="is Kafka running and is TIDINGS_KAFKA right?",
                )
    except KafkaException as error:
        raise broken(error, "the first records of partitions cannot be read", consumer) from error
    finally:
        consumer.close()
    return found


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
        self._led: set[str] = set()
        """Topics whose leaders it has asked for."""
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
        """Records; those that Kafka has not any more are left out.

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
            if partition.topic not in self._led:
                know_leaders(self._consumer, partition.topic)
                self._led.add(partition.topic)
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
                yield offset, _original(message)
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


def _place(message: Message) -> Partition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return Partition(topic, partition)


def _original(message: Message) -> Original:
    return Original(message.key(), message.value(), read_headers(message))


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
