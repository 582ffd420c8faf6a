"""What retention deletes before a stage has read it is never passed in silence: the stage stops, and says what is lost.

The beginning of partitions is deleted with Kafka's own call for it, which moves the log's start as retention does.
"""

import os
import re
import signal
from collections.abc import Callable

import pytest
from bikes.history import KEYS, Change, History
from bikes.processes import StageProcess, wait_for
from bikes.running import published
from bikes.topics import TechnicalTopics, records_of
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


class Source:
    """Technical topics with one partition each, what has been read of them, and retention by hand."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.history = History(3)
        self.topics = TechnicalTopics(bootstrap, name, 3, partitions=1)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.technical = [Partition(f"{name}.{table}", 0) for table in sorted({*KEYS, "transaction"})]
        self.orders = Partition(f"{name}.public.orders", 0)
        self.read = [one for one in self.technical if "audit" not in one.topic]
        self.change_sets = [Partition(f"tidings.{name}.change-sets", n) for n in range(4)]

    def place(self, *numbers: int) -> None:
        """Orders with a new customer each."""
        for number in numbers:
            customer = Change("public.customers", "c", None, {"id": number, "name": "Ann"})
            order = {"id": number, "customer_id": number, "status": "placed"}
            self.topics.write(
                records_of(
                    self.name, self.history.commit([customer, Change("public.orders", "c", None, order)])
                )
            )

    def placed(self) -> set[int]:
        """The orders of which is told that they were placed."""
        return {
            event.payload["order_id"]
            for event in published(self.bootstrap, self.name)
            if event.topic.endswith("order-placed.v2")
        }

    def wait_for(self, *numbers: int, alive: tuple[StageProcess, ...]) -> None:
        wait_for(lambda: set(numbers) <= self.placed(), f"orders {numbers}", every=0.3, alive=alive)

    def end(self, partition: Partition) -> int:
        return Topics(KafkaAccess(self.bootstrap)).ends([partition])[partition]

    def committed(self, stage: str, partition: Partition) -> int:
        offsets = Offsets(KafkaAccess(self.bootstrap), f"tidings-{stage}-{self.name}")
        try:
            return offsets.committed([partition])[partition]
        finally:
            offsets.close()

    def wait_until_sequenced(self, *, alive: tuple[StageProcess, ...]) -> None:
        """All that is in the technical topics has come out."""
        wait_for(
            lambda: all(self.committed("sequencer", one) == self.end(one) for one in self.read),
            "all to be read",
            every=0.3,
            alive=alive,
        )

    def delete_all(self, *partitions: Partition) -> None:
        """As retention does it with what is old."""
        places = [TopicPartition(*partition, self.end(partition)) for partition in partitions]
        for future in self.admin.delete_records(places).values():
            future.result()

    def forget_group(self, stage: str) -> None:
        """As Kafka does it with a group that was away for `offsets.retention.minutes`."""
        group = f"tidings-{stage}-{self.name}"
        wait_for(lambda: self._forgotten(group), "the group to be empty", every=0.3)

    def _forgotten(self, group: str) -> bool:
        try:
            self.admin.delete_consumer_groups([group])[group].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NON_EMPTY_GROUP:  # a member that is gone counts for a while
                raise
            return False
        return True

    def accept_gap(self, stage: str, *partitions: Partition) -> None:
        """`kafka-consumer-groups --reset-offsets --to-earliest`, as the runbook says."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"tidings-{stage}-{self.name}"})
        try:
            places = [
                TopicPartition(*one, consumer.get_watermark_offsets(TopicPartition(*one))[0])
                for one in partitions
            ]
            wait_for(lambda: _committed(consumer, places), "Kafka to see that the group is empty", every=0.3)
        finally:
            consumer.close()


def _committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_MEMBER_ID:
            raise
        return False
    return True


@pytest.fixture
def source(kafka_bootstrap: str, unique_name: str) -> Source:
    return Source(kafka_bootstrap, unique_name)


def error_of(stage: StageProcess) -> str:
    """The error that a stage has ended with, and its hint."""
    assert stage.exit_code(90) == 1
    line = stage.said('"level": "error"') or stage.said('"level":"error"') or {}
    return f"{line.get('event')} {line.get('hint')}"


@pytest.mark.turns
def test_a_gap_stops_each_stage_and_is_named(source: Source, make_stage: Callable[..., StageProcess]) -> None:
    # An installation on trimmed topics is legitimate; it is told from where on it reads.
    source.place(1, 2, 3)
    source.delete_all(*source.technical)
    trimmed = source.end(source.orders)
    source.place(4)
    sequencer, translator = make_stage("sequencer"), make_stage("translator")
    stages = (sequencer, translator)
    source.wait_for(4, alive=stages)
    assert source.placed() == {4}
    told = [line for line in sequencer.log.read_text().splitlines() if "the middle of history" in line]
    assert any(str(source.orders) in line for line in told)
    began = (
        f'tidings_consumer_began_at_offset{{partition="0",stage="sequencer",topic="{source.orders.topic}"}}'
    )
    assert f"{began} {float(trimmed)}" in sequencer.metrics()

    # While it runs: what it would have fetched next is gone.
    source.wait_until_sequenced(alive=stages)
    assert sequencer._process is not None
    os.kill(sequencer._process.pid, signal.SIGSTOP)
    source.place(5, 6)
    source.delete_all(source.orders)
    os.kill(sequencer._process.pid, signal.SIGCONT)
    said = error_of(sequencer)
    gap = rf"{source.orders}: offset \d+ is to be read next, and the log begins at {trimmed + 3}"
    assert re.search(gap, said), said
    assert "After a gap" in said

    # And at the next start, until somebody has decided that it may go on.
    sequencer.start()
    said = error_of(sequencer)
    assert re.search(gap, said), said


@pytest.mark.turns
def test_change_sets_that_were_not_read_are_a_gap(
    source: Source, make_stage: Callable[..., StageProcess]
) -> None:
    source.place(1)
    sequencer, translator = make_stage("sequencer"), make_stage("translator")
    source.wait_for(1, alive=(sequencer, translator))
    translator.kill()
    source.place(*range(2, 20))
    source.wait_until_sequenced(alive=(sequencer,))
    source.delete_all(*source.change_sets)
    translator.start()
    said = error_of(translator)
    assert f"tidings.{source.name}.change-sets/" in said
    assert "begins at" in said
    assert source.placed() == {1}

    # Going on nevertheless is a decision, made with Kafka's own tool.
    source.accept_gap("translator", *source.change_sets)
    translator.start()
    source.place(21)
    source.wait_for(21, alive=(sequencer, translator))
    assert source.placed() == {1, 21}


@pytest.mark.turns
def test_a_group_that_kafka_has_forgotten_does_not_begin_anew(
    source: Source, make_stage: Callable[..., StageProcess]
) -> None:
    """What it has read already is in its state; where it was is not known any more."""
    source.place(1)
    sequencer, translator = make_stage("sequencer"), make_stage("translator")
    source.wait_for(1, alive=(sequencer, translator))
    assert (sequencer.terminate(), translator.terminate()) == (0, 0)
    for stage in (sequencer, translator):
        source.forget_group(stage.stage)
        stage.start()
        assert "has no committed offset any more" in error_of(stage)


@pytest.mark.turns
def test_a_log_that_is_empty_behind_what_was_read_is_no_gap(
    source: Source, make_stage: Callable[..., StageProcess]
) -> None:
    """Retention passes also the control records that end Kafka's transactions, which nobody is given to read."""
    source.place(1)
    sequencer, translator = make_stage("sequencer"), make_stage("translator")
    source.wait_for(1, alive=(sequencer, translator))
    wait_for(
        lambda: all(
            source.committed("translator", one) == source.end(one)
            for one in source.change_sets
            if source.end(one)
        ),
        "the translator to be behind the control records",
        every=0.3,
        alive=(sequencer, translator),
    )
    assert translator.terminate() == 0
    source.delete_all(*source.change_sets)
    translator.start()
    source.place(2)
    source.wait_for(2, alive=(sequencer, translator))
