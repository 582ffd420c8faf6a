"""A generation that begins with the lakehouse's log, cut off anywhere, and goes on in the topics, which have lost their beginning.

The directory is written here as ``tidings-lakehouse history`` does; services/lakehouse/tests/moments/test_history.py shows that one.
"""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from bikes.history import History, Transaction
from bikes.processes import TESTS, StageProcess, wait_for
from bikes.running import check_shadow
from bikes.topics import TechnicalTopics, records_of
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.generations.generations import Generations
from tidings_translator.ledger.records import GenerationAdmin

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

GENERATION = "autumn"


def cut_log(
    directory: Path, topics: TechnicalTopics, transactions: list[Transaction], chance: random.Random
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The log of a lakehouse that has read each partition to some other point, the first half of the transactions whole.

    Returns:
        Where each partition's log ends, and before which offset nothing is needed in Kafka: its records are of that half.
    """
    partitions: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    whole: dict[tuple[str, int], int] = {}
    for place, transaction in enumerate(transactions):
        if place == len(transactions) // 2:
            whole = {one: len(lines) for one, lines in partitions.items()}
        for record in records_of(topics.prefix, transaction):
            lines = partitions[record[0], topics.partition_of(record)]
            parts = [b"null" if part is None else part for part in record[1:]]
            lines.append(b'{"offset":%d,"key":%b,"value":%b,"headers":null}\n' % (len(lines), *parts))
    ids = GenerationAdmin(KafkaAccess(topics.bootstrap)).topic_ids({topic for topic, _ in partitions})
    manifest: dict[str, dict[str, object]] = {
        topic: {"id": topic_id, "partitions": {}} for topic, topic_id in ids.items()
    }
    ends = {}
    for (topic, number), lines in partitions.items():
        end = ends[topic, number] = chance.randint(whole.get((topic, number), 0), len(lines))
        if end:
            path = directory / f"topic={topic}" / f"partition={number}" / "part-0.txt.gz"
            path.parent.mkdir(parents=True)
            path.write_bytes(gzip.compress(b"".join(lines[:end])))
            spans = manifest[topic]["partitions"]
            assert isinstance(spans, dict)
            spans[str(number)] = {"first": 0, "last": end - 1}
    (directory / "history.json").write_text(json.dumps({"source": topics.prefix, "topics": manifest}))
    return ends, whole


@pytest.mark.turns
def test_history_goes_on_where_the_log_ends_without_gap_or_repeat(
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    make_stage: Callable[..., StageProcess],
    tmp_path: Path,
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    history = History(seed)
    topics = TechnicalTopics(kafka_bootstrap, unique_name, seed)
    transactions = history.grow(300)
    topics.write([record for one in transactions for record in records_of(unique_name, one)])
    ends, whole = cut_log(tmp_path / "lake", topics, transactions, chance)
    fault = tmp_path / "fault"

    def start(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        tool = Path(sys.executable).with_name("tidings-translator")
        environment = {
            **os.environ,
            "TIDINGS_KAFKA": kafka_bootstrap,
            "TIDINGS_REGISTRY": registry_url,
            "TIDINGS_SOURCE": unique_name,
            "TIDINGS_DOMAIN": "bikes",
            "BIKES_NAME": unique_name,
            "PYTHONPATH": str(TESTS),
            "TIDINGS_FAULT_POINTS": str(fault),
        }
        command = [str(tool), "generations", "start", name, *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})

    def delete(*places: TopicPartition) -> None:
        for future in admin.delete_records([*places]).values():
            future.result(60)

    delete(*(TopicPartition(topic, number, end // 2) for (topic, number), end in whole.items()))
    refused = start("whole")
    assert refused.returncode == 1
    assert "--from-lake" in refused.stderr

    # The processes wait for the command, which is killed twice: what is not committed is not there, what is, once.
    sequencer = make_stage("sequencer", TIDINGS_GENERATION=GENERATION)
    wait_for(lambda: f"generations start {GENERATION}" in sequencer.detail("topics"), "it to wait")
    lake = ("--from-lake", str(tmp_path / "lake"))
    for point in ("offsets.sent", "transaction.committed"):
        fault.write_text(f"{point} kill 0")
        assert start(GENERATION, *lake).returncode == -signal.SIGKILL
        assert not fault.exists()
    generations = Generations(KafkaAccess(kafka_bootstrap), unique_name)
    assert generations.ledger().status(GENERATION) == "filling"
    wait_for(
        lambda: "reads what the lakehouse has written" in sequencer.detail("topics"), "it to wait for the log"
    )
    for again in (False, True):
        done = start(GENERATION, *lake)
        assert done.returncode == 0, done.stderr
        assert (" records read\n" in done.stdout) != again, "there is nothing left to do"
    assert generations.ledger().status(GENERATION) == "shadow"

    translator = make_stage("translator", TIDINGS_GENERATION=GENERATION)
    transactions += history.grow(20)
    topics.write([record for one in transactions[-20:] for record in records_of(unique_name, one)])
    check_shadow(kafka_bootstrap, unique_name, GENERATION, transactions, (sequencer, translator))

    # Kafka has deleted what comes behind the log's end: a gap is refused before anything is done.
    topic, number = f"{unique_name}.transaction", 0
    end = ends[topic, number]
    delete(TopicPartition(topic, number, end + 1))
    refused = start("later", *lake)
    assert refused.returncode == 1
    assert f"{topic}/{number} is logged up to offset {end - 1}" in refused.stderr
    assert "later" not in generations.ledger().generations
