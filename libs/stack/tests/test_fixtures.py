"""The pytest fixtures, used as the other distributions use them."""

import json
import urllib.request

import psycopg
from confluent_kafka import Consumer, Producer


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


def test_the_registry_checks_compatibility_backward(registry_url: str) -> None:
    with urllib.request.urlopen(f"{registry_url}/config", timeout=30) as answer:
        assert json.load(answer)["compatibilityLevel"] == "BACKWARD"
