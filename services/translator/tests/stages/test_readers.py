"""Who still reads a version: on a real Kafka with real consumer groups, in metrics, and as the command shows it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from bikes.processes import TESTS, wait_for
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import REGISTRY

from tidings_domain.language.lifecycle import Lifecycle
from tidings_service.kafka_access import KafkaAccess
from tidings_stack.provision.provider import Provider
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Partition
from tidings_translator.cli.readers import main
from tidings_translator.kafka import offsets
from tidings_translator.kafka.clients import KafkaAdmin
from tidings_translator.kafka.offsets import partition_ends
from tidings_translator.ledger.records import GenerationAdmin
from tidings_translator.readers.groups import Readers
from tidings_translator.readers.versions import Reader, ReaderMetrics, Version, table

V1 = Version("shop.order-placed.v1", "order-placed", "v1", Lifecycle(date(2026, 1, 1), date(2027, 5, 1)))
V2 = Version("shop.order-placed.v2", "order-placed", "v2", Lifecycle())


@pytest.fixture
def topics(kafka_bootstrap: str, unique_name: str) -> list[str]:
    """Version 1 with ten events in two partitions, written by transactions of one event; version 2 is empty."""
    names = [f"{unique_name}.order-placed.v{major}" for major in (1, 2)]
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique_name})
    producer.init_transactions(30)
    for number in range(10):
        producer.begin_transaction()
        producer.produce(names[0], b"event", partition=number % 2, timestamp=1_790_000_000_000 + number)
        producer.commit_transaction(30)
    return names


@pytest.fixture
def member(kafka_bootstrap: str, unique_name: str, topics: list[str]) -> Iterator[Consumer]:
    """A member of the group ``<name>-billing``, which has read the first partition whole and the second not at all."""
    settings = {
        "bootstrap.servers": kafka_bootstrap,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, "group.id": f"{unique_name}-billing"})
    consumer.subscribe([topics[0]])
    wait_for(lambda: consumer.poll(0.5) is not None, "the member reads", seconds=60)
    consumer.commit(offsets=[TopicPartition(topics[0], 0, 10)], asynchronous=False)
    yield consumer
    consumer.close()


@pytest.mark.stack
def test_readers_of_a_topic(
    kafka_bootstrap: str, unique_name: str, topics: list[str], member: Consumer
) -> None:
    readers = Readers(KafkaAccess(kafka_bootstrap))
    (found,) = readers.of(dict.fromkeys(topics, 2))
    # Five events in each partition, and a control record behind each.
    assert found == Reader(f"{unique_name}-billing", topics[0], "stable", 1, 10, {0: 10})
    assert readers.read_until_ms(found) == 1_790_000_000_008
    assert readers.read_until_ms(found._replace(positions={0: 10, 1: 10})) == 1_790_000_000_009
    assert readers.read_until_ms(found._replace(positions={0: 3})) == 1_790_000_000_002
    assert readers.read_until_ms(found._replace(positions={0: 0})) is None
    member.close()
    (left,) = readers.of(dict.fromkeys(topics, 2))
    assert (left.state, left.members) == ("empty", 0)
    assert left.distance is None, "nothing was ever deleted"

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for future in admin.delete_records([TopicPartition(topics[0], 0, 4)]).values():
        future.result()
    (late,) = readers.of(dict.fromkeys(topics, 2))
    assert late.distance == 6


@pytest.mark.stack
def test_control_records_are_not_behind(kafka_bootstrap: str, unique_name: str, topics: list[str]) -> None:
    """An idle generation is not behind for ever by what nobody is ever given."""
    group, admin = f"{unique_name}-translator", GenerationAdmin(KafkaAccess(kafka_bootstrap))
    consumer = Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": group})
    for second, behind in ((9, 0), (7, 1), (0, 5)):
        offsets = [TopicPartition(topics[0], 0, 9), TopicPartition(topics[0], 1, second)]
        consumer.commit(offsets=offsets, asynchronous=False)
        assert admin.behind(group, {topics[0]: 2}) == behind
    consumer.close()


@pytest.mark.stack
def test_the_command(kafka_bootstrap: str, unique_name: str, topics: list[str], member: Consumer) -> None:
    command = [str(Path(sys.executable).with_name("tidings-translator")), "readers"]
    environment = os.environ | {
        "PYTHONPATH": str(TESTS),
        "TIDINGS_KAFKA": kafka_bootstrap,
        "TIDINGS_DOMAIN": "bikes",
        "BIKES_NAME": unique_name,
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: PLW1510 - its exit code is looked at
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120
        )

    done = run()
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:2] == ["TOPIC", "GROUP"]
    assert [topics[0], f"{unique_name}-billing", "stable", "1", "10", "2026-09-21", "14:13:20Z"] in lines
    assert [topics[1], "(nobody)"] in lines
    (told,) = map(json.loads, run("--json").stdout.splitlines())
    assert (told["behind"], told["read_until_ms"]) == (10, 1_790_000_000_008)


def test_the_command_names_what_is_not_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TIDINGS_KAFKA", raising=False)
    monkeypatch.setenv("TIDINGS_DOMAIN", "bikes")
    assert main([]) == 2
    assert "TIDINGS_KAFKA" in capsys.readouterr().err


def sample(name: str, version: str, group: str) -> float | None:
    labels = {"event": "order-placed", "version": version, "group": group}
    return REGISTRY.get_sample_value(f"tidings_business_reader_{name}", labels)


def test_metrics_of_readers() -> None:
    shown = ReaderMetrics()
    billing = Reader("billing", V1.topic, "stable", 2, 7, {0: 5})
    gone = Reader("gone", V1.topic, "empty", 0, 3, {0: 9})
    shown.show([V1, V2], [billing, gone], now=1000.0)
    assert (sample("members", "v1", "billing"), sample("lag_records", "v1", "billing")) == (2, 7)
    assert sample("seen_timestamp_seconds", "v1", "billing") == 1000
    assert sample("seen_timestamp_seconds", "v1", "gone") is None  # nobody has seen it yet
    shown.show([V1, V2], [billing._replace(members=0), gone._replace(positions={0: 11})], now=1030.0)
    assert sample("seen_timestamp_seconds", "v1", "billing") == 1000
    assert sample("seen_timestamp_seconds", "v1", "gone") == 1030  # its offsets moved
    assert sample("log_start_distance_records", "v1", "billing") is None
    shown.show([V1, V2], [billing._replace(distance=-20)], now=1040.0)
    assert sample("log_start_distance_records", "v1", "billing") == -20
    shown.show([V1, V2], [], now=1060.0)
    assert sample("log_start_distance_records", "v1", "billing") is None
    assert sample("members", "v1", "billing") is None
    assert sample("seen_timestamp_seconds", "v1", "gone") is None


def test_groups_too_many_have_no_series_and_those_that_have_stay() -> None:
    shown = ReaderMetrics(most=2)
    groups = [Reader(f"group{number}", V1.topic, "stable", 1, 0, {0: 1}) for number in range(4)]
    shown.show([V1], groups[1:3], now=1000.0)
    shown.show([V1], groups, now=1010.0)
    assert [sample("members", "v1", f"group{number}") for number in range(4)] == [None, 1, 1, None]
    assert REGISTRY.get_sample_value("tidings_business_readers_left_out") == 2
    shown.show([V1], groups[:1], now=1020.0)
    assert [sample("members", "v1", f"group{number}") for number in range(4)] == [1, None, None, None]
    shown.show([V1], [], now=1030.0)


def test_the_table_shows_every_version() -> None:
    billing = Reader("billing", V1.topic, "stable", 2, 7, {0: 5})
    assert table([V1, V2], [(billing, 1_790_000_000_000), (billing._replace(group="new"), None)]) == (
        "TOPIC                 GROUP     STATE   MEMBERS  BEHIND  READ UP TO            SUNSET\n"
        "shop.order-placed.v1  billing   stable  2        7       2026-09-21 14:13:20Z  2027-05-01\n"
        "shop.order-placed.v1  new       stable  2        7       nothing yet           2027-05-01\n"
        "shop.order-placed.v2  (nobody)\n"
    )


def test_a_broker_that_does_not_answer_is_not_taken_for_an_empty_topic(
    stack: Provider, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka gives offset -1001 then, and no error."""
    pid = getattr(stack.kafka, "pid", None)
    if pid is None:
        pytest.skip("Kafka is not a process of this machine")
    admin = KafkaAdmin(KafkaAccess(stack.kafka.url))
    places = [Partition(topics[0], number) for number in range(2)]
    assert sum(partition_ends(admin, places).values()) >= 10  # it takes its time to connect on a busy machine
    monkeypatch.setattr(offsets, "REQUEST_SECONDS", 1.0)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(BrokerError, match="the ends of partitions cannot be read"):
            partition_ends(admin, places)
    finally:
        os.kill(pid, signal.SIGCONT)
