"""Business events in Avro, from real Kafka and registry to a receiver that drops answers, by a worker that is killed."""

import random
from collections import defaultdict
from pathlib import Path

from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.formats.json import JSONFormat
from end_to_end import GROUP, random_seed
from event_records import placing_orders
from standardwebhooks.webhooks import Webhook
from webhook_parts import HTTP_SINK, LOST, TAKEN, Receiver, refused

from tidings_stack.capture import CaptureWorkers
from tidings_stack.waiting import wait_for

EVENTS = 160
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_events_arrive_signed_and_under_one_id_through_kills(
    kafka_bootstrap: str, registry_url: str, receiver: Receiver, unique_name: str, tmp_path: Path
) -> None:
    chance = random.Random(random_seed())
    receiver.decide = lambda _: chance.choice(
        [*[TAKEN] * 6, LOST, refused(429, retry_after="0"), refused(503)]
    )
    topic = f"{unique_name}.order-placed.v1"
    produce = placing_orders(kafka_bootstrap, registry_url, topic)
    sink = {
        "connector.class": HTTP_SINK, "topics": topic, "tasks.max": "2", "http.url": receiver.url, "http.authorization.type": "none",
        "retry.backoff.ms": "20", "kafka.retry.backoff.ms": "20", "tidings.http.max.in.flight": "4",
        "tidings.http.signature.secrets": SECRET, "consumer.override.max.poll.records": "20",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": registry_url,
    }  # fmt: skip
    wanted = {f"e-{number}" for number in range(EVENTS)}

    def arrived() -> set[str]:
        return {seen.headers["ce-id"] for seen in receiver.taken}

    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        produce(0, EVENTS // 2)
        status, body = worker.request("PUT", f"/connectors/{unique_name}/config", sink)
        assert status == 201, body
        wait_for("the first events", lambda: len(arrived()) > EVENTS // 8)
        worker.kill()
        receiver.stop()
        worker = workers.start(properties)
        produce(EVENTS // 2, EVENTS)
        receiver.start()
        wait_for("all events", lambda: arrived() == wanted, 120)

        def committed() -> bool:
            _, answer = worker.request("GET", f"/connectors/{unique_name}/offsets")
            return [entry["offset"]["kafka_offset"] for entry in answer["offsets"]] == [EVENTS // 2] * 2

        wait_for("the commit", committed, 60)

        def lag() -> str:
            _, text = worker.request("GET", "/metrics")
            mine = [line for line in text.splitlines() if line.startswith("tidings_sink_commit_lag_seconds{")]
            return "".join(line for line in mine if unique_name in line)

        wait_for("the lag since the commits, which is none", lambda: lag().endswith(" 0.0"))
        worker.request("PUT", f"/connectors/{unique_name}/stop")
    bodies = defaultdict(set)
    for seen in receiver.taken:
        Webhook(SECRET).verify(seen.body, seen.headers)
        event = from_binary(HTTPMessage(seen.headers, seen.body), JSONFormat())
        assert event.get_id() == seen.headers["webhook-id"] == seen.headers["idempotency-key"]
        bodies[event.get_id()].add(seen.body)
        number = int(event.get_id().removeprefix("e-"))
        assert event.get_data() == {
            "order_id": number,
            "total": f"{number / 100:.2f}",
            "placed_at": f"2026-01-01T00:00:00.{number:03d}000Z",
            "lines": [{"sku": f"s{number}", "qty": None if number % 2 else number}],
        }
    assert {len(each) for each in bodies.values()} == {1}
    print(f"{len(receiver.taken)} requests for {EVENTS} events")
