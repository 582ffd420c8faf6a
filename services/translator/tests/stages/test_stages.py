"""The two stages as processes on a real Kafka: waiting, discovering, standing by, bad input, stopping."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bikes.history import Change, History, Transaction
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, read_committed, records_of, snapshot_record
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.kafka.topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

CUSTOMER = Change("public.customers", "c", None, {"id": 1, "name": "Ann"})


def order(number: int, status: str = "placed", op: str = "c") -> Change:
    return Change("public.orders", op, None, {"id": number, "customer_id": 1, "status": status})


def line(number: int, price: str = "10.00") -> Change:
    return Change("public.order_items", "c", None, {"order_id": number, "line_no": 1, "price": price})


class Run:
    """Both stages on topics of their own."""

    def __init__(self, bootstrap: str, name: str, make_stage: Callable[..., StageProcess]) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.make_stage = make_stage
        self.history = History(1)

    def commit(self, *changes: Change) -> Transaction:
        return self.history.commit(list(changes))

    def records(self, *transactions: Transaction) -> list[tuple[str, bytes | None, bytes | None]]:
        return [record for transaction in transactions for record in records_of(self.name, transaction)]

    def wait_for_events(self, transactions: list[Transaction], *stages: StageProcess) -> None:
        want = expected(self.name, transactions)
        wait_for(
            lambda: len(published(self.bootstrap, self.name)) >= count(want),
            "events",
            seconds=240,
            alive=stages,
        )
        assert in_order(published(self.bootstrap, self.name)) == want

    def dead_letters(self) -> list[dict[str, str]]:
        topic = f"tidings.{self.name}.dead-letters"
        letters = []
        for _, message in read_committed(self.bootstrap, [topic]):
            headers = {name: value.decode() for name, value in message.headers()}
            letters.append({**headers, "value": (message.value() or b"").decode(errors="replace")})
        return letters


@pytest.fixture
def run(kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]) -> Run:
    return Run(kafka_bootstrap, unique_name, make_stage)


def test_waiting_for_topics_discovering_tables_and_stopping(run: Run) -> None:
    """Nothing crashes because the source is not there yet, or a table has had no rows yet."""
    sequencer, translator = run.make_stage("sequencer"), run.make_stage("translator")
    wait_for(lambda: f"{run.name}.transaction" in sequencer.detail("topics"), "the sequencer to wait")
    wait_for(lambda: "change-sets" in translator.detail("topics"), "the translator to wait")
    assert sequencer.readyz() is not None

    topics = TechnicalTopics(run.bootstrap, run.name, without=frozenset({"public.payments"}))
    first = run.commit(CUSTOMER, order(1), line(1))
    topics.write(run.records(first))
    run.wait_for_events([first], sequencer, translator)
    wait_for(lambda: (sequencer.readyz() or {}).get("ok"), "the sequencer to be ready")
    wait_for(lambda: (translator.readyz() or {}).get("ok"), "the translator to be ready")

    admin = AdminClient({"bootstrap.servers": run.bootstrap})
    for future in admin.create_topics([NewTopic(f"{run.name}.public.payments", 3, 1)]).values():
        future.result()
    payment = Change("public.payments", "c", None, {"id": 1, "order_id": 1})
    second = run.commit(payment, order(1, "paid", "u"))
    topics.write(run.records(second))
    run.wait_for_events([first, second], sequencer, translator)

    assert sequencer.terminate() == 0
    assert translator.terminate() == 0


def test_structured_events_and_the_metrics_of_their_readers(run: Run) -> None:
    topics = TechnicalTopics(run.bootstrap, run.name, partitions=1)
    topics.write(run.records(run.commit(CUSTOMER, order(1), line(1))))
    sequencer = run.make_stage("sequencer")
    translator = run.make_stage(
        "translator", TIDINGS_CLOUDEVENTS_MODE="structured", TIDINGS_READERS_SECONDS="0.5"
    )
    newest = f"{run.name}.order-placed.v2"

    def told() -> list[Any]:
        return [message for _, message in read_committed(run.bootstrap, [newest])]

    wait_for(
        lambda: newest in Topics(KafkaAccess(run.bootstrap)).partitions(),
        "the topic",
        seconds=240,
        alive=(translator,),
    )
    wait_for(told, "the event", seconds=240, alive=(sequencer, translator))
    (message,) = told()
    assert message.headers() == [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    document = json.loads(message.value())
    assert (document["type"], document["subject"]) == (newest, "1")
    assert document["data"] == {"order_id": 1, "lines": 1, "customer": "Ann", "total": "10.00"}

    group = f"{run.name}-readers"
    reader = Consumer({"bootstrap.servers": run.bootstrap, "group.id": group, "enable.auto.commit": False})
    reader.commit(offsets=[TopicPartition(newest, message.partition(), 1)], asynchronous=False)
    reader.close()
    labels = f'event="order-placed",group="{group}",version="v2"'
    wait_for(lambda: f"tidings_business_reader_members{{{labels}}} 0.0" in translator.metrics(), "the reader")


def test_bad_input_goes_to_the_dead_letters_and_the_rest_goes_on(run: Run) -> None:
    topics = TechnicalTopics(run.bootstrap, run.name, partitions=1)
    good = run.commit(CUSTOMER, order(1), line(1))
    torn = run.commit(order(2), line(2))
    raising = run.commit(order(3, "impossible"))
    goes_on = run.commit(order(3, "paid", "u"))
    wrong_type = run.commit(order(4), line(4, "not a price"))
    records = run.records(good, torn, raising, goes_on, wrong_type)
    lines = f"{run.name}.public.order_items"
    torn_at = [index for index, record in enumerate(records) if record[0] == lines][1]
    records[torn_at] = (lines, records[torn_at][1], b"\x00\x00\xff\xff\xff, with a schema id that nobody has")
    records.insert(2, (f"{run.name}.transaction", b"x", b"not a marker"))
    topics.write(records)
    sequencer = run.make_stage("sequencer", TIDINGS_MALFORMED_GRACE_SECONDS="1")
    translator = run.make_stage("translator")
    # The torn transaction and the one whose rule raised are missing as a whole, its next one is there.
    want = expected(run.name, [good])
    want[f"{run.name}.order-paid.v1"] = {"3": [{"order_id": 3, "payments": 0}]}
    wait_for(
        lambda: len(published(run.bootstrap, run.name)) >= count(want) and len(run.dead_letters()) >= 5,
        "events and dead letters",
        seconds=240,
        every=0.5,
        alive=(sequencer, translator),
    )
    assert in_order(published(run.bootstrap, run.name)) == want

    letters = {letter["tidings_stage"]: letter for letter in run.dead_letters()}
    places = {(one["tidings_topic"], one["tidings_offset"]) for one in run.dead_letters()}
    assert (lines, "1") in places
    assert {(f"{run.name}.transaction", number) for number in "01"} & places
    decode = [one for one in run.dead_letters() if one["tidings_stage"] == "decode"]
    assert {one["tidings_error"] for one in decode} == {"DecodeError"}
    assert any("would not fetch schema" in one["tidings_reason"] for one in decode), "an id that nobody has"
    assert letters["transaction"]["tidings_topic"] == f"{run.name}.public.orders"
    assert letters["transaction"]["tidings_txid"] == str(torn.txid)
    assert f"unreadable rows at {lines}/0 offset 1" in letters["transaction"]["tidings_reason"]
    assert json.loads(letters["transaction"]["value"])["after"]["id"] == 2, "the original bytes"
    assert letters["rule"]["tidings_rule"] == "placed"
    assert "raised ValueError" in letters["rule"]["tidings_reason"]
    assert "impossible" not in letters["rule"]["tidings_reason"], "no cell value in a reason"
    assert letters["rule"]["tidings_id"] == "3"
    assert "public.order_items" in letters["rows"]["tidings_reason"]
    assert sequencer.terminate() == 0
    assert translator.terminate() == 0


def test_a_snapshot_builds_state_silently_and_streaming_goes_on_from_it(run: Run) -> None:
    topics = TechnicalTopics(run.bootstrap, run.name)
    rows = [
        ("public.customers", {"id": 1, "name": "Ann"}),
        ("public.orders", {"id": 1, "customer_id": 1, "status": "placed"}),
        ("public.order_items", {"order_id": 1, "line_no": 1, "price": "3.00"}),
        ("public.payments", {"id": 5, "order_id": 1}),
    ]
    topics.write([snapshot_record(run.name, table, row, lsn=900) for table, row in rows])
    unknown = run.commit(order(2, "paid", "u"))
    paid = run.commit(order(1, "paid", "u"))
    topics.write(run.records(unknown, paid))
    sequencer, translator = run.make_stage("sequencer"), run.make_stage("translator")
    wait_for(
        lambda: published(run.bootstrap, run.name),
        "the one event",
        alive=(sequencer, translator),
        seconds=240,
        every=0.3,
    )
    unknown_one = 'tidings_translator_partial_change_sets_total{aggregate="Order"} 1.0'
    wait_for(lambda: unknown_one in translator.metrics(), "the metric of the order that nobody has told of")
    [event] = published(run.bootstrap, run.name)
    assert event.topic == f"{run.name}.order-paid.v1"
    assert event.payload == {"order_id": 1, "payments": 1}, "the snapshot's payment is in the state"


def test_another_sequencer_stands_by_and_takes_over(run: Run, tmp_path: Path) -> None:
    topics = TechnicalTopics(run.bootstrap, run.name)
    active = run.make_stage("sequencer", TIDINGS_INSTANCE="one")
    translator = run.make_stage("translator")
    first = run.commit(CUSTOMER, order(1), line(1))
    topics.write(run.records(first))
    run.wait_for_events([first], active, translator)
    standby = StageProcess(
        "sequencer", tmp_path / "standby.log", **{**active.settings, "TIDINGS_INSTANCE": "two"}
    )
    with standby:
        wait_for(lambda: "standing by" in standby.detail("group"), "the second to stand by", alive=(standby,))
        assert (standby.readyz() or {})["ok"]
        active.kill()
        second = run.commit(order(2), line(2))
        topics.write(run.records(second))
        run.wait_for_events([first, second], standby, translator)
        assert standby.terminate() == 0


def test_a_source_without_transaction_metadata_row_by_row_and_no_way_back(run: Run) -> None:
    topics = TechnicalTopics(run.bootstrap, run.name, partitions=1)
    made = run.records(run.commit(CUSTOMER, order(1), line(1)), run.commit(order(1, "paid", "u")))
    topics.write(
        [
            (topic, key, json.dumps({**json.loads(value or b""), "transaction": None}).encode())
            for topic, key, value in made
            if not topic.endswith(".transaction")
        ]
    )
    sequencer = run.make_stage("sequencer", TIDINGS_TRANSACTIONS="none")
    translator = run.make_stage("translator")
    paid = f"{run.name}.order-paid.v1"
    wait_for(
        lambda: in_order(published(run.bootstrap, run.name)).get(paid),
        "an event",
        every=0.5,
        alive=(sequencer, translator),
    )
    events = in_order(published(run.bootstrap, run.name))
    assert events[paid] == {"1": [{"order_id": 1, "payments": 0}]}
    assert len(events[f"{run.name}.order-placed.v2"]["1"]) == 1
    assert sequencer.terminate() == 0
    topics.write(run.records(run.commit(order(2), line(2))))
    again = run.make_stage("sequencer")
    assert again.exit_code() != 0
    assert "row by row" in again.log.read_text()
