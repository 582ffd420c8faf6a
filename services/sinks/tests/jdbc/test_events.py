"""Business events as they are: by id, by subject, with their attributes; and what is said of deprecated ones."""

from collections.abc import Callable
from typing import Any

from sink_targets import Sink
from structlog.testing import capture_logs

Rows = Callable[..., list[tuple[Any, ...]]]
TOPIC = "shop.order-placed.v1"


def send(sink: Sink, number: int, event: str, **more: str) -> None:
    attributes = {"ce_specversion": "1.0", "ce_id": event, "ce_subject": f"order-{number}", **more}
    headers = [(name, text.encode()) for name, text in attributes.items()]
    sink.send(TOPIC, f"order-{number}", {"order_id": number, "total": "12.30"}, headers=headers)


def test_each_event_is_there_once_by_its_id(sink: Sink, target: Rows) -> None:
    sink.start(
        TOPIC,
        insert_mode="upsert",
        primary_key_mode="record_header",
        primary_key_fields="ce_id,ce_subject",
        schema_evolution="basic",
    )
    first, second = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
    send(sink, 1, first)
    send(sink, 1, second)
    send(sink, 1, first)
    sink.wait()
    rows = target('SELECT ce_id, ce_subject, order_id, total FROM "shop_order-placed_v1" ORDER BY 1')
    assert rows == [(first, "order-1", 1, "12.30"), (second, "order-1", 1, "12.30")]


def test_the_last_event_of_a_subject(sink: Sink, target: Rows) -> None:
    sink.start(
        TOPIC,
        insert_mode="upsert",
        primary_key_mode="record_key",
        primary_key_fields="subject",
        collection_name_format="orders",
        schema_evolution="basic",
    )
    send(sink, 1, "a")
    send(sink, 2, "b")
    send(sink, 1, "c")
    sink.wait()
    assert target("SELECT subject, order_id FROM orders ORDER BY 1") == [("order-1", 1), ("order-2", 2)]


def test_an_event_without_the_header_of_its_key_is_a_dead_letter(sink: Sink, target: Rows) -> None:
    sink.start(
        TOPIC,
        primary_key_mode="record_header",
        primary_key_fields="ce_id",
        collection_name_format="orders",
        schema_evolution="basic",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="letters",
    )
    sink.send(TOPIC, "order-1", {"order_id": 1})
    send(sink, 2, "b")
    sink.wait()
    assert target("SELECT ce_id, order_id FROM orders") == [("b", 2)]
    assert len(sink.worker.kafka.topics["letters"]) == 1


def test_deprecated_events_are_told_once(sink: Sink, target: Rows) -> None:
    with capture_logs() as logs:
        sink.start(TOPIC, primary_key_mode="kafka", collection_name_format="orders", schema_evolution="basic")
        for number in range(3):
            send(sink, number, str(number), ce_deprecated="true", ce_deprecationsunset="2027-05-01T00:00:00Z")
        sink.wait()
    told = [line for line in logs if "deprecated" in line["event"]]
    assert len(told) == 1
    assert TOPIC in str(told[0])
    assert "2027-05-01" in str(told[0])
    assert target("SELECT count(*) FROM orders") == [(3,)]
