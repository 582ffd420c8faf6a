"""A second generation beside the live one on a real Kafka: compared, promoted under traffic and SIGKILL, discarded."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bikes.history import History, Transaction
from bikes.processes import TESTS, StageProcess, wait_for
from bikes.running import contracts, count, expected, in_order
from bikes.topics import Published, TechnicalTopics, read_events, records_of
from confluent_kafka import KafkaException

from tidings_translator.errors import GenerationError
from tidings_translator.generation import Ledger
from tidings_translator.generations import Generations
from tidings_translator.kafka import Topics
from tidings_translator.kafka_generations import GenerationAdmin, LedgerReader

pytestmark = pytest.mark.stack

Events = dict[str, dict[str, list[dict[str, Any]]]]


def second(events: Events) -> Events:
    """What the second generation's rules make of the same history."""
    out: Events = {}
    for topic, by_id in events.items():
        for key, payloads in by_id.items():
            if topic.endswith("order-placed.v2"):
                kept = [{**one, "customer": one["customer"].upper()} for one in payloads]
            elif "payment-taken-back" in topic:
                kept = [one for one in payloads if one["payment_id"] % 2]
            else:
                kept = payloads
            if kept:
                out.setdefault(topic, {})[key] = kept
    return out


def switched(name: str, transactions: list[Transaction], cut: int) -> Events:
    """The events of the first rules up to commit LSN `cut`, and of the second after it."""
    before = expected(name, [one for one in transactions if one.end_lsn <= cut])
    every = expected(name, transactions)
    after = {
        topic: {key: payloads[len(before.get(topic, {}).get(key, ())) :] for key, payloads in by_id.items()}
        for topic, by_id in every.items()
    }
    joined: Events = {}
    for part in (before, second(after)):
        for topic, by_id in part.items():
            for key, payloads in by_id.items():
                if payloads:
                    joined.setdefault(topic, {}).setdefault(key, []).extend(payloads)
    return joined


class Source:
    """The technical topics, the two generations' processes, and what they have published."""

    def __init__(
        self, bootstrap: str, registry: str, name: str, make_stage: Callable[..., StageProcess]
    ) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.history = History(5)
        self.topics = TechnicalTopics(bootstrap, name, 5)
        self.generations = Generations(bootstrap, name)
        self._make_stage = make_stage
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "TIDINGS_KAFKA": bootstrap,
            "TIDINGS_REGISTRY": registry,
            "TIDINGS_SOURCE": name,
            "TIDINGS_DOMAIN": "bikes",
            "BIKES_NAME": name,
            "BIKES_RULES": "second",
        }

    def commit(self, transactions: int) -> None:
        made = self.history.grow(transactions)
        self.topics.write([record for one in made for record in records_of(self.name, one)])

    def stages(self, generation: str = "original") -> tuple[StageProcess, StageProcess]:
        settings = (
            {} if generation == "original" else {"TIDINGS_GENERATION": generation, "BIKES_RULES": "second"}
        )
        sequencer = self._make_stage("sequencer", log=f"{generation}-sequencer", **settings)
        return sequencer, self._make_stage("translator", log=f"{generation}-translator", **settings)

    def command(self, *words: str) -> subprocess.Popen[str]:
        tool = Path(sys.executable).with_name("tidings-translator")
        return subprocess.Popen(
            [str(tool), "generations", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        process = self.command(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out + err

    def published(self, shadow: str = "") -> list[Published]:
        own = f"tidings.{self.name}.generation.{shadow}.events." if shadow else ""
        try:
            found = read_events(
                self.bootstrap, {f"{own}{topic}": it for topic, it in contracts(self.name).items()}
            )
        except (KafkaException, AssertionError):
            return []  # a topic is being created
        return [Published(e.topic.removeprefix(own), e.key, e.event_id, e.payload, e.headers) for e in found]

    def wait_for(self, want: Events, *alive: StageProcess, shadow: str = "") -> None:
        wait_for(
            lambda: len(self.published(shadow)) >= count(want), "events", seconds=150, every=1, alive=alive
        )
        assert in_order(self.published(shadow)) == want


@pytest.fixture
def source(
    kafka_bootstrap: str, registry_url: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> Source:
    return Source(kafka_bootstrap, registry_url, unique_name, make_stage)


@pytest.fixture
def ledger(kafka_bootstrap: str, source: Source) -> Iterator[Callable[[], Ledger]]:
    """The ledger as it is now."""
    reader = LedgerReader(kafka_bootstrap, source.name)

    def now() -> Ledger:
        reader.poll(0.1)
        return reader.ledger

    yield now
    reader.close()


def test_a_promotion_leaves_no_gap_and_no_repeat_although_every_process_is_killed(
    source: Source, ledger: Callable[[], Ledger]
) -> None:
    name = source.name
    source.commit(120)
    old = source.stages()
    source.wait_for(expected(name, source.history.transactions), *old)

    new = source.stages("capitals")
    wait_for(lambda: "generations start capitals" in new[0].detail("topics"), "it to wait for its start")
    code, said = source.run("start", "capitals")
    assert code == 0, said
    shadow = second(expected(name, source.history.transactions))
    source.wait_for(shadow, *old, *new, shadow="capitals")
    source.wait_for(expected(name, source.history.transactions), *old)

    # Everybody is killed, and each step of the promotion is made by a process that has just been started.
    promote = source.command("promote", "capitals")
    wait_for(lambda: ledger().promotion, "the promotion to begin")
    for process in (*old, *new):
        process.kill()
    source.commit(40)
    new[0].start()
    wait_for(lambda: ledger().fact("held", "capitals"), "the new sequencer to stand still", alive=(new[0],))
    source.commit(40)
    old[0].start()
    stopped = wait_for(lambda: ledger().fact("stopped", "original"), "the cut", alive=(old[0], new[0]))
    old[0].restart_killed()
    source.commit(40)
    old[1].start()
    wait_for(lambda: ledger().everywhere("passed", "original", 4), "all before the cut", alive=(*old, new[0]))
    wait_for(
        lambda: ledger().fact("switched", "capitals"), "the new sequencer to go on", alive=(*old, new[0])
    )
    new[0].restart_killed()
    new[1].start()
    wait_for(lambda: ledger().live == "capitals", "the promotion to end", alive=(*old, *new))
    assert promote.wait(60) == 0, promote.communicate()
    source.commit(40)

    transactions = source.history.transactions
    assert transactions[119].end_lsn <= stopped.at < transactions[-1].end_lsn
    want = switched(name, transactions, stopped.at)
    source.wait_for(want, *old, *new)
    events = source.published()
    assert len({event.event_id for event in events}) == len(events) == count(want)
    assert in_order(source.published("capitals")) == second(
        expected(name, [one for one in transactions if one.end_lsn <= stopped.at])
    ), "the shadow topics end at the cut"

    # The old generation is done with; its processes are idle, and can be removed with what is theirs.
    wait_for(lambda: "retired" in old[0].detail("generation"), "the old one to say so", alive=old)
    assert (old[0].readyz() or {})["ok"]
    with pytest.raises(GenerationError, match="has processes"):
        source.generations.discard("original")
    with pytest.raises(GenerationError, match="is live"):
        source.generations.discard("capitals")
    for process in old:
        assert process.terminate() == 0
    groups = [f"tidings-sequencer-{name}", f"tidings-translator-{name}"]
    admin = GenerationAdmin(source.bootstrap)
    wait_for(lambda: not any(admin.members(groups).values()), "Kafka to see that they have gone", every=0.5)
    code, said = source.run("discard", "original")
    assert code == 0, said
    own = {f"tidings.{name}.{it}" for it in ("change-sets", "sequencer-state", "state")}
    wait_for(lambda: not own & Topics(source.bootstrap).partitions().keys(), "the topics to go")
    assert said.count("removed ") == len(own) + len(groups)
    standings = source.generations.standings()
    assert [(one.name, one.status) for one in standings] == [("original", "discarded"), ("capitals", "live")]
    assert standings[1].cut == stopped.at

    # Whoever starts a process of the old generation by mistake publishes nothing with it.
    old[0].start()
    assert old[0].exit_code(90) != 0
    assert "was discarded" in old[0].log.read_text()
