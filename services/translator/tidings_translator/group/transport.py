"""Uses Faust as the transport: consumer group, fetching, back-pressure.

The stage gets lists of records (`faust_batches`). Faust never commits (its topics have ``acks=False``): offsets are
committed by the transactional sink, together with what was made of them. The batch goes to one agent, one after the other.

It uses parts of Faust 0.15.3 and aiokafka that are not their public interface (the group coordinator's `generation` and
`member_id`, the conductor's subscription). Both are pinned, and tests/group/test_transport.py fails when one of these changes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import faust
from faust.types import TP

from tidings_domain.errors import TranslatorError
from tidings_service.disk import OwnDirectory
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Batch, Partition
from tidings_translator.group.faust_batches import (
    NEVER_SECONDS,
    BatchSchema,
    BatchTransport,
    Positions,
    assign_all_to_one,
)
from tidings_translator.kafka.transactions import Membership

_BATCHES_QUEUED = 8
_RESUBSCRIBE_SECONDS = 0.2


class TransportError(TranslatorError):
    """Faust stopped."""

    code = "transport"


class GroupConsumer:
    """One member of a consumer group that hands batches to `handle`, one after the other.

    Args:
        handle: processes a batch; when it raises, nothing more is handed out and `failed` is set.
        on_revoked: awaited before partitions are given up.
        on_gone: told the offsets that are to be read next and are not there any more; raises what it is.
        exclusive: one member gets all partitions (see `AllToOneAssignor`).
    """

    def __init__(
        self,
        *,
        kafka: KafkaAccess,
        group: str,
        instance: str,
        topics: Iterable[str],
        handle: Callable[[Batch], Awaitable[None]],
        on_revoked: Callable[[], Awaitable[None]],
        on_gone: Callable[[dict[Partition, int]], Awaitable[None]],
        exclusive: bool = False,
        session_timeout_seconds: float = 10.0,
    ) -> None:
        self._handle = handle
        self._on_revoked = on_revoked
        self._on_gone = on_gone
        self._group = group
        self._start: asyncio.Task[Any] | None = None
        self._handled = 0
        self._passed = Positions(-1, {})
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._directory = OwnDirectory("tidings-faust-")
        assign_all_to_one(exclusive=exclusive)
        self._app = self._make_app(kafka, instance, session_timeout_seconds)
        self._channel = self._app.topic(*topics, schema=BatchSchema(), acks=False)
        self._app.agent(self._channel, name="batches")(self._consume)
        self._app.on_partitions_revoked.connect(self._revoked, weak=False)

    def _make_app(self, kafka: KafkaAccess, instance: str, session_timeout_seconds: float) -> Any:
        app = faust.App(
            self._group,
            broker=";".join(f"kafka://{server.strip()}" for server in kafka.bootstrap.split(",")),
            datadir=self._directory.path,
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
            broker_commit_livelock_soft_timeout=NEVER_SECONDS,
            stream_processing_timeout=NEVER_SECONDS,
        )
        app.boot_strategy.enable_kafka_producer = False  # nothing is produced through Faust
        app.in_worker = True  # `app.start` does not set it outside Faust's own worker
        app.loop = asyncio.get_running_loop()
        app.transport = BatchTransport(app.conf.broker, app)
        app.transport.on_gone = self._gone
        app.transport.kafka = kafka
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

    def passed(self, generation: int) -> dict[Partition, int]:
        """For each partition an offset below which every record was handled in this generation of the group.

        It may be beyond the last record: transactions leave control records, which are never delivered.
        """
        passed = self._app.consumer.passed
        while passed and passed[0][0] <= self._handled:
            _, self._passed = passed.popleft()
        return self._passed.offsets if self._passed.generation == generation else {}

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Fetch nothing from these partitions until the next call; replaces what was paused before."""
        self._app.consumer.not_fetched = frozenset(TP(*p) for p in partitions)

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
            number: int = message.checksum  # see `faust_batches`
            batch = Batch(Partition(*message.tp), message.generation_id, event.value)
            try:
                await self._handle(batch)
            except Exception as error:  # noqa: BLE001 - an agent that raises would lose the batch; the process ends
                self._fail(error)
            else:
                self._handled = max(self._handled, number)

    async def _gone(self, offsets: dict[Partition, int]) -> None:
        try:
            await self._on_gone(offsets)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            self._fail(error)

    async def _revoked(self, *_args: Any, **_options: Any) -> None:
        await self._on_revoked()
        consumer = self._app.consumer
        self._handled = max(self._handled, consumer.handed_out)  # Faust has emptied the queue
        consumer.passed.clear()


def quieten_faust() -> None:
    """Faust and mode tell each step of each rebalance, httpx each request; keep what matters."""
    for name in ("faust", "mode", "aiokafka", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
