"""Makes Faust hand on what was fetched batch by batch: its consumer, transport, schema, and the assignors.

Faust's cost is one event per message, so its consumer is told to make one event of each fetched batch.

It uses parts of Faust 0.15.3 and aiokafka that are not their public interface (`Consumer.getmany`, `_wait_next_records`,
`perform_seek`, the fetcher's positions, `FetchResult.getall`). Both are pinned, and tests/group/test_transport.py fails when one of these changes.
"""

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from tidings_service import get_logger
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.group import faust_login
from tidings_translator.group.header_names import read_any_header_name
from tidings_translator.group.sharing import decode_places, encode_places, share_out

log = get_logger("tidings_translator.faust_batches")

NEVER_SECONDS = 10**9
"""For time limits of Faust's and aiokafka's that the sink's deadline stands in for."""
_BATCH_RECORDS = 1_000
_BATCH_BYTES = 4 << 20
"""What follows from a batch is in memory as a whole, several times over; and as much of each partition is unpacked at a time."""
_POSITIONS_SECONDS = 0.2
"""How often the fetcher's positions are looked at."""


class Positions(NamedTuple):
    """Where a fetcher was in one generation of the group; beyond the last record also behind control records."""

    generation: int
    offsets: dict[Partition, int]
    assignment: object = None
    """aiokafka's, of which there is another one after each rebalance."""


class _FetchResult(fetcher.FetchResult):  # type: ignore[misc]  # aiokafka has no types
    """What was fetched of one partition: unpacked by bytes, since what compresses well may be a thousand times as large."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[Any]:
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            return []
        unpacked: list[Any] = []
        size = 0
        for record in self._partition_records:
            unpacked.append(record)
            size += len(record.value or b"")
            if size >= _BATCH_BYTES or len(unpacked) == max_records:
                self._update_position()
                return unpacked
        self._update_position()
        self._partition_records = None
        return unpacked


fetcher.FetchResult = _FetchResult
read_any_header_name()


class AllToOneAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Gives every partition to one member; the others stand by.

    A write-ahead log is serial: whoever puts its transactions together needs all partitions of the source. The member
    that has them keeps them (it says so in its user data), else the first by id takes over.
    """

    name = "tidings-all-to-one"
    version = 0
    _owner = b""

    @classmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        owner = min(members, key=lambda member: (members[member].user_data != b"owner", member))
        topics = sorted({topic for metadata in members.values() for topic in metadata.subscription})
        everything = [
            (topic, sorted(partitions))
            for topic in topics
            if (partitions := cluster.partitions_for_topic(topic)) is not None
        ]
        return {
            member: ConsumerProtocolMemberAssignment(cls.version, everything if member == owner else [], b"")
            for member in members
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), cls._owner)

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        cls._owner = b"owner" if assignment.partitions() else b""


class KeepingAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Shares partitions evenly and moves few: a member that keeps a partition keeps its state in memory."""

    name = "tidings-keeping"
    version = 0
    _owned: Iterable[tuple[str, int]] = ()

    @classmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        topics = sorted({topic for metadata in members.values() for topic in metadata.subscription})
        places = [(topic, n) for topic in topics for n in cluster.partitions_for_topic(topic) or ()]
        shares = share_out(
            places, {name: decode_places(told.user_data or b"") for name, told in members.items()}
        )
        return {
            member: ConsumerProtocolMemberAssignment(
                cls.version, [(topic, [n for name, n in share if name == topic]) for topic in topics], b""
            )
            for member, share in shares.items()
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), encode_places(list(cls._owned)))

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        cls._owned = [(place.topic, place.partition) for place in assignment.partitions()]


class BatchConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread with our own client settings: read_committed, and the assignor of the stage."""

    logger = logging.getLogger("faust.consumer")
    assignors: tuple[type[AbstractPartitionAssignor], ...] = ()
    positions: Positions | None = None
    """Where the fetcher was when it last gave records, or found none."""
    _looked_at = 0.0

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        conf = self.app.conf
        kafka = cast("BatchTransport", transport).kafka
        login = faust_login.arguments(kafka)
        faust_login.hear_refusals(kafka)
        consumer = AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            partition_assignment_strategy=list(self.assignors),
            enable_auto_commit=False,
            auto_offset_reset="none",  # `seek_to_committed` says where to begin; a gap is an error
            isolation_level="read_committed",
            fetch_max_wait_ms=500,
            max_partition_fetch_bytes=conf.consumer_max_fetch_size,
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            max_poll_interval_ms=NEVER_SECONDS,  # the sink's deadline watches over progress
            metadata_max_age_ms=conf.consumer_metadata_max_age_ms,
            check_crcs=False,
            **login,
        )
        faust_login.keep_up(consumer, kafka, login)
        return consumer

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Where each partition is read on: also those of which nothing was committed, which begin where their log does."""
        return cast("Mapping[TP, int]", await self.call_thread(self._seek, self._ensure_consumer()))

    async def _seek(self, consumer: AIOKafkaConsumer) -> Mapping[Any, int | None]:
        found: dict[Any, int | None] = await consumer.seek_to_committed()
        mine = {
            partition: offset for partition, offset in found.items() if partition in consumer.assignment()
        }
        for partition, offset in mine.items():
            if offset == 0:  # which aiokafka takes for none, so that it would read on where it is
                consumer.seek(partition, 0)
        if fresh := [partition for partition, offset in mine.items() if offset is None]:
            await consumer.seek_to_beginning(*fresh)
        return found

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Any:
        records = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        # Here, before the fetcher goes on: all that is below these positions is in `records` or was before.
        now = time.monotonic()
        if now - self._looked_at >= _POSITIONS_SECONDS:
            self._looked_at = now
            self.positions = _positions(consumer)
        return records

    def is_current(self, positions: Positions) -> bool:
        """Whether no rebalance was since."""
        assignment = _assignment(self._ensure_consumer())
        return positions.assignment is assignment and assignment is not None


def _assignment(consumer: AIOKafkaConsumer) -> Any:
    subscription = consumer._subscription.subscription  # noqa: SLF001 - see the module's text
    return None if subscription is None else subscription.assignment


def _positions(consumer: AIOKafkaConsumer) -> Positions | None:
    assignment = _assignment(consumer)
    if assignment is None:
        return None
    states = ((tp, assignment.state_value(tp)) for tp in assignment.tps)
    offsets = {Partition(*tp): state.position for tp, state in states if state.has_valid_position}
    return Positions(consumer._coordinator.generation, offsets, assignment)  # noqa: SLF001 - see the module's text


def assign_all_to_one(*, exclusive: bool) -> None:
    """Say how this process's group shares partitions out, before its member is made."""
    # The second is for members of an older version beside this one: a group takes what all of them have.
    BatchConsumerThread.assignors = (
        (AllToOneAssignor,) if exclusive else (KeepingAssignor, RoundRobinPartitionAssignor)
    )


class BatchConsumer(driver.Consumer):
    """Faust's consumer with one message per fetched batch, and partitions that can be paused."""

    logger = logging.getLogger("faust.consumer")
    not_fetched: frozenset[TP] = frozenset()
    handed_out = 0
    """Batches handed to the agent so far."""
    passed: deque[tuple[int, Positions]]
    """Positions that are certain once so many batches are handled, oldest first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.passed = deque()

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        # Faust's own pause is undone when a full queue drains, so paused partitions are left out here. aiokafka keeps at
        # most one fetch of a partition that nobody asks for.
        if active_partitions is not None and self.not_fetched:
            active_partitions = active_partitions - self.not_fetched
            if not active_partitions:
                await self.sleep(0.05)
                return {}
        try:
            # A short wait, so that a partition that is released meanwhile is asked for soon.
            return await super()._getmany(active_partitions, min(timeout, 0.25))
        except NoOffsetForPartitionError:
            return {}  # it was assigned this moment, and `seek_to_committed` is about to say where it begins
        except OffsetOutOfRangeError as error:
            [gone] = error.args
            await cast("BatchTransport", self.transport).on_gone(
                {Partition(tp.topic, tp.partition): offset for tp, offset in gone.items()}
            )
            return {}

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        records, active = await self._wait_next_records(timeout)
        generation = self.app.consumer_generation_id
        if records is None or self.should_stop:
            return
        if not self.flow_active:
            # Fetched while a rebalance began: what was read is thrown away, so go back.
            await self._seek_back()
            return
        thread = cast("BatchConsumerThread", self._thread)
        positions = thread.positions
        async for tp, message in self._batches(records, active, generation):
            yield tp, message
        if (
            positions is not None
            and positions.generation == generation == self.app.consumer_generation_id
            and thread.is_current(positions)
            and (not self.passed or self.passed[-1][1] is not positions)
        ):
            self.passed.append((self.handed_out, positions))

    async def _batches(
        self, records: Any, active: set[TP] | None, generation: int
    ) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        for fetched_from, found in records.items():
            tp = TP(fetched_from.topic, fetched_from.partition)
            if not found or (active is not None and tp not in active and tp not in self._buffered_partitions):
                continue
            start = 0
            while start < len(found):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    return
                end = _batch_end(found, start)
                self.handed_out += 1
                yield tp, _message(tp, found[start:end], generation, self.handed_out)
                start = end

    async def _seek_back(self) -> None:
        try:
            await self.perform_seek()
        except Exception as error:  # noqa: BLE001 - the rebalance that is under way seeks again
            log.warning("seeking back failed while the flow was stopped", error=repr(error))


def _batch_end(records: list[Any], start: int) -> int:
    """Where the batch ends that begins at `start`: with its last record or its last byte."""
    size, end, last = 0, start, min(start + _BATCH_RECORDS, len(records))
    while end < last and size < _BATCH_BYTES:
        size += len(records[end].value or b"")
        end += 1
    return end


def _message(tp: TP, records: list[Any], generation: int, number: int) -> ConsumerMessage:
    last = records[-1]
    return ConsumerMessage(
        tp.topic,
        tp.partition,
        last.offset,
        last.timestamp / 1000.0,
        last.timestamp_type,
        None,
        None,
        cast("bytes", records),  # BatchSchema hands it on as it is
        cast("bytes", number),  # in the place of a checksum, which nobody looks at
        0,
        0,
        tp,
        generation_id=generation,
    )


class BatchTransport(driver.Transport):
    """The aiokafka transport with `BatchConsumer`."""

    Consumer = BatchConsumer
    kafka: KafkaAccess
    on_gone: Callable[[dict[Partition, int]], Awaitable[None]]
    """Told of offsets that are to be read next and are not there any more; it ends the process."""


class BatchSchema(faust.Schema[Any, Any]):
    """No decoding: an event's value is the list of records."""

    def compile(self, app: Any, **_options: Any) -> Callable[..., Awaitable[Any]]:
        create_event = app.create_event

        async def decode(message: Any, *, propagate: bool = False) -> Any:  # noqa: ARG001 - Faust's signature
            return create_event(None, message.value, message.headers, message)

        return decode
