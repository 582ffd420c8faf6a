"""A generation keeps its number of partitions: another is refused, and a new generation has more."""

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bikes.history import History
from bikes.processes import TESTS, StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, read_committed, records_of
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Partition
from tidings_translator.generations.generations import Generations
from tidings_translator.kafka.topics import Topics
from tidings_translator.ledger.ledger import Promotion
from tidings_translator.ledger.partition_count import partition_of
from tidings_translator.ledger.records import LedgerReader

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


def test_a_key_chooses_as_the_producer_does(kafka_bootstrap: str, unique_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for future in admin.create_topics([NewTopic(unique_name, 7, 1)]).values():
        future.result()
    chance = random.Random(1)
    keys = {b"Order/%d" % n for n in range(100)} | {chance.randbytes(n) for n in range(1, 60)}
    with Producer({"bootstrap.servers": kafka_bootstrap, "partitioner": "murmur2_random"}) as producer:
        for key in keys:
            producer.produce(unique_name, b"", key)
    found = {
        message.key(): message.partition() for _, message in read_committed(kafka_bootstrap, [unique_name])
    }
    assert found == {key: partition_of(key, 7) for key in keys}


class Source:
    """The technical topics, the generations' processes, and what is published."""

    def __init__(self, bootstrap: str, name: str, make_stage: Callable[..., StageProcess]) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.history = History(9)
        self.topics = TechnicalTopics(bootstrap, name, 9)
        self.make_stage = make_stage
        self.generations = Generations(KafkaAccess(bootstrap), name)

    def commit(self, transactions: int) -> None:
        self.topics.write([r for one in self.history.grow(transactions) for r in records_of(self.name, one)])

    def stages(self, generation: str = "original") -> tuple[StageProcess, StageProcess]:
        settings = {} if generation == "original" else {"TIDINGS_GENERATION": generation}
        sequencer, translator = (
            self.make_stage(stage, log=f"{generation}-{stage}", **settings)
            for stage in ("sequencer", "translator")
        )
        return sequencer, translator

    def caught_up(self) -> bool:
        """Both generations have let out all that was committed, and all their processes are there."""
        last = self.history.transactions[-1].end_lsn
        overviews = self.generations.overviews()
        return len(overviews) == 2 and all(
            (one.commit_lsn, one.processes) == (last, (1, 1)) and one.behind_change_sets < 100
            for one in overviews
        )

    def wait_for_all(self, *alive: StageProcess) -> None:
        want = expected(self.name, self.history.transactions)
        wait_for(
            lambda: len(published(self.bootstrap, self.name)) >= count(want), "events", every=0.5, alive=alive
        )
        events = published(self.bootstrap, self.name)
        assert in_order(events) == want
        assert len({event.event_id for event in events}) == len(events)


@pytest.fixture
def source(kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]) -> Source:
    return Source(kafka_bootstrap, unique_name, make_stage)


@pytest.mark.turns
def test_raised_partitions_are_refused_and_a_new_generation_has_more(source: Source) -> None:
    name = source.name
    change_sets, state = f"tidings.{name}.change-sets", f"tidings.{name}.state"
    source.commit(60)
    old = source.stages()
    source.wait_for_all(*old)

    # Raised while they run: both say so and stop, and so they do when they are started again.
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    for topic in (change_sets, state):
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result()
    for _ in range(2):
        for stage in old:
            assert stage.exit_code(90) == 1
            said: dict[str, Any] = stage.said('"error"') or {}
            assert "has 6 partitions, and generation 'original' has begun with 4" in said["event"]
            assert "generations start NAME --partitions" in said["hint"]
        for stage in old:
            stage.start()

    # Until a new generation is there they may go on in the partitions that there were.
    for stage in old:
        assert stage.exit_code(90) == 1
        stage.start(TIDINGS_RAISED_PARTITIONS="ignore")
    source.commit(60)
    source.wait_for_all(*old)
    ends = Topics(KafkaAccess(source.bootstrap)).ends([Partition(change_sets, number) for number in range(6)])
    assert {one.partition for one, end in ends.items() if end > 0} == {0, 1, 2, 3}

    # The new generation, with as many as are wanted; its promotion does not wait for anything to be committed.
    tool = Path(sys.executable).with_name("tidings-translator")
    environment = {"TIDINGS_KAFKA": source.bootstrap, "TIDINGS_SOURCE": name, "TIDINGS_DOMAIN": "bikes"}
    subprocess.run(
        [str(tool), "generations", "start", "wider", "--partitions", "9"],
        env={**os.environ, **environment, "PYTHONPATH": str(TESTS), "BIKES_NAME": name},
        timeout=240,
        check=True,
    )
    new = source.stages("wider")
    wait_for(source.caught_up, "the new generation", every=0.5, alive=(*old, *new))
    for stage in (
        old[0],
        new[0],
    ):  # there is nothing left to read for these, and the cut is made all the same
        assert stage.terminate() == 0
        stage.start(TIDINGS_RAISED_PARTITIONS="ignore")
    wait_for(
        lambda: all(stage.said('"partitions assigned"') for stage in (old[0], new[0])), "both to be back"
    )
    wait_for(source.caught_up, "both to be ready", every=0.5, alive=(*old, *new))
    generations = source.generations
    promotions: list[Promotion] = []

    def promoted() -> bool:
        with contextlib.suppress(GenerationError):  # its sequencer is not in the group yet
            promotions.append(generations.promote("wider", max_behind=1_000))
        return bool(promotions)

    wait_for(promoted, "the new generation to be ready", every=0.5, alive=(*old, *new))
    [promotion] = promotions
    assert generations.watch(promotion, print, timeout_seconds=120)
    assert (
        Topics(KafkaAccess(source.bootstrap)).partitions()[f"tidings.{name}.generation.wider.change-sets"]
        == 9
    )
    source.commit(60)
    source.wait_for_all(*new)
    reader = LedgerReader(KafkaAccess(source.bootstrap), name)
    ledger = reader.catch_up()
    reader.close()
    recorded = [ledger.fact("partitions", one) for one in ("original", "wider")]
    assert [fact and fact.partitions for fact in recorded] == [4, 9]
