"""Dead letters on a real Kafka: an aggregate that is held through a kill, and the command that deals with letters."""

import json
from collections.abc import Callable

import pytest
from bikes.history import Change, History, Transaction
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, records_of
from confluent_kafka import Consumer, TopicPartition

from tidings_translator.cli import dead_letters as dead_letters_cli

pytestmark = pytest.mark.stack

CUSTOMER = Change("public.customers", "c", None, {"id": 1, "name": "Ann Secret"})
Command = Callable[..., tuple[int, str]]


def order(number: int, status: str = "placed", op: str = "c") -> Change:
    return Change("public.orders", op, None, {"id": number, "customer_id": 1, "status": status})


def payment(number: int, order_id: int) -> Change:
    return Change("public.payments", "c", None, {"id": number, "order_id": order_id})


@pytest.fixture
def command(
    kafka_bootstrap: str,
    unique_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Runs `tidings-translator dead-letters`; its exit code, and what it has written."""
    monkeypatch.setenv("TIDINGS_KAFKA", kafka_bootstrap)
    monkeypatch.setenv("TIDINGS_SOURCE", unique_name)

    def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = dead_letters_cli.main(arguments)
        out, err = capsys.readouterr()
        return code, out + err

    return run


def first_offset(bootstrap: str, source: str) -> int:
    """Where the dead-letter topic begins."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        place = TopicPartition(f"tidings.{source}.dead-letters", 0)
        return consumer.get_watermark_offsets(place, timeout=30)[0]
    finally:
        consumer.close()


@pytest.mark.timeout(300)
def test_a_held_aggregate_survives_a_kill_and_is_released_by_a_replay(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess], command: Command
) -> None:
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    history = History(1)
    committed: list[Transaction] = []

    def commit(*changes: Change) -> None:
        transaction = history.commit(list(changes))
        committed.append(transaction)
        topics.write(records_of(unique_name, transaction))

    code, said = command("list")
    assert code == 1
    assert f"no topic tidings.{unique_name}.dead-letters" in said
    assert "TIDINGS_SOURCE" in said

    commit(CUSTOMER, order(3, "impossible"), payment(9, 3))
    commit(order(3, "paid", "u"))
    commit(order(1))
    topics.write([(f"{unique_name}.public.orders", b"k", b"{garbage")])
    sequencer = make_stage("sequencer")
    translator = make_stage("translator", TIDINGS_ON_FAILURE="placed=hold")
    others = count(expected(unique_name, [committed[0].__class__(1, 1, None, 1, (CUSTOMER, order(1)))]))

    def letters() -> list[dict[str, str]]:
        _, said = command("list", "--json")
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) == others and len(letters()) == 2,
        "the other order and two letters",
        seconds=90,
        every=0.5,
        alive=(sequencer, translator),
    )
    wait_for(
        lambda: 'tidings_held_aggregates{aggregate="Order"} 1.0' in translator.metrics(), "the metric of it"
    )
    assert "1 held with 2 change sets" in translator.detail("aggregates")
    assert (translator.readyz() or {})["ok"], "it is at work"
    translator.kill()

    [held] = [one for one in letters() if one.get("policy") == "hold"]
    [garbage] = [one for one in letters() if one["stage"] == "decode"]
    number = str(held["number"])
    assert (held["aggregate"], held["id"], held["rule"]) == ("Order", "3", "placed")
    code, said = command("list", "--rule", "placed")
    assert code == 0
    assert "rule Order/3 placed  HELD" in said
    assert f"tidings.{unique_name}.change-sets/" in said
    assert "raised ValueError" in said
    assert command("list", "--aggregate", "Order/4") == (0, "no dead letters\n")
    assert "Secret" not in said + command("show", number)[1]
    code, said = command("show", number, "--payload")
    assert json.loads(said)["payload"]["rows"][0][3]["status"] == "impossible"
    assert command("show", "99")[0] == 1
    assert command("replay", number, "--all")[0] == 1
    code, said = command("replay", str(garbage["number"]))
    assert (code, "incremental snapshot" in said) == (1, True)
    assert command("discard", str(garbage["number"])) == (0, f"{garbage['number']}: discarded\n")
    assert command("discard", str(garbage["number"]))[0] == 1
    # Rows are kept no longer than until somebody has dealt with all letters up to theirs.
    assert first_offset(kafka_bootstrap, unique_name) == int(number) > 0

    # The translator was killed. Its successor finds the aggregate held; a replay that fails leaves it so.
    translator = make_stage("translator", TIDINGS_ON_FAILURE="placed=hold")
    code, said = command("replay", number)
    assert code == 3, said
    assert "failed again, now" in said
    [held] = letters()
    assert held["policy"] == "hold"
    assert len(published(kafka_bootstrap, unique_name)) == others
    assert translator.terminate() == 0

    # The domain is mended; the request waits for the translator that runs it.
    assert command("replay", "--all", "--timeout", "0") == (0, "1 requests written\n")
    commit(payment(10, 3), Change("public.payments", "d", {"id": 9, "order_id": 0}, None))
    translator = make_stage("translator", BIKES_MENDED="1")
    want = expected(unique_name, committed)
    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want),
        "what was held",
        seconds=90,
        every=0.3,
        alive=(sequencer, translator),
    )
    events = published(kafka_bootstrap, unique_name)
    assert in_order(events) == want, "as if nothing had failed"
    assert len({event.event_id for event in events}) == len(events)
    assert command("list") == (0, "no dead letters\n")
    wait_for(
        lambda: 'tidings_dead_letters_resolved_total{outcome="replayed"} 1.0' in translator.metrics(), "it"
    )
    for log in (sequencer.log, translator.log):
        assert "Secret" not in log.read_text()
        assert "impossible" not in log.read_text()
