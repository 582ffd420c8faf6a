"""Faust's and aiokafka's inner parts that the transport stands on: this fails when an upgrade changes them."""

import asyncio
import inspect
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import aiokafka
import aiokafka.consumer.fetcher
import faust
import pytest
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from confluent_kafka import Consumer, Producer
from faust.transport import conductor
from faust.transport import consumer as faust_consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import ConsumerMessage

from tidings_service.disk import OwnDirectory, remove_abandoned
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Batch
from tidings_translator.group.faust_batches import (
    AllToOneAssignor,
    BatchConsumer,
    BatchConsumerThread,
    KeepingAssignor,
)
from tidings_translator.group.transport import GroupConsumer
from tidings_translator.kafka.transactions import Membership


def test_the_pinned_versions() -> None:
    assert version("faust-streaming") == "0.15.3"
    assert version("mode-streaming") == "0.7.1"
    assert version("aiokafka") == "0.14.0"
    assert version("confluent-kafka") == "2.16.1"


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (faust_consumer.Consumer, "getmany", ["self", "timeout"]),
        (faust_consumer.Consumer, "_wait_next_records", ["self", "timeout"]),
        (faust_consumer.Consumer, "perform_seek", ["self"]),
        (faust_consumer.ThreadDelegateConsumer, "_getmany", ["self", "active_partitions", "timeout"]),
        (faust_consumer.ThreadDelegateConsumer, "position", ["self", "tp"]),
        (driver.Consumer, "_new_consumer_thread", ["self"]),
        (driver.AIOKafkaConsumerThread, "_create_worker_consumer", ["self", "transport"]),
        (driver.AIOKafkaConsumerThread, "_ensure_consumer", ["self"]),
        (driver.AIOKafkaConsumerThread, "seek_to_committed", ["self"]),
        (
            driver.AIOKafkaConsumerThread,
            "_fetch_records",
            ["self", "consumer", "active_partitions", "timeout", "max_records"],
        ),
        (conductor.Conductor, "_update_indices", ["self"]),
        (faust.Schema, "compile", None),
        (aiokafka.consumer.fetcher.FetchResult, "getall", ["self", "max_records"]),
        (AbstractPartitionAssignor, "assign", ["cluster", "members"]),
        (AbstractPartitionAssignor, "metadata", ["topics"]),
        (AbstractPartitionAssignor, "on_assignment", ["assignment"]),
    ],
)
def test_what_is_overridden_or_called_is_still_there(
    owner: type, name: str, parameters: list[str] | None
) -> None:
    found = list(inspect.signature(getattr(owner, name)).parameters)
    assert parameters is None or found == parameters


def test_the_sources_still_do_what_the_overrides_assume() -> None:
    drain = inspect.getsource(faust_consumer.Consumer._drain_messages)
    assert "getmany(timeout=1.0)" in drain, "batches are fetched by getmany"
    assert "offset >= r_offset" in drain, "a batch is known by its last offset"
    assert "_acking_topics" in inspect.getsource(conductor.Conductor.acks_enabled_for)
    assert "_resubscribe_sleep_lock_seconds" in inspect.getsource(conductor)
    assert "_subscription_changed" in inspect.getsource(conductor)
    assert "channel.topics" in inspect.getsource(conductor.Conductor._update_indices)
    coordinator = inspect.getsource(aiokafka.consumer.group_coordinator.GroupCoordinator.__init__)
    for attribute in ("self.generation =", "self.member_id =", "self._group_instance_id ="):
        assert attribute in coordinator
    fetcher = inspect.getsource(aiokafka.consumer.fetcher)
    assert "err = Errors.OffsetOutOfRangeError({tp: fetch_offset})" in fetcher, "without a reset policy"
    assert "err = Errors.NoOffsetForPartitionError(tp)" in fetcher
    assert "state.consumed_to(self._partition_records.next_fetch_offset)" in fetcher, "behind control records"
    seek = inspect.getsource(aiokafka.AIOKafkaConsumer.seek_to_committed)
    assert "if offset and offset > 0:" in seek, "to 0 the thread seeks itself"
    assert "checksum" in ConsumerMessage.__slots__


def test_the_overrides_override() -> None:
    assert BatchConsumer.getmany is not driver.Consumer.getmany
    assert issubclass(BatchConsumerThread, driver.AIOKafkaConsumerThread)
    assert driver.Transport.Consumer is driver.Consumer


def test_the_membership_is_serialized_as_librdkafka_does_it() -> None:
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "a-group", "log_level": 0})
    try:
        theirs = consumer.consumer_group_metadata()
        assert type(theirs) is bytes
        assert Membership("a-group", "", -1, None).serialized() == theirs
    finally:
        consumer.close()


class Cluster:
    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {"rows": {0, 1, 2}, "markers": {0}}.get(topic)


def assign(members: dict[str, bytes]) -> dict[str, list[tuple[str, list[int]]]]:
    metadata = {
        m: ConsumerProtocolMemberMetadata(0, ["rows", "markers", "none yet"], d) for m, d in members.items()
    }
    return {m: list(a.assignment) for m, a in AllToOneAssignor.assign(Cluster(), metadata).items()}


def test_one_member_gets_every_partition_and_keeps_them() -> None:
    everything = [("markers", [0]), ("rows", [0, 1, 2])]
    assert assign({"b": b"", "a": b""}) == {"a": everything, "b": []}
    assert assign({"b": b"owner", "a": b""}) == {"a": [], "b": everything}


def test_a_member_says_that_it_is_the_owner_once_it_has_partitions() -> None:
    try:
        AllToOneAssignor.on_assignment(ConsumerProtocolMemberAssignment(0, [("rows", [0])], b""))
        assert AllToOneAssignor.metadata(["rows"]).user_data == b"owner"
        AllToOneAssignor.on_assignment(ConsumerProtocolMemberAssignment(0, [], b""))
        assert AllToOneAssignor.metadata(["rows"]).user_data == b""
    finally:
        AllToOneAssignor._owner = b""


def test_the_leader_knows_what_each_member_had() -> None:
    """The group's own form of it; `test_sharing` has the rest."""
    old = KeepingAssignor._owned
    try:
        KeepingAssignor.on_assignment(ConsumerProtocolMemberAssignment(0, [("rows", [1])], b""))
        told = {"a": KeepingAssignor.metadata(["rows"])}
        KeepingAssignor.on_assignment(ConsumerProtocolMemberAssignment(0, [("rows", [0, 2])], b""))
        told["b"] = KeepingAssignor.metadata(["rows"])
        told["c"] = ConsumerProtocolMemberMetadata(0, ["rows", "none yet"], None)
        shares = KeepingAssignor.assign(Cluster(), told)
        assert {m: [(p.topic, p.partition) for p in a.partitions()] for m, a in shares.items()} == {
            "a": [("rows", 1)],
            "b": [("rows", 0)],
            "c": [("rows", 2)],
        }
    finally:
        KeepingAssignor._owned = old


async def test_a_member_has_no_place_in_the_group_before_its_consumer_has_started() -> None:
    async def nothing(*_: object) -> None: ...

    consumer = GroupConsumer(
        kafka=KafkaAccess("127.0.0.1:1"),
        group="g",
        instance="i",
        topics=["t"],
        handle=nothing,
        on_revoked=nothing,
        on_gone=nothing,
    )
    thread = consumer._app.consumer._thread
    assert consumer.membership() == Membership("g", "", -1, None)
    thread._consumer = type("Starting", (), {"_coordinator": None})()
    assert consumer.membership() == Membership("g", "", -1, None)
    assert not consumer.joined


async def test_what_a_killed_stage_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = OwnDirectory("tidings-faust-")
    os.close(left.locks[0])  # as if its process were dead
    consumer = GroupConsumer(
        kafka=KafkaAccess("127.0.0.1:1"), group="g", instance="i", topics=["t"],
        handle=nothing, on_revoked=nothing, on_gone=nothing,
    )  # fmt: skip
    [own] = tmp_path.glob("tidings-faust-*")
    assert own != left.path
    assert remove_abandoned("tidings-faust-", tmp_path) == [], "it lives"
    await consumer.stop(15)


@pytest.mark.stack
@pytest.mark.timeout(120)
async def test_batches_of_every_compression_are_read(kafka_bootstrap: str, unique_name: str) -> None:
    """aiokafka finds the codecs only where cramjam is installed; whoever writes the technical topics may compress."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        with Producer({"bootstrap.servers": kafka_bootstrap, "compression.type": codec}) as producer:
            for number in range(20):  # a single small record would not be compressed
                producer.produce(unique_name, f"{codec} {number} {'same ' * 50}".encode())
    seen: list[bytes] = []
    complete = asyncio.Event()

    async def collect(batch: Batch) -> None:
        seen.extend(record.value for record in batch.records)
        if len(seen) == 20 * len(codecs):
            complete.set()

    async def nothing(*_: object) -> None: ...

    consumer = GroupConsumer(
        kafka=KafkaAccess(kafka_bootstrap),
        group=unique_name,
        instance="one",
        topics=[unique_name],
        handle=collect,
        on_revoked=nothing,
        on_gone=nothing,
    )
    consumer.start()
    stopped = asyncio.ensure_future(consumer.stopped())
    waiting = [asyncio.ensure_future(complete.wait()), stopped, consumer.failed]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=60)
    assert not consumer.failed.done(), consumer.failed.exception()
    await consumer.stop(15)
    stopped.cancel()
    assert {value.split()[0].decode() for value in seen} == set(codecs)
