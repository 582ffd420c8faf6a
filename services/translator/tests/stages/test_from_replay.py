"""A generation that begins with what the lakehouse has replayed, cut off anywhere, and goes on behind it in the topics."""

import gzip
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bikes.history import History, Transaction
from bikes.processes import TESTS, StageProcess, wait_for
from bikes.replayed import Wanted
from bikes.running import check_shadow
from bikes.topics import TechnicalTopics, records_of, with_repeats
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_domain.loading.domain import load_domain
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.generations.generations import Generations
from tidings_translator.ledger.records import GenerationAdmin

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

GENERATION = "autumn"


def written(
    topics: TechnicalTopics, transactions: list[Transaction], last: int, seed: int
) -> dict[str, dict[str, int]]:
    """Write transactions as a capture that crashes now and then, and repeats what it has written; gives by topic and partition the
    offset from which on there is something of those behind `last`."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    told = [
        (place, record) for place, one in enumerate(transactions) for record in records_of(topics.prefix, one)
    ]
    repeated = with_repeats(told, seed, every=60)
    for place, record in repeated:
        topic, number = record[0], str(topics.partition_of(record))
        offset = counts[topic].get(number, 0)
        counts[topic][number] = offset + 1
        if place >= last:
            first[topic].setdefault(number, offset)
    topics.write([record for _, record in repeated])
    return {topic: one | first[topic] for topic, one in counts.items()}


@pytest.mark.turns
def test_a_generation_goes_on_behind_a_replay_without_gap_or_repeat(
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    make_stage: Callable[..., StageProcess],
    tmp_path: Path,
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    history = History(seed)
    topics = TechnicalTopics(kafka_bootstrap, unique_name, seed)
    transactions = history.grow(300)
    half = transactions[:150]
    needed = written(topics, transactions, len(half), seed)
    ids = GenerationAdmin(KafkaAccess(kafka_bootstrap)).topic_ids(dict.fromkeys(needed, 0))
    fault = tmp_path / "fault"
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

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    def replay(**other: object) -> str:
        wanted = Wanted(str(tmp_path / "replay"), unique_name, seed, len(half), ids, needed)
        wanted = replace(wanted, **other)  # type: ignore[arg-type]  # a test's own words
        done = run(sys.executable, "-m", "bikes.replayed", wanted.text())
        assert done.returncode == 0, done.stderr
        return wanted.directory

    def start(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return run(
            str(Path(sys.executable).with_name("tidings-translator")), "generations", "start", name, *words
        )

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})

    def delete(*places: TopicPartition) -> None:
        for future in admin.delete_records([*places]).values():
            future.result(60)

    # All that was replayed may be gone from Kafka.
    delete(*(TopicPartition(topic, int(n), at) for topic, one in needed.items() for n, at in one.items()))
    given = ("--from-replay", replay())
    sequencer = make_stage("sequencer", TIDINGS_GENERATION=GENERATION)
    wait_for(lambda: f"generations start {GENERATION}" in sequencer.detail("topics"), "it to wait")
    # Killed in each of its transactions, before and behind the commit: what is not committed is not there, what is, once.
    for point in ("outputs.produced", "transaction.committed", "offsets.sent", "transaction.committed"):
        fault.write_text(f"{point} kill 0")
        killed = start(GENERATION, *given)
        assert killed.returncode == -signal.SIGKILL, (point, fault.exists(), killed.stdout, killed.stderr)
        assert not fault.exists()
    generations = Generations(KafkaAccess(kafka_bootstrap), unique_name)
    assert generations.ledger().status(GENERATION) == "filling"
    with pytest.raises(GenerationError, match="was started from the lakehouse's replay"):
        generations.start(GENERATION, load_domain("bikes"), partitions=3, from_lake=True)
    other = replay(directory=str(tmp_path / "other"), transactions=100)
    assert "was begun with another replay" in start(GENERATION, "--from-replay", other).stderr
    for again in (False, True):
        done = start(GENERATION, *given)
        assert done.returncode == 0, done.stderr
        assert (" records written\n" in done.stdout) != again, "there is nothing left to do"
    assert generations.ledger().status(GENERATION) == "shadow"

    translator = make_stage("translator", TIDINGS_GENERATION=GENERATION)
    transactions += history.grow(20)
    topics.write([record for one in transactions[-20:] for record in records_of(unique_name, one)])
    check_shadow(kafka_bootstrap, unique_name, GENERATION, transactions, (sequencer, translator))

    # What cannot be gone on with is refused before anything is done.
    letters = start("later", "--from-replay", replay(directory=str(tmp_path / "letters"), letters=3))
    assert "3 change sets have failed in part" in letters.stderr
    (tmp_path / "replay" / "replay.json").write_text("{}")
    assert "replay.json cannot be read" in start("later", *given).stderr
    less = {topic: {n: at - 1 for n, at in one.items()} for topic, one in needed.items()}
    gap = start("later", "--from-replay", replay(directory=str(tmp_path / "gap"), needed=less))
    assert "history is not whole" in gap.stderr
    short = Path(replay(directory=str(tmp_path / "short")))
    lines = gzip.decompress((short / "part-1.txt.gz").read_bytes()).splitlines(keepends=True)
    (short / "part-1.txt.gz").write_bytes(gzip.compress(b"".join(lines[:-1])))
    assert (
        f"has {len(lines) - 1} lines, and was written with {len(lines)}"
        in start("short", "--from-replay", str(short)).stderr
    )
    assert generations.ledger().status("short") == "filling"
    environment["TIDINGS_CLOUDEVENTS_MODE"] = "structured"
    assert "has its events in Avro" in start("later", "--from-replay", str(tmp_path / "gap")).stderr
    assert "later" not in generations.ledger().generations
