"""The transactional sink: what is committed together, what is dropped, and what ends the process."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping

import pytest

from tidings_translator.base.errors import BrokerError, FencedError
from tidings_translator.base.records import Output, Partition
from tidings_translator.kafka.transactions import Membership
from tidings_translator.stage.sink import TransactionalSink

HERE = Partition("in", 0)
STATE = Partition("state", 3)


class Producer:
    """Remembers transactions; `fail` is raised by the next one, `gate` holds it."""

    def __init__(self) -> None:
        self.transactions: list[tuple[list[Output], dict[Partition, int], int]] = []
        self.fail: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def begin_life(self) -> None:
        pass

    def transact(
        self,
        outputs: Iterable[Output],
        offsets: Mapping[Partition, int],
        member: Membership,
        *,
        on_retry: Callable[[], None] | None = None,
    ) -> None:
        self.entered.set()
        assert self.gate.wait(10)
        if self.fail is not None:
            failure, self.fail = self.fail, None
            raise failure
        self.transactions.append((list(outputs), dict(offsets), member.generation))


class Group:
    generation = 1

    def membership(self) -> Membership:
        return Membership("g", "m", self.generation, None)


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
async def sink(producer: Producer, group: Group) -> TransactionalSink:
    sink = TransactionalSink(producer, group.membership, stage="test", max_pending=3, deadline_seconds=5)
    await sink.begin_life()
    return sink


def out(value: str) -> Output:
    return Output("out", b"k", value.encode())


async def test_outputs_state_and_offsets_go_together(sink: TransactionalSink, producer: Producer) -> None:
    committed: list[str] = []
    assert await sink.add(
        1, {HERE: 5}, [out("a")], state={(STATE, b"x"): b"1"}, on_commit=lambda: committed.append("a")
    )
    assert await sink.drain(5)
    assert producer.transactions == [([out("a"), Output("state", b"x", b"1", None, 3)], {HERE: 5}, 1)]
    assert committed == ["a"]
    await sink.stop()


async def test_what_comes_during_a_transaction_goes_into_the_next_with_the_last_state(
    sink: TransactionalSink, producer: Producer
) -> None:
    producer.gate.clear()
    await sink.add(1, {HERE: 1}, [out("a")])
    await asyncio.to_thread(producer.entered.wait, 5)
    await sink.add(1, {HERE: 2}, [out("b")], state={(STATE, b"x"): b"1"})
    await sink.add(1, {HERE: 3}, [], state={(STATE, b"x"): b"2"})
    producer.gate.set()
    assert await sink.drain(5)
    assert [offsets for _, offsets, _ in producer.transactions] == [{HERE: 1}, {HERE: 3}]
    assert producer.transactions[1][0] == [out("b"), Output("state", b"x", b"2", None, 3)]
    await sink.stop()


async def test_too_much_pending_makes_the_stage_wait(sink: TransactionalSink, producer: Producer) -> None:
    producer.gate.clear()
    await sink.add(1, {HERE: 1}, [out("a")])
    await asyncio.to_thread(producer.entered.wait, 5)
    waiting = asyncio.create_task(sink.add(1, {HERE: 2}, [out("b")] * 3))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    producer.gate.set()
    assert await asyncio.wait_for(waiting, 5)
    await sink.stop()


@pytest.mark.parametrize("fenced_by", ["broker", "coordinator"])
async def test_fenced_work_is_dropped_and_its_generation_takes_no_more(
    fenced_by: str, sink: TransactionalSink, producer: Producer, group: Group
) -> None:
    if fenced_by == "broker":
        producer.fail = FencedError("gone")
    else:
        group.generation = 2
    committed: list[str] = []
    await sink.add(1, {HERE: 1}, [out("a")], on_commit=lambda: committed.append("a"))
    assert await sink.drain(5)
    assert producer.transactions == []
    assert committed == []
    assert sink.is_lost(1)
    assert not await sink.add(1, {HERE: 2}, [out("b")])
    group.generation = 2
    assert await sink.add(2, {HERE: 1}, [out("a")])
    assert await sink.drain(5)
    assert [generation for _, _, generation in producer.transactions] == [2]
    await sink.stop()


async def test_a_new_generation_drops_what_is_pending_of_the_old(
    sink: TransactionalSink, producer: Producer, group: Group
) -> None:
    producer.gate.clear()
    await sink.add(1, {HERE: 1}, [out("a")])
    await asyncio.to_thread(producer.entered.wait, 5)
    await sink.add(1, {HERE: 2}, [out("b")])
    group.generation = 2
    await sink.add(2, {HERE: 1}, [out("c")])
    producer.gate.set()
    assert await sink.drain(5)
    assert [[o.value for o in outputs] for outputs, _, _ in producer.transactions] == [[b"a"], [b"c"]]
    await sink.stop()


async def test_any_other_failure_is_final(sink: TransactionalSink, producer: Producer) -> None:
    producer.fail = BrokerError("no")
    await sink.add(1, {HERE: 1}, [out("a")])
    with pytest.raises(BrokerError):
        await asyncio.wait_for(asyncio.shield(sink.failed), 5)
    assert not await sink.add(1, {HERE: 2}, [out("b")])
    assert not await sink.drain(5)
    assert producer.transactions == []


async def test_a_transaction_without_an_answer_is_final(producer: Producer, group: Group) -> None:
    sink = TransactionalSink(producer, group.membership, stage="test", deadline_seconds=0.05)
    await sink.begin_life()
    producer.gate.clear()
    await sink.add(1, {HERE: 1}, [out("a")])
    with pytest.raises(BrokerError, match=r"no answer after 0\.05 s"):
        await asyncio.wait_for(asyncio.shield(sink.failed), 5)
    producer.gate.set()
