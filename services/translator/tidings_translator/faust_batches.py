"""Faust, told to hand on what was fetched batch by batch: its consumer, transport, schema, and the assignors.

Faust's cost is one event per message, so its consumer is told to make one event of each fetched batch.

It uses parts of Faust 0.15.3 and aiokafka that are not their public interface (`Consumer.getmany`, `_wait_next_records`,
`perform_seek`). Both are pinned, and tests/test_transport.py fails when one of these changes.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from tidings_service import get_logger
from tidings_translator.sharing import decode_places, encode_places, share_out

log = get_logger(__name__)

NEVER_SECONDS = 10**9
"""For time limits of Faust's and aiokafka's that the sink's deadline stands in for."""
_BATCH_RECORDS = 1_000


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

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        conf = self.app.conf
        return AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            partition_assignment_strategy=list(self.assignors),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
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
        )


def assign_all_to_one(*, exclusive: bool) -> None:
    """Say how this process's group shares partitions out, before its member is made."""
    # The second is for members of an older version beside this one: a group takes what all of them have.
    BatchConsumerThread.assignors = (
        (AllToOneAssignor,) if exclusive else (KeepingAssignor, RoundRobinPartitionAssignor)
    )


class BatchConsumer(driver.Consumer):
    """Faust's consumer with one message per fetched batch, and partitions that can be held back."""

    logger = logging.getLogger("faust.consumer")
    held: frozenset[TP] = frozenset()
    handed_out = 0
    """Batches handed to the agent so far."""
    in_hand = False
    """Records were fetched, and not all of them are handed out."""

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        # Faust's own pause is undone when a full queue drains, so held partitions are left out here. aiokafka keeps at
        # most one fetch of a partition that nobody asks for.
        if active_partitions is not None and self.held:
            active_partitions = active_partitions - self.held
            if not active_partitions:
                await self.sleep(0.05)
                return {}
        # A short wait, so that a partition that is released meanwhile is asked for soon.
        return await super()._getmany(active_partitions, min(timeout, 0.25))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        records, active = await self._wait_next_records(timeout)
        generation = self.app.consumer_generation_id
        if records is None or self.should_stop:
            return
        if not self.flow_active:
            # Fetched while a rebalance began: what was read is thrown away, so go back.
            await self._seek_back()
            return
        self.in_hand = bool(records)
        try:
            async for tp, message in self._batches(records, active, generation):
                self.handed_out += 1
                yield tp, message
        finally:
            self.in_hand = False

    async def _batches(
        self, records: Any, active: set[TP] | None, generation: int
    ) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        for fetched_from, found in records.items():
            tp = TP(fetched_from.topic, fetched_from.partition)
            if not found or (active is not None and tp not in active and tp not in self._buffered_partitions):
                continue
            for start in range(0, len(found), _BATCH_RECORDS):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    return
                yield tp, _message(tp, found[start : start + _BATCH_RECORDS], generation)

    async def _seek_back(self) -> None:
        try:
            await self.perform_seek()
        except Exception as error:  # noqa: BLE001 - the rebalance that is under way seeks again
            log.warning("seeking back failed while the flow was stopped", error=repr(error))


def _message(tp: TP, records: list[Any], generation: int) -> ConsumerMessage:
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
        None,
        0,
        0,
        tp,
        generation_id=generation,
    )


class BatchTransport(driver.Transport):
    """The aiokafka transport with `BatchConsumer`."""

    Consumer = BatchConsumer


class BatchSchema(faust.Schema[Any, Any]):
    """No decoding: an event's value is the list of records."""

    def compile(self, app: Any, **_options: Any) -> Callable[..., Awaitable[Any]]:
        create_event = app.create_event

        async def decode(message: Any, *, propagate: bool = False) -> Any:  # noqa: ARG001 - Faust's signature
            return create_event(None, message.value, message.headers, message)

        return decode
