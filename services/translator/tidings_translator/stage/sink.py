"""Gathers what a stage produces and commits it, one Kafka transaction after the other.

A transaction runs in a thread while the stage makes the next one's contents. Whatever a stage adds belongs to one
generation of the consumer group; when the group has moved on, the work of the old generation is dropped (nothing of it
was committed, and the new owner of the partitions makes it again). Any other failure ends the process: `failed` is
set, nothing is committed any more, and no offset has moved.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidings_domain.errors import TranslatorError
from tidings_service import get_logger
from tidings_translator.base import metrics
from tidings_translator.base.errors import BrokerError, FencedError
from tidings_translator.base.records import Output, Partition
from tidings_translator.kafka.transactions import Membership

log = get_logger("tidings_translator.sink")


class Producer(Protocol):
    """What the sink needs of `kafka.transactions.TransactionalProducer`; both calls block."""

    def begin_life(self) -> None: ...

    def transact(
        self,
        outputs: Iterable[Output],
        offsets: Mapping[Partition, int],
        member: Membership,
        *,
        on_retry: Callable[[], None] | None = None,
    ) -> None: ...


@dataclass
class _Work:
    """What the next transaction will hold."""

    generation: int = -1
    outputs: list[Output] = field(default_factory=list)
    offsets: dict[Partition, int] = field(default_factory=dict)
    state: dict[tuple[Partition, bytes], bytes | None] = field(default_factory=dict)
    bytes: int = 0
    """Of values that were added, about: a state that is replaced counts again."""
    on_commit: list[Callable[[], None]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Records; an aggregate's state that is written with its events is not counted for itself."""
        return max(len(self.outputs), len(self.state))

    def all_outputs(self) -> list[Output]:
        changelog = [
            Output(partition.topic, key, value, None, partition.partition)
            for (partition, key), value in self.state.items()
        ]
        return self.outputs + changelog


class TransactionalSink:
    """See the module's text.

    Args:
        producer: commits one transaction at a time.
        membership: this process's place in the consumer group at the moment.
        stage: for metrics.
        max_pending: as many outputs may wait; more make `add` wait.
        max_pending_bytes: and as many bytes of them; twice as much is in memory, with the transaction that is under way.
        deadline_seconds: a transaction that takes longer is a hanging client: librdkafka's calls were seen to outlast
            their timeouts after a broker's crash. The process ends and is started again.
    """

    def __init__(
        self,
        producer: Producer,
        membership: Callable[[], Membership],
        *,
        stage: str,
        max_pending: int = 5_000,
        max_pending_bytes: int = 16 << 20,
        deadline_seconds: float = 45.0,
    ) -> None:
        self._producer = producer
        self._membership = membership
        self._stage = stage
        self._max_pending = max_pending
        self._max_pending_bytes = max_pending_bytes
        self._deadline_seconds = deadline_seconds
        self._work = _Work()
        self._lost_generation = -1
        self._running = False
        self._alive = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def begin_life(self) -> None:
        """Fence predecessors and start; the first call counts.

        Raises:
            BrokerError: Kafka is away, or did not answer before the deadline.
        """
        if self._alive:
            return
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await asyncio.to_thread(self._producer.begin_life)
        except TimeoutError as error:
            raise BrokerError("Kafka did not answer when transactions were begun") from error
        self._alive = True
        self._task = asyncio.create_task(self._run(), name=f"{self._stage} sink")

    def is_lost(self, generation: int) -> bool:
        """Whether work of `generation` has been dropped: nothing of it may be added any more."""
        return generation <= self._lost_generation

    async def add(
        self,
        generation: int,
        offsets: Mapping[Partition, int],
        outputs: Iterable[Output] = (),
        *,
        state: Mapping[tuple[Partition, bytes], bytes | None] | None = None,
        on_commit: Callable[[], None] | None = None,
    ) -> bool:
        """Put outputs, changes of state and offsets into the next transaction; waits while too much is pending.

        `state` maps (changelog partition, key) to the new value; a later value replaces one that is still pending.

        Returns:
            False when the generation was lost: drop what was made in it.
        """
        if self.is_lost(generation) or self.failed.done():
            return False
        if self._work.generation != generation:
            self._drop_pending(f"generation {generation} has begun")
            self._work.generation = generation
        work = self._work
        outputs = list(outputs)
        work.outputs.extend(outputs)
        work.bytes += sum(len(output.value or b"") for output in outputs)
        work.offsets.update(offsets)
        if state:
            work.state.update(state)
            work.bytes += sum(len(value or b"") for value in state.values())
        if on_commit is not None:
            work.on_commit.append(on_commit)
        self._wake.set()
        if self._is_full():
            async with self._changed:
                await self._changed.wait_for(lambda: not self._is_full() or self.failed.done())
        return not self.is_lost(generation) and not self.failed.done()

    def _is_full(self) -> bool:
        return self._work.size >= self._max_pending or self._work.bytes >= self._max_pending_bytes

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until everything added is committed or dropped; False when time ran out or the sink has failed."""
        try:
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(
                    lambda: not (self._work.offsets or self._running) or self.failed.done()
                )
        except TimeoutError:
            return False
        return not self.failed.done()

    async def stop(self) -> None:
        """Stop committing; a transaction in flight is left to its thread."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def drop(self, generation: int, reason: str) -> None:
        """The generation is over: forget what is pending for it and take no more."""
        self._lost_generation = max(self._lost_generation, generation)
        if self._work.generation <= generation:
            self._drop_pending(reason)

    def _drop_pending(self, reason: str) -> None:
        if self._work.offsets:
            log.warning("dropping uncommitted work", reason=reason, outputs=len(self._work.outputs))
            metrics.KAFKA_TRANSACTIONS.labels(self._stage, "dropped").inc()
            self._lost_generation = max(self._lost_generation, self._work.generation)
        self._work = _Work()

    async def _run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._work.offsets:
                    await self._commit_pending()
        except (TranslatorError, TimeoutError) as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, no offset may move past it; the process ends
            self._fail(error)
        finally:
            async with self._changed:
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    async def _commit_pending(self) -> None:
        work, self._work = self._work, _Work(generation=self._work.generation)
        self._running = True
        async with self._changed:
            self._changed.notify_all()
        started = time.monotonic()
        try:
            await self._transact(work, self._member_of(work.generation))
        except FencedError as error:
            metrics.KAFKA_TRANSACTIONS.labels(self._stage, "dropped").inc()
            log.warning("transaction dropped", reason=str(error), outputs=len(work.outputs))
            self.drop(work.generation, str(error))
        else:
            metrics.KAFKA_TRANSACTIONS.labels(self._stage, "committed").inc()
            metrics.KAFKA_TRANSACTION_SECONDS.labels(self._stage).observe(time.monotonic() - started)
            for callback in work.on_commit:
                callback()
        finally:
            self._running = False
            async with self._changed:
                self._changed.notify_all()
            if self._work.offsets:
                self._wake.set()

    def _member_of(self, generation: int) -> Membership:
        member = self._membership()
        if member.generation != generation:
            raise FencedError(f"generation {generation} is over")
        return member

    async def _transact(self, work: _Work, member: Membership) -> None:
        def on_retry() -> None:
            metrics.KAFKA_TRANSACTIONS.labels(self._stage, "retried").inc()

        try:
            # Not asyncio.wait_for: before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(self._deadline_seconds):
                await asyncio.to_thread(
                    self._producer.transact, work.all_outputs(), work.offsets, member, on_retry=on_retry
                )
        except TimeoutError as error:
            raise BrokerError(
                f"a Kafka transaction had no answer after {self._deadline_seconds:g} s; "
                "the process ends, and its successor goes on from what was committed",
                hint="TIDINGS_TRANSACTION_DEADLINE_SECONDS sets the deadline",
            ) from error
