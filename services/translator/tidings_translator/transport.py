"""Faust as the transport: consumer group, fetching, back-pressure; the only module that imports faust and aiokafka.

Faust's cost is one event per message, so its consumer is told to make one event of each fetched batch; the stage gets
lists of records. Faust never commits (its topics have ``acks=False``): offsets are committed by the transactional sink,
together with what was made of them. The batch goes to one agent, one after the other.

It uses parts of Faust 0.15.3 and aiokafka that are not their public interface (`Consumer.getmany`, `_wait_next_records`,
`perform_seek`, the group coordinator's `generation` and `member_id`, the conductor's subscription). Both are pinned, and
tests/test_transport.py fails when one of these changes.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from tidings_service import get_logger
from tidings_translator.errors import TranslatorError
from tidings_translator.kafka import Membership
from tidings_translator.records import Batch, Partition

log = get_logger(__name__)

_NEVER_SECONDS = 10**9
_BATCH_RECORDS = 1_000
_BATCHES_QUEUED = 8
_QUIET_SECONDS = 0.4
_RESUBSCRIBE_SECONDS = 0.2


class TransportError(TranslatorError):
    """Faust stopped."""

    code = "transport"


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


class BatchConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread with our own client settings: read_committed, and the assignor of the stage."""

    logger = logging.getLogger("faust.consumer")
    assignor: type[AbstractPartitionAssignor] = RoundRobinPartitionAssignor

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        conf = self.app.conf
        self._assignor = self.assignor
        return AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            partition_assignment_strategy=[self._assignor],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=500,
            max_partition_fetch_bytes=conf.consumer_max_fetch_size,
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            max_poll_interval_ms=_NEVER_SECONDS,  # the sink's deadline watches over progress
            metadata_max_age_ms=conf.consumer_metadata_max_age_ms,
            check_crcs=False,
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


class _Position(NamedTuple):
    """Where the fetcher was, when so many batches had been handed out."""

    offset: int
    handed_out: int
    at: float


class GroupConsumer:
    """One member of a consumer group that hands batches to `handle`, one after the other.

    Args:
        handle: processes a batch; when it raises, nothing more is handed out and `failed` is set.
        on_revoked: awaited before partitions are given up.
        exclusive: one member gets all partitions (see `AllToOneAssignor`).
    """

    def __init__(
        self,
        *,
        bootstrap: str,
        group: str,
        instance: str,
        topics: Iterable[str],
        handle: Callable[[Batch], Awaitable[None]],
        on_revoked: Callable[[], Awaitable[None]],
        exclusive: bool = False,
        session_timeout_seconds: float = 10.0,
    ) -> None:
        self._handle = handle
        self._on_revoked = on_revoked
        self._group = group
        self._start: asyncio.Task[Any] | None = None
        self._handled = 0
        self._positions: dict[Partition, _Position] = {}
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._directory = tempfile.TemporaryDirectory(prefix="tidings-faust-")
        BatchConsumerThread.assignor = AllToOneAssignor if exclusive else RoundRobinPartitionAssignor
        self._app = self._make_app(bootstrap, instance, session_timeout_seconds)
        self._channel = self._app.topic(*topics, schema=BatchSchema(), acks=False)
        self._app.agent(self._channel, name="batches")(self._consume)
        self._app.on_partitions_revoked.connect(self._revoked, weak=False)

    def _make_app(self, bootstrap: str, instance: str, session_timeout_seconds: float) -> Any:
        app = faust.App(
            self._group,
            broker=";".join(f"kafka://{server.strip()}" for server in bootstrap.split(",")),
            datadir=Path(self._directory.name),
            autodiscover=False,
            web_enabled=False,
            logging_config=None,
            loghandlers=[],
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            stream_buffer_maxsize=_BATCHES_QUEUED,
            stream_wait_empty=False,
            consumer_max_fetch_size=1 << 20,
            broker_session_timeout=session_timeout_seconds,
            broker_heartbeat_interval=session_timeout_seconds / 4,
            broker_rebalance_timeout=session_timeout_seconds * 2,
            broker_request_timeout=max(session_timeout_seconds * 1.5, 30.0),
            consumer_group_instance_id=instance,
            consumer_metadata_max_age_ms=10_000,
            # Commits are the sink's, so Faust's watchdogs over its own would only mislead.
            broker_commit_livelock_soft_timeout=_NEVER_SECONDS,
            stream_processing_timeout=_NEVER_SECONDS,
        )
        app.in_worker = True  # `app.start` does not set it outside Faust's own worker
        app.loop = asyncio.get_running_loop()
        app.transport = BatchTransport(app.conf.broker, app)
        app.topics._resubscribe_sleep_lock_seconds = _RESUBSCRIBE_SECONDS  # type: ignore[attr-defined]  # noqa: SLF001 - 45 s otherwise
        return app

    # --- life

    def start(self) -> None:
        """Join the group; not awaited, because joining can take long and a stop must be possible meanwhile."""
        self._start = asyncio.create_task(self._app.start(), name="faust")
        self._start.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def stopped(self) -> None:
        """Returns when Faust has stopped; unless it was told to, that is a failure."""
        await self._app.wait_until_stopped()
        self._fail(self._app.crash_reason or TransportError("Faust stopped by itself"))

    async def stop(self, timeout_seconds: float) -> None:
        """Leave the group and stop. The caller must not rely on it: Faust's consumer thread was seen to hang.

        Raises:
            TransportError: it took longer than `timeout_seconds`.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._app.stop()
        except TimeoutError as error:
            raise TransportError(f"Faust did not stop within {timeout_seconds:g} s") from error
        finally:
            self._directory.cleanup()

    def suspend(self) -> None:
        """Hand out no more batches."""
        if self._app.started:
            self._app.flow_control.suspend()

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    # --- what the group says

    def membership(self) -> Membership:
        """This process's place in the group now; generation -1 while it has none."""
        consumer = self._app.consumer._thread._consumer  # noqa: SLF001 - see the module's text
        coordinator = None if consumer is None else consumer._coordinator  # noqa: SLF001
        if coordinator is None:  # Faust says it has started before its consumer's thread has
            return Membership(self._group, "", -1, None)
        return Membership(
            self._group,
            coordinator.member_id,
            coordinator.generation,
            coordinator._group_instance_id,  # noqa: SLF001
        )

    def assignment(self) -> set[Partition]:
        """The partitions of this member."""
        if not self._app.started or self._app.rebalancing:
            return set()
        return {Partition(tp.topic, tp.partition) for tp in self._app.consumer.assignment()}

    @property
    def joined(self) -> bool:
        """Whether the member is in the group and not rebalancing; it may have no partitions and stand by."""
        return bool(self._app.started and not self._app.rebalancing and self.membership().generation > 0)

    def highwater(self, partition: Partition) -> int | None:
        """The end of a partition as of the last fetch, None before it."""
        if not self._app.started:
            return None
        end: int | None = self._app.consumer.highwater(TP(*partition))
        return end

    async def quiet_position(self, partition: Partition) -> int | None:
        """The offset below which every record of the partition was handled; None while that is not certain.

        It may be beyond the last record: transactions leave control records, which are never delivered. Certain is what
        was true at two calls between which nothing was handed out.
        """
        consumer = self._app.consumer
        now = time.monotonic()
        known = self._positions.get(partition)
        if consumer.in_hand or self._handled < consumer.handed_out:
            self._positions.pop(partition, None)
            return None
        handed_out: int = consumer.handed_out
        position = await consumer.position(TP(*partition))
        if position is None:
            return None
        if known is None or known.handed_out != handed_out:
            known = self._positions[partition] = _Position(int(position), handed_out, now)
        # Records that had been fetched by then would have been handed out since.
        settled = known.offset if now - known.at >= _QUIET_SECONDS else None
        if settled is not None and settled != position:
            self._positions[partition] = _Position(int(position), handed_out, now)
        return settled

    def hold(self, partitions: Iterable[Partition]) -> None:
        """Fetch nothing from these partitions until told otherwise; replaces what was held before."""
        self._app.consumer.held = frozenset(TP(*p) for p in partitions)

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Also read these topics, from their beginning; the group rebalances. False if they all were read already."""
        new = [topic for topic in topics if topic not in self._channel.topics]
        if not new:
            return False
        for channel in {id(c): c for c in (self._channel, *self._app.topics._topics)}.values():  # noqa: SLF001
            channel.topics = [*channel.topics, *new]
        changed = self._app.topics._subscription_changed  # noqa: SLF001
        if changed is not None:
            changed.set()
        return True

    # --- Faust's calls

    async def _consume(self, stream: Any) -> None:
        async for event in stream.events():
            if self.failed.done():
                continue  # nothing behind a batch that failed
            message = event.message
            batch = Batch(Partition(*message.tp), message.generation_id, event.value)
            try:
                await self._handle(batch)
            except Exception as error:  # noqa: BLE001 - an agent that raises would lose the batch; the process ends
                self._fail(error)
            self._handled += 1

    async def _revoked(self, *_args: Any, **_options: Any) -> None:
        await self._on_revoked()
        self._handled = self._app.consumer.handed_out  # Faust has emptied the queue


def quieten_faust() -> None:
    """Faust and mode tell each step of each rebalance, httpx each request; keep what matters."""
    for name in ("faust", "mode", "aiokafka", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
