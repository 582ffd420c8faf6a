"""Faust's own losses, on a real Kafka: none of them can happen to a stage.

Faust commits past a record whose agent has raised, only logs an error of publishing and goes on, and with a concurrency
above one commits past what is still in work. Here a stage that meets any of these ends with nothing moved, and its
successor goes on where it was: every record comes out once, in order.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bikes.topics import read_committed
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tidings_service import Health
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Batch, Output, Partition
from tidings_translator.base.settings import TranslatorSettings
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.topics import TopicPlan
from tidings_translator.stage import stage as stage_module
from tidings_translator.stage.stage import Stage

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]

LIMIT = 2_000
"""Bytes of a record that the output topic takes at first."""


class Copy:
    """A stage's work: each record's value goes to the output topic, in its partition; `spoil` may raise, or change it."""

    def __init__(self, stage: Stage, name: str, spoil: "Spoil") -> None:
        self.stage = stage
        self.name = name
        self.spoil = spoil
        self.in_work = 0
        self.most_in_work = 0

    def source_topics(self, topics: dict[str, int]) -> tuple[list[str], str | None]:
        return [self.name], None if self.name in topics else self.name

    def topic_plans(self, topics: dict[str, int]) -> list[TopicPlan]:
        return []

    async def tick(self) -> None: ...

    def unrestored(self) -> int:
        return 0

    def handed_out(self) -> int:
        """Batches that Faust has fetched and queued."""
        batches: int = self.stage.consumer._app.consumer.handed_out
        return batches

    async def handle(self, batch: Batch) -> None:
        self.in_work += 1
        self.most_in_work = max(self.most_in_work, self.in_work)
        try:
            await self._copy(batch)
        finally:
            self.in_work -= 1

    async def _copy(self, batch: Batch) -> None:
        await self.stage.sink.begin_life()
        outputs = []
        for record in batch.records:
            value = await self.spoil(self, record.value or b"")
            outputs.append(Output(f"{self.name}-out", None, value, None, batch.partition.partition))
        offsets = {batch.partition: batch.records[-1].offset + 1}
        await self.stage.sink.add(batch.generation, offsets, outputs)


Spoil = Callable[[Copy, bytes], Awaitable[bytes]]


async def same(_: Copy, value: bytes) -> bytes:
    return value


async def until(true: Callable[[], bool], *, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(true):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


class Run:
    """A source and an output topic of two partitions, and one stage after the other."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.places = [Partition(name, 0), Partition(name, 1)]
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        limit = {"max.message.bytes": str(LIMIT)}
        for future in self.admin.create_topics(
            [NewTopic(name, 2, 1), NewTopic(f"{name}-out", 2, 1, config=limit)]
        ).values():
            future.result()
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True})

    def write(self, partition: int, *values: str) -> None:
        for value in values:
            self.producer.produce(self.name, value.encode(), partition=partition)
        assert self.producer.flush(30) == 0

    def allow(self, size: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", f"{self.name}-out", incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()

    def published(self) -> dict[int, list[str]]:
        """By partition, what a read_committed consumer sees."""
        found: dict[int, list[str]] = {0: [], 1: []}
        for _, message in read_committed(self.bootstrap, [f"{self.name}-out"]):
            found[message.partition()].append(message.value()[:10].rstrip(b".").decode())
        return found

    def committed(self) -> list[int]:
        offsets = Offsets(KafkaAccess(self.bootstrap), f"tidings-translator-{self.name}")
        try:
            return list(offsets.committed(self.places).values())
        finally:
            offsets.close()

    async def live(self, spoil: Spoil, *, done: Callable[[], bool] = lambda: False) -> tuple[int, Copy]:
        """One stage's life, which ends by itself or when `done` says so: its exit code, and its work."""
        settings = TranslatorSettings(
            kafka=self.bootstrap,
            registry="http://127.0.0.1:1",
            domain="bikes",
            source=self.name,
            http_port=0,
            session_timeout_seconds=6,
        )
        stage = Stage("translator", settings, settings.group, settings.group)
        work, stop = Copy(stage, self.name, spoil), asyncio.Event()
        running = asyncio.create_task(stage.run(work, stop, exclusive=False))
        await until(lambda: running.done() or done())
        stop.set()
        return await asyncio.wait_for(running, 60), work


@pytest.fixture
def run(kafka_bootstrap: str, unique_name: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(stage_module, "_leave", lambda code: code)
    return Run(kafka_bootstrap, unique_name)


def test_a_stage_is_not_ready_before_its_state_is_read_back() -> None:
    stage = SimpleNamespace(health=Health(), consumer=SimpleNamespace(assignment=lambda: {1, 2, 3}))
    for missing, ok, detail in (
        (3, False, "reading back the state of 3 of 3 partitions"),
        (1, False, "reading back the state of 1 of 3 partitions"),
        (0, True, "3 partitions"),
    ):
        Stage._show_group(
            cast(Stage, stage), cast(Any, SimpleNamespace(unrestored=lambda n=missing: n)), joined=True
        )
        assert stage.health.snapshot()["components"] == {"group": {"ok": ok, "detail": detail}}


async def test_a_crash_in_the_middle_commits_nothing_behind_it_and_nothing_overtakes(run: Run) -> None:
    """Also with more batches waiting behind the one in work, of another partition and of the same."""
    run.write(0, "a1", "a2")

    async def spoil(work: Copy, value: bytes) -> bytes:
        if value == b"a2":
            handed_out = work.handed_out()
            run.write(1, "b1", "b2")
            run.write(0, "a3")
            await until(lambda: work.handed_out() >= handed_out + 2)  # Faust has fetched what is behind
            raise RuntimeError("crashed")
        return value

    code, work = await run.live(spoil)
    assert code == 70
    assert work.most_in_work == 1, "one batch at a time, whatever else is there"
    assert run.committed() == [0, 0]
    assert run.published() == {0: [], 1: []}

    complete = {0: ["a1", "a2", "a3"], 1: ["b1", "b2"]}
    code, _ = await run.live(same, done=lambda: run.published() == complete)
    assert code == 0
    assert (run.published(), run.committed()) == (complete, [3, 2])


async def test_what_is_thrown_away_at_a_rebalance_is_read_again_also_from_offset_0(run: Run) -> None:
    """Faust seeks to the committed offsets then, and aiokafka's consumer to none that is 0, although it has read on."""
    run.write(0, "a1", "a2")
    run.write(1, "b1", "b2")
    group = {"bootstrap.servers": run.bootstrap, "group.id": f"tidings-translator-{run.name}"}
    with closing(Consumer(group)) as consumer:
        offsets = [TopicPartition(run.name, 0, 0), TopicPartition(run.name, 1, 1)]
        consumer.commit(offsets=offsets, asynchronous=False)
    seen: list[bytes] = []
    sought = []

    async def spoil(work: Copy, value: bytes) -> bytes:
        seen.append(value)
        if {b"a2", b"b2"} <= {*seen} and not sought:
            sought.append(len(seen))
            await work.stage.consumer._app.consumer.perform_seek()
        return value

    again = [b"a1", b"a2", b"b2"]
    code, _ = await run.live(spoil, done=lambda: bool(sought) and len(seen) >= 2 * len(again))
    assert code == 0
    assert [sorted(seen[: sought[0]]), sorted(seen[sought[0] :])] == [again, again]


async def test_a_publish_error_is_not_only_logged(run: Run) -> None:
    run.write(0, "a1")
    run.write(1, "b1")

    async def spoil(_: Copy, value: bytes) -> bytes:
        return value.ljust(LIMIT * 2, b".") if value == b"a3" else value

    def then_write() -> bool:
        if not written and run.committed() == [1, 1]:
            written.append(True)
            run.write(0, "a2", "a3", "a4")
        return False

    written: list[bool] = []
    code, _ = await run.live(spoil, done=then_write)
    assert code == 1
    assert run.published()[1] == ["b1"]
    before = run.published()[0]
    assert before == ["a1", "a2"][: len(before)], "the transaction of the refused record is not there"
    assert run.committed() == [len(before), 1]

    run.allow(LIMIT * 4)
    complete = {0: ["a1", "a2", "a3", "a4"], 1: ["b1"]}
    code, _ = await run.live(spoil, done=lambda: run.published() == complete)
    assert code == 0
    assert (run.published(), run.committed()) == (complete, [4, 1])
