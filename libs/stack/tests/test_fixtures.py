"""The pytest fixtures, used as the other distributions use them."""

import json
import urllib.request

import psycopg
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_stack.kafka import delete_topics


def test_a_fresh_database_has_logical_wal(pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        connection.execute(
            "SELECT pg_create_logical_replication_slot('left_behind_' || current_database(), 'pgoutput')"
        )


def test_kafka_keeps_what_is_produced(kafka_bootstrap: str, unique_name: str) -> None:
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(unique_name, b"value")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": unique_name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([unique_name])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"


def test_topics_are_deleted_by_a_part_of_their_name(kafka_bootstrap: str, unique_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    mine, other = [f"{unique_name}.a", f"changes-of-{unique_name}"], f"other-{unique_name[::-1]}"
    for future in admin.create_topics([NewTopic(topic, 1) for topic in (*mine, other)]).values():
        future.result()
    delete_topics(kafka_bootstrap, ["nobody-has-this", unique_name])
    left = admin.list_topics(timeout=30).topics
    assert other in left
    assert not set(mine) & left.keys()


def test_the_registry_checks_compatibility_backward(registry_url: str) -> None:
    with urllib.request.urlopen(f"{registry_url}/config", timeout=30) as answer:
        assert json.load(answer)["compatibilityLevel"] == "BACKWARD"
