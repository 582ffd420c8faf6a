"""What both stages are: a process with a consumer group, a transactional sink, health pages, and one way to end.

A stage implements `Work`: it gets batches, and ticks twice a second, never both at once. The process ends with 0 after
SIGTERM (what was begun is committed first), and with an error when anything failed: then no offset has moved, and the
next process goes on from what was committed.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, Protocol

import tidings_service.login_metrics  # noqa: F401 - registers the metric
from tidings_domain.errors import TranslatorError
from tidings_envelope.errors import EnvelopeError
from tidings_service import Health, Retry, TidingsError, get_logger, report_error, serve_http
from tidings_service.logins import show_login
from tidings_translator.base import metrics
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.fault_points import reached
from tidings_translator.base.records import Batch, Partition
from tidings_translator.base.settings import StageSettings
from tidings_translator.group.transport import GroupConsumer, quieten_faust
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.retention import Retention
from tidings_translator.kafka.topics import TopicPlan, Topics
from tidings_translator.kafka.transactions import TransactionalProducer
from tidings_translator.ledger.ledger import Ledger
from tidings_translator.stage.beginnings import note_distances, position_of
from tidings_translator.stage.sink import TransactionalSink

log = get_logger("tidings_translator.stage")

_SAY_AGAIN_SECONDS = 60.0
_TICK_SECONDS = 0.5
_DRAIN_SECONDS = 10.0
_STOP_SECONDS = 15.0
_WAIT_FOR_TOPICS_SECONDS = 1.0
_DISTANCE_SECONDS = 15.0
"""How often Kafka is asked where logs begin, for the metrics."""


class Work(Protocol):
    """What a stage does with its records."""

    async def handle(self, batch: Batch) -> None:
        """Process one batch."""

    async def tick(self) -> None:
        """Twice a second."""

    def unrestored(self) -> int:
        """Of the partitions that are ours those whose state is not read back yet."""

    def source_topics(self, topics: dict[str, int]) -> tuple[list[str], str | None]:
        """Of the topics that exist those to read, and what is missing to begin with, in words."""

    def topic_plans(self, topics: dict[str, int]) -> list[TopicPlan]:
        """The topics that this stage needs to exist."""


class Stage:
    """The parts that a stage's work uses."""

    def __init__(self, name: str, settings: StageSettings, group: str, transactional_id: str) -> None:
        self.name = name
        self.settings = settings
        self.group = group
        self.health = Health()
        self.topics = Topics(settings.kafka_access)
        self.offsets = Offsets(
            settings.kafka_access, group, transaction_seconds=settings.transaction_timeout_seconds
        )
        producer = TransactionalProducer(
            settings.kafka_access,
            transactional_id,
            transaction_timeout_seconds=settings.transaction_timeout_seconds,
        )
        self._consumer: GroupConsumer | None = None
        self.sink = TransactionalSink(
            producer,
            lambda: self.consumer.membership(),  # noqa: PLW0108 - the consumer does not exist yet
            stage=name,
            deadline_seconds=settings.transaction_deadline_seconds,
        )
        self._lock = asyncio.Lock()
        self.committed: dict[Partition, int] = {}
        self._ended = False
        self._away_since: float | None = None
        self._away_said: float | None = None
        self._measured_at = -_DISTANCE_SECONDS
        self._handled: dict[Partition, int] = {}

    @property
    def consumer(self) -> GroupConsumer:
        """The member of the consumer group; exists once the source topics do."""
        assert self._consumer is not None
        return self._consumer

    async def run(self, work: Work, stop: asyncio.Event, *, exclusive: bool) -> int:
        """Work until `stop` is set or something fails.

        Returns:
            The exit code. (It does not return when Faust's thread hangs at the end: then the process ends here.)
        """
        quieten_faust()
        server = await serve_http(self.health, self.settings.http_host, self.settings.http_port)
        log.info("listening", url=server.url)
        try:
            topics = await self._wait_for_topics(work, stop)
            if stop.is_set():
                return 0
            # Faust's consumer would go on trying without a right to the group; this is an error that says so.
            await asyncio.to_thread(self.offsets.committed, [Partition(topics[0], 0)])
            self._consumer = GroupConsumer(
                kafka=self.settings.kafka_access,
                group=self.group,
                instance=self.settings.instance,
                topics=topics,
                handle=lambda batch: self._handle(work, batch),
                on_revoked=self._revoked,
                on_gone=self._gone,
                exclusive=exclusive,
                session_timeout_seconds=self.settings.session_timeout_seconds,
            )
            return await self._run(work, stop)
        finally:
            await server.close()

    async def _run(self, work: Work, stop: asyncio.Event) -> int:
        consumer = self.consumer
        consumer.start()
        tasks: list[asyncio.Future[Any]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(consumer.stopped()),
            asyncio.create_task(self._ticks(work)),
            consumer.failed,
            self.sink.failed,
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        error = _first_error(tasks)
        if error is not None:
            self.health.fail(str(error))
        code = 0 if error is None else _report(error, self.group)
        consumer.suspend()
        if error is None and not await self.sink.drain(_DRAIN_SECONDS):
            log.warning("what was pending at the stop was not committed; the next process makes it again")
        await self.sink.stop()
        for task in tasks[:3]:
            task.cancel()
        try:
            await consumer.stop(_STOP_SECONDS)
        except TranslatorError as stop_error:
            log.warning("stopping took too long", error=str(stop_error))
        log.info("stopped", code=code)
        return _leave(code)

    async def _wait_for_topics(self, work: Work, stop: asyncio.Event) -> list[str]:
        said = None
        have = await asyncio.to_thread(self.topics.partitions)  # a broker that never answered is an error
        while not stop.is_set():
            names, missing = work.source_topics(have)
            if missing is None:
                plans = work.topic_plans(have)
                await asyncio.to_thread(self.topics.create, plans, replication=self.settings.replication)
                # Those that were made this moment are as they should be, and brokers may not know them yet.
                former = [plan for plan in plans if plan.name in have]
                await asyncio.to_thread(Retention(self.settings.kafka_access).keep, former)
                self.health.set("topics", True, ", ".join(names))
                return names
            self.health.set("topics", False, f"waiting for topics: {missing}")
            if missing != said:
                await asyncio.to_thread(self.topics.check_visible, missing)
                log.info("waiting for topics", missing=missing)
                said = missing
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_FOR_TOPICS_SECONDS):
                    await stop.wait()
            try:
                have = await asyncio.to_thread(self.topics.partitions)
            except BrokerError as error:
                self.health.set("topics", False, str(error))
        return []

    async def _locked(self, call: Coroutine[Any, Any, None]) -> None:
        async with self._lock:
            await call

    async def _handle(self, work: Work, batch: Batch) -> None:
        await self._locked(work.handle(batch))
        reached("batch.handled")
        if batch.records:
            self._handled[batch.partition] = batch.records[-1].offset + 1

    async def _revoked(self) -> None:
        reached("revoked")
        if not await self.sink.drain(_DRAIN_SECONDS):
            log.warning("partitions are given up with work that is not committed; it is dropped")
        reached("drained")

    async def _gone(self, offsets: dict[Partition, int]) -> None:
        """Raises the gap that a fetch has found."""
        partition_offsets = await asyncio.to_thread(self.offsets.partition_offsets, offsets)
        for partition, offset in offsets.items():
            position_of(partition, partition_offsets[partition]._replace(committed=offset), known=True)

    async def _ticks(self, work: Work) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            show_login(self.health)
            joined = self.consumer.joined
            self._show_group(work, joined=joined)
            if joined:
                await self._tick(work)
                self._show_group(work, joined=self.consumer.joined)

    async def _tick(self, work: Work) -> None:
        try:
            await self._locked(work.tick())
            await self._measure_distance()
        except BrokerError as error:
            if error.retry is not Retry.TIMED:
                raise  # a right is missing
            # Nothing was done that could be lost; the consumer comes back when the broker does.
            self.health.set("kafka", False, str(error))
            self._say_away(error)
        else:
            self.health.set("kafka", True)
            if self._away_since is not None:
                log.info("Kafka is back", seconds=round(time.monotonic() - self._away_since, 1))
                self._away_since = self._away_said = None
            self._measure_lag()

    def _say_away(self, error: BrokerError) -> None:
        """Once, and again every minute while it lasts: ticks come twice a second."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        if self._away_said is None or now - self._away_said >= _SAY_AGAIN_SECONDS:
            self._away_said = now
            log.warning("Kafka is away", error=str(error), seconds=round(now - self._away_since, 1))

    def _show_group(self, work: Work, *, joined: bool) -> None:
        mine, missing = (len(self.consumer.assignment()), work.unrestored()) if joined else (0, 0)
        if not joined:
            detail = "joining the consumer group"
        elif missing:
            detail = f"reading back the state of {missing} of {mine} partitions"
        else:
            detail = f"{mine} partitions" if mine else "standing by: another member has all partitions"
        self.health.set("group", joined and not missing, detail)

    async def _measure_distance(self) -> None:
        now = time.monotonic()
        if now - self._measured_at < _DISTANCE_SECONDS:
            return
        self._measured_at = now
        starts = await asyncio.to_thread(self.offsets.starts, self.consumer.assignment())
        note_distances(self.name, self.committed, starts)

    def _measure_lag(self) -> None:
        passed = self.passed()
        for partition in self.consumer.assignment():
            end, done = self.consumer.highwater(partition), self.committed.get(partition)
            if end is None or done is None:
                continue
            if self._ended:
                done = end  # nothing that comes will be read
            if done >= self._handled.get(partition, 0):
                # All that was delivered is committed; what may follow are a transaction's control records.
                done = max(done, passed.get(partition, 0))
            metrics.CONSUMER_LAG.labels(self.name, partition.topic, str(partition.partition)).set(
                max(end - done, 0)
            )

    def passed(self) -> dict[Partition, int]:
        """For each partition an offset below which all was handled, also where nothing but control records follows."""
        return self.consumer.passed(self.consumer.membership().generation)

    def note_generation(self, ledger: Ledger, detail: str, *, ended: bool) -> None:
        """Say in health and metrics what this process's generation is doing.

        Args:
            ledger: as of now.
            detail: what is special, in words; empty for nothing.
            ended: this process will do nothing more for its generation, so that nothing is to be waited for.
        """
        name = self.settings.generation
        self._ended = ended
        self.health.set("generation", True, f"{name}: {detail or ledger.status(name)}")
        metrics.GENERATION_PUBLISHES.labels(name).set(name == ledger.live)
        metrics.GENERATION_HANDOVER.labels(name).set(ledger.hands_over(name))

    def note_committed(self, offsets: dict[Partition, int]) -> Callable[[], None]:
        """A callback for the sink that keeps the lag metric."""
        return lambda: self.committed.update(offsets)


def _first_error(tasks: Iterable[asyncio.Future[Any]]) -> BaseException | None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            return error
    return None


def _report(error: BaseException, service: str) -> int:
    if isinstance(error, TidingsError):
        return report_error(error, service=service)
    if isinstance(error, EnvelopeError):
        named = TranslatorError(str(error), hint=error.hint, retry=Retry(error.retry))
        return report_error(named, service=service)
    if type(error).__module__.startswith("aiokafka"):
        return report_error(
            BrokerError(
                f"the consumer group failed: {type(error).__name__}", hint="TIDINGS_KAFKA, TIDINGS_INSTANCE"
            ),
            service=service,
        )
    log.error("the service stopped on an unexpected error", exc_info=error)
    return 70


def _leave(code: int) -> NoReturn:
    """End the process: a consumer thread of Faust's that hangs must not keep it."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
