"""The reference: real Debezium in Kafka Connect, with Apicurio's Avro converter."""

from __future__ import annotations

import json
import time

import psycopg
import pytest
from confluent_kafka import Consumer

from tidings_stack.capture import call
from tidings_stack.connect import avro_converter_settings, connector_settings


@pytest.mark.stack
def test_debezium_streams_in_confluent_s_wire_format(
    connect_url: str, kafka_bootstrap: str, registry_url: str, pg_database: str, unique_name: str
) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,2))")
        connection.execute("INSERT INTO t VALUES (1, 2.5)")
    settings = connector_settings(
        pg_database,
        **{
            "topic.prefix": unique_name,
            "slot.name": unique_name,
            "publication.name": unique_name,
            "table.include.list": "public.t",
            **avro_converter_settings(registry_url),
        },
    )
    call("PUT", f"{connect_url}/connectors/{unique_name}/config", settings)
    try:
        topic = f"{unique_name}.public.t"
        consumer = Consumer(
            {
                "bootstrap.servers": kafka_bootstrap,
                "group.id": unique_name,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        message = consumer.poll(60)
        # Until the snapshot has made the topic, the consumer is told that it is unknown.
        while message is not None and message.error() is not None and time.monotonic() < deadline:
            message = consumer.poll(60)
        consumer.close()
        assert message is not None
        value = message.value()
        assert value is not None
        assert value[0] == 0
        _, schema = call("GET", f"{registry_url}/schemas/ids/{int.from_bytes(value[1:5], 'big')}")
        assert json.loads(schema["schema"])["name"] == "Envelope"
    finally:
        call("DELETE", f"{connect_url}/connectors/{unique_name}")
