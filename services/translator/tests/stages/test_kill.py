"""Both stages killed in the middle of traffic: nothing is lost, nothing is there twice, and the order is the commits'."""

import random
import threading
from collections.abc import Callable

import pytest
from bikes.history import History
from bikes.processes import StageProcess, wait_for
from bikes.running import contracts, count, expected, in_order, published
from bikes.topics import TechnicalTopics, records_of, with_repeats
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

KILLS = 3
TRANSACTIONS = 1_800


class Ends:
    """How far topics have been written, control records included: cheap, and grows with what a stage commits."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def of(self, *topics: str) -> int:
        known = self._admin.list_topics(timeout=10).topics
        wanted = {
            TopicPartition(topic, partition): OffsetSpec.latest()
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        }
        if not wanted:
            return 0
        try:
            return sum(future.result().offset for future in self._admin.list_offsets(wanted).values())
        except KafkaException:
            return 0  # no leader yet: the topic is being created


@pytest.mark.stack
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [11])
def test_killed_stages_lose_and_repeat_nothing(
    seed: int, kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    history = History(seed)
    transactions = history.grow(TRANSACTIONS)
    want = expected(unique_name, transactions)
    topics = TechnicalTopics(kafka_bootstrap, unique_name, seed)
    records = with_repeats(
        [record for transaction in transactions for record in records_of(unique_name, transaction)],
        seed,
        every=400,
    )
    chance = random.Random(seed)
    ends = Ends(kafka_bootstrap)
    sequencer, translator = make_stage("sequencer"), make_stage("translator")
    change_sets, business = f"tidings.{unique_name}.change-sets", tuple(contracts(unique_name))

    # The writer waits at gates, so that there is traffic at every kill.
    steps = KILLS * 2 + 1
    gates = [threading.Event() for _ in range(steps)]
    part = len(records) // steps + 1

    def write() -> None:
        for step, gate in enumerate(gates):
            assert gate.wait(240)
            topics.write(records[step * part : (step + 1) * part])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for step in range(KILLS * 2):
            victim, progress = ((sequencer, (change_sets,)), (translator, business))[step % 2]
            before = ends.of(*progress)
            gates[step].set()
            some = chance.randint(1, 60)
            wait_for(
                lambda: ends.of(*progress) >= before + some,  # noqa: B023 - called before the loop goes on
                f"{victim.stage} to write {some} records in step {step}",
                alive=(sequencer, translator),
            )
            victim.restart_killed()
    finally:
        for gate in gates:
            gate.set()
        writer.join(240)
    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want),
        "all events",
        seconds=240,
        every=1,
        alive=(sequencer, translator),
    )
    assert sequencer.terminate() == 0
    assert translator.terminate() == 0

    events = published(kafka_bootstrap, unique_name)
    assert in_order(events) == want
    assert len({event.event_id for event in events}) == len(events) == count(want)
