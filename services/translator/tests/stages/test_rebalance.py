"""Three translators come, are killed and go under traffic, and a fourth begins from a state that Kafka has compacted."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from bikes.history import Change, History
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, read_committed, records_of
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.topics import Topics

PARTITIONS = 4
HOT = 1_000_000
"""An order that gets a payment with each step of the traffic; its state is written again each time."""


class Traffic:
    """Transactions for as long as it lasts, a few at a time, so that there are some at every moment of a rebalance."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.history = History(5)
        self._name = name
        self._topics = TechnicalTopics(bootstrap, name, 5)
        self._end = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._payments = HOT
        self.commit(
            Change("public.customers", "c", None, {"id": HOT, "name": "Ann"}),
            Change("public.orders", "c", None, {"id": HOT, "customer_id": HOT, "status": "placed"}),
        )
        self._running = self._pool.submit(self._run)

    def commit(self, *changes: Change) -> None:
        self._topics.write(records_of(self._name, self.history.commit(list(changes))))

    def pay(self) -> None:
        """A payment for the hot order."""
        self._payments += 1
        row = {"id": self._payments, "order_id": HOT, "method": "cash"}
        self.commit(Change("public.payments", "c", None, row))

    def _run(self) -> None:
        while not self._end.wait(0.1):
            self.pay()
            for transaction in self.history.grow(4):
                self._topics.write(records_of(self._name, transaction))

    def end(self) -> None:
        self._end.set()
        self._running.result(120)
        self._pool.shutdown()


def logs(*stages: StageProcess) -> Iterator[list[str]]:
    """The lines that tell of assignments."""
    for stage in stages:
        yield [line for line in stage.log.read_text().splitlines() if '"partition assigned"' in line]


@pytest.mark.turns
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_three_translators_come_and_go_and_a_fourth_begins_from_a_compacted_state(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    state = f"tidings.{unique_name}.state"
    change_sets = [Partition(f"tidings.{unique_name}.change-sets", n) for n in range(PARTITIONS)]
    offsets = Offsets(KafkaAccess(kafka_bootstrap), f"tidings-translator-{unique_name}")

    def hot_states() -> set[tuple[int, int]]:
        records = [message for _, message in read_committed(kafka_bootstrap, [state])]
        return {(one.partition(), one.offset()) for one in records if one.key() == b"Order/%d" % HOT}

    traffic = Traffic(kafka_bootstrap, unique_name)
    try:
        sequencer = make_stage("sequencer")
        wait_for(
            lambda: change_sets[0].topic in Topics(KafkaAccess(kafka_bootstrap)).partitions(),
            "the change sets",
        )

        def start(name: str) -> StageProcess:
            return make_stage("translator", log=name, TIDINGS_INSTANCE=name)

        def all_move_on(*running: StageProcess) -> None:
            """Every partition has an owner that commits, be it from before or after a rebalance."""
            began = offsets.committed(change_sets)
            wait_for(
                lambda: all(now > began[one] for one, now in offsets.committed(change_sets).items()),
                "every partition to move on",
                seconds=240,
                alive=(sequencer, *running),
            )

        one = start("one")
        wait_for(lambda: one.said('"partition assigned"'), "the first translator", alive=(sequencer, one))
        wait_for(
            lambda: len(hot_states()) > 1, "a state and its successor", every=0.5, alive=(sequencer, one)
        )
        old = hot_states()
        _compact_soon(kafka_bootstrap, state)
        two, three = start("two"), start("three")
        for joined in (two, three):
            wait_for(
                lambda: joined.said('"partition assigned"'),  # noqa: B023 - called before the loop goes on
                "its share",
                seconds=240,
                alive=(sequencer, one, two, three),
            )
        all_move_on(one, two, three)
        two.kill()
        all_move_on(one, three)
        assert one.terminate() == 0
        all_move_on(three)
        wait_for(
            lambda: not old & hot_states(),
            "the old states of the order to be compacted away",
            seconds=240,
            every=1,
            alive=(sequencer, three),
        )
        three.kill()
        kept = [json.loads(line)["kept"] for log in logs(one, two, three) for line in log]
        assert True in kept, "who keeps a partition through a rebalance keeps its state"
    finally:
        traffic.end()
    order = {"id": HOT, "customer_id": HOT, "status": "paid"}
    traffic.commit(Change("public.orders", "u", None, order))
    four = start("four")
    want = expected(unique_name, traffic.history.transactions)
    assert want[f"{unique_name}.order-paid.v1"][str(HOT)][0]["payments"] > len(old)
    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want),
        "all events",
        seconds=240,
        every=1,
        alive=(sequencer, four),
    )
    events = published(kafka_bootstrap, unique_name)
    assert in_order(events) == want
    assert len({event.event_id for event in events}) == len(events) == count(want)


def _compact_soon(bootstrap: str, topic: str) -> None:
    """Compact what is older than half a second whenever the broker's cleaner looks, and not only when half of it is old."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in (("segment.ms", "500"), ("min.cleanable.dirty.ratio", "0.001"))
        ],
    )
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    [settings] = [future.result() for future in found.values()]
    assert settings["cleanup.policy"].value == "compact"
    assert int(settings["segment.bytes"].value) <= 64 << 20, "what is being written is never compacted"
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
