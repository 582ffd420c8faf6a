"""A second generation beside the live one on a real Kafka: compared, promoted under traffic and SIGKILL, discarded."""

import json
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

from tidings_envelope.registry import RegistryClient
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.cli.generations import main
from tidings_translator.generations.correct import Corrector
from tidings_translator.generations.generations import Generations
from tidings_translator.kafka.topics import Topics
from tidings_translator.ledger.ledger import Ledger
from tidings_translator.ledger.records import GenerationAdmin, LedgerReader

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

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
        self.generations = Generations(KafkaAccess(bootstrap), name)
        self._make_stage = make_stage
        self.environment = {
            **os.environ,
            "TIDINGS_KAFKA": bootstrap,
            "TIDINGS_REGISTRY": registry,
            "TIDINGS_SOURCE": name,
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

    def start(self, generation: str) -> None:
        """`tidings-translator generations start` as a process, because it imports the domain."""
        tool = Path(sys.executable).with_name("tidings-translator")
        subprocess.run(
            [str(tool), "generations", "start", generation],
            env={
                **self.environment,
                "TIDINGS_DOMAIN": "bikes",
                "PYTHONPATH": str(TESTS),
                "BIKES_NAME": self.name,
            },
            timeout=240,
            check=True,
        )

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
    reader = LedgerReader(KafkaAccess(kafka_bootstrap), source.name)

    def now() -> Ledger:
        reader.poll(0.1)
        return reader.ledger

    yield now
    reader.close()


@pytest.fixture
def text(
    source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """`tidings-translator generations …`, and what it prints."""

    def run(*words: str) -> str:
        for variable, value in source.environment.items():
            monkeypatch.setenv(variable, value)
        capsys.readouterr()
        assert main(words) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def command(text: Callable[..., str]) -> Callable[..., list[dict[str, Any]]]:
    """The same, where it prints JSON."""
    return lambda *words: [json.loads(line) for line in text(*words).splitlines()]


def check_differences(found: dict[str, dict[str, Any]], live: Events, shadow: Events) -> None:
    """`found` is what differs between what the two generations were expected to say."""

    def all_of(events: Events, topic: str) -> list[Any]:
        return [one for payloads in events[topic].values() for one in payloads]

    assert found.keys() == live.keys()
    for topic, one in found.items():
        told, shadowed = all_of(live, topic), all_of(shadow, topic)
        changed = len(told) if topic.endswith("order-placed.v2") else 0
        assert (one["changed"], one["same"]) == (changed, len(shadowed) - changed), one
        assert (one["only_live"], one["only_shadow"]) == (len(told) - len(shadowed), 0), one
        assert one["fields"] == ({"customer": changed} if changed else {})
        assert len(one["examples"]) == int(not one["same"]) + int(one["only_live"] > 0)


@pytest.mark.long
def test_a_promotion_leaves_no_gap_and_no_repeat_although_every_process_is_killed(
    source: Source,
    ledger: Callable[[], Ledger],
    text: Callable[..., str],
    command: Callable[..., list[dict[str, Any]]],
) -> None:
    name = source.name
    source.commit(120)
    old = source.stages()
    source.wait_for(expected(name, source.history.transactions), *old)

    new = source.stages("capitals")
    wait_for(lambda: "generations start capitals" in new[0].detail("topics"), "it to wait for its start")
    source.start("capitals")
    shadow = second(expected(name, source.history.transactions))
    source.wait_for(shadow, *old, *new, shadow="capitals")
    source.wait_for(expected(name, source.history.transactions), *old)
    found = {
        document["topic"]: document for document in command("diff", "capitals", "--json", "--examples", "1")
    }
    check_differences(found, expected(name, source.history.transactions), shadow)

    # Everybody is killed, and each step of the promotion is made by a process that has just been started.
    promotion = source.generations.promote("capitals", max_behind=1_000)
    for process in (*old, *new):
        process.kill()
    source.commit(40)
    new[0].start()
    wait_for(lambda: ledger().fact("held", "capitals"), "the new one to be held", seconds=120, alive=new[:1])
    source.commit(40)
    old[0].start()
    stopped = wait_for(lambda: ledger().fact("stopped", "original"), "the cut", seconds=120, alive=old[:1])
    new[0].kill()
    source.commit(40)
    new[0].start()
    old[1].start()
    switched_at = wait_for(
        lambda: ledger().fact("switched", "capitals"),
        "the new sequencer to go on",
        seconds=120,
        alive=(*old, new[0]),
    )
    assert ledger().everywhere("passed", "original", switched_at.partitions)
    new[1].start()
    assert source.generations.watch(promotion, print, timeout_seconds=120)
    assert ledger().live == "capitals"
    new[1].restart_killed()
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

    # The corrective events are the difference: each is told once, however often the command is run.
    told = [one for one in transactions if one.end_lsn <= stopped.at]
    live, right = expected(name, told), second(expected(name, told))
    wrong = count({topic: it for topic, it in live.items() if topic.endswith("order-placed.v2")})
    corrections: list[Published] = []
    for words, published in (
        (("correct",), 0),
        (("correct", "--publish"), wrong),
        (("correct", "--publish"), wrong),
    ):
        said = text(*words, "capitals")
        anew = wrong if not corrections else 0
        assert f"{name}.order-placed.v2\n  told anew             {anew:>10}\n" in said
        assert said.count("told anew                      0\n") == len(live) - bool(anew), (
            "nothing else has changed"
        )
        assert f"cannot be taken back  {count(live) - count(right):>10}\n" in said
        corrections = [one for one in source.published() if "ce_correction" in one.headers]
        assert len(corrections) == published
    by_id = {event.event_id: event for event in events}
    for one in corrections:
        event = by_id[one.headers["ce_corrects"].decode()]
        assert (one.topic, one.key) == (event.topic, event.key)
        assert one.payload == {**event.payload, "customer": event.payload["customer"].upper()}
        assert one.headers["ce_sequence"] == event.headers["ce_sequence"]
        assert one.headers["ce_correction"] == b"capitals"
    assert len({one.event_id for one in corrections} | by_id.keys()) == len(corrections) + len(by_id)
    after = {one["topic"]: one for one in command("diff", "capitals", "--json", "--examples", "0")}
    assert {topic: one["changed"] for topic, one in after.items()} == dict.fromkeys(live, 0)
    with pytest.raises(GenerationError, match="only the one that was promoted"):
        Corrector(
            KafkaAccess(source.bootstrap), name, RegistryClient(source.environment["TIDINGS_REGISTRY"])
        ).look("original")

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
    admin = GenerationAdmin(KafkaAccess(source.bootstrap))
    wait_for(lambda: not any(admin.members(groups).values()), "Kafka to see that they have gone", every=0.5)
    removed = source.generations.discard("original")
    own = {f"tidings.{name}.{it}" for it in ("change-sets", "sequencer-state", "state")}
    wait_for(lambda: not own & Topics(KafkaAccess(source.bootstrap)).partitions().keys(), "the topics to go")
    assert own | set(groups) == set(removed)
    overviews = command("status", "--json")
    assert [(one["name"], one["status"]) for one in overviews] == [
        ("original", "discarded"),
        ("capitals", "live"),
    ]
    assert overviews[1]["cut"] == stopped.at

    # A rule that needs all of history is refused, at the first change set, by a generation that has begun without it.
    assert new[1].terminate() == 0
    new[1].start(BIKES_HISTORY="needed")
    source.commit(5)
    assert new[1].exit_code(120) != 0
    assert "rule 'taken_back'" in new[1].log.read_text()
    assert "needs all of history, and generation 'capitals'" in new[1].log.read_text()
