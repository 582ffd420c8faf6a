"""Rows that were deleted while nobody looked: found by comparing the topic's keys with the table, and announced."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidings_capture.cdc.incremental.live_keys import LiveKeys
from tidings_service.disk import OwnDirectory, remove_abandoned
from tidings_stack.capture import CaptureWorker as Worker
from tidings_stack.kafka import arrived

MANY_KEYS = """
CREATE TABLE m (n numeric(10, 2), v numeric, d date, at timestamptz, ts timestamp(6), s text, u uuid, b boolean, raw bytea,
                PRIMARY KEY (n, v, d, at, ts, s, u, b, raw))
"""
ROW = """
INSERT INTO m VALUES ({0}.5, {0}e-7, '2024-02-2{0}', '2024-01-01 10:00:00.12345{0}+02', '1969-12-31 23:59:59.99999{0}',
                      E'quote '' back \\\\ " {0}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1{0}', {0} % 2 = 0, '\\x00ff0{0}')
"""


def keys(records: Any, op: Any) -> list[Any]:
    return [r.key["id"] for r in records if r.value is not None and r.value["op"] == op]


def lose_slot(
    worker: Worker, name: str, sql: Callable[..., list[tuple[Any, ...]]], wait_until: Callable[..., Any]
) -> None:
    assert worker.request("PUT", f"/connectors/{name}/pause")[0] == 202
    free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{name}'"
    wait_until("the slot to be free", lambda: sql(free) == [(True,)])
    sql(f"SELECT pg_drop_replication_slot('{name}')")


def signal(worker: Worker, name: str, type_: Any, **data: Any) -> None:
    status, body = worker.request("POST", f"/connectors/{name}/signals", {"type": type_, "data": data})
    assert status == 202, body


@pytest.mark.parametrize("choice", ["incremental", "snapshot"])
def test_rows_deleted_in_a_gap_are_announced(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
    choice: str,
) -> None:
    sql(
        "CREATE TABLE a (id int PRIMARY KEY, t text)",
        "INSERT INTO a SELECT i, 'x' FROM generate_series(1, 9) i",
    )
    config = connector_config | {"incremental.snapshot.chunk.size": "2", "read.only": "true"}
    name = create(config)
    topic = f"{name}.public.a"
    wait_records(topic, 9)
    sql("DELETE FROM a WHERE id = 1")  # the stream tells of it
    wait_records(topic, 11)
    lose_slot(worker, name, sql, wait_until)
    # 2 comes back within the gap: it is there, with other values.
    sql("DELETE FROM a WHERE id IN (2, 3, 4, 9)", "INSERT INTO a VALUES (2, 'again')")
    assert worker.request("PUT", f"/connectors/{name}/config", config | {"on.slot.loss": choice})[0] == 200
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
    wait_until("the deletes", lambda: {3, 4, 9} <= set(keys(read_topic(topic), "d")))
    sql("INSERT INTO a VALUES (3, 'later')")
    wait_until("the stream", lambda: 3 in keys(read_topic(topic), "c"))

    records = read_topic(topic)
    assert sorted(keys(records, "d")) == [1, 3, 4, 9]
    newest = {r.key["id"]: r.value for r in records}
    assert {id_: value and value["after"] and value["after"]["t"] for id_, value in newest.items()} == {
        1: None, 2: "again", 3: "later", 4: None, 5: "x", 6: "x", 7: "x", 8: "x", 9: None,
    }  # fmt: skip
    delete = next(r.value for r in records if r.value and r.value["op"] == "d" and r.key["id"] == 4)
    assert delete["before"] == {"id": 4, "t": None}
    assert delete["source"]["snapshot"] == "incremental"
    assert delete["source"]["lsn"] is None

    def stored() -> Any:
        return json.dumps(worker.request("GET", f"/connectors/{name}/offsets")[1])

    wait_until("nothing to be left to compare", lambda: "incremental_snapshot" not in stored())


def raw(bootstrap: Any, topic: str) -> list[Any]:
    """Key and value of every record, as bytes."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "capture-tests", "enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            for message in arrived(consumer, 0.2):
                if message.error() is not None:
                    return found
                found.append((message.key(), message.value()))
    finally:
        consumer.close()


JSON = "org.apache.kafka.connect.json.JsonConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.mark.parametrize(
    ("converter", "schemas"),
    [(JSON, "false"), (JSON, "true"), (AVRO, "")],
    ids=["json", "json schemas", "avro"],
)
def test_a_signal_compares_keys_of_many_types(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    kafka_bootstrap: str,
    registry_url: str,
    converter: Any,
    schemas: str,
) -> None:
    sql(MANY_KEYS, *(ROW.format(i) for i in range(1, 7)))
    options = {}
    for side in ("key", "value"):
        options[f"{side}.converter"] = converter
        options |= (
            {f"{side}.converter.schemas.enable": schemas}
            if schemas
            else {f"{side}.converter.schema.registry.url": registry_url}
        )
    name = create(connector_config | options | {"read.only": "true"})
    topic = f"{name}.public.m"
    wait_until("the snapshot", lambda: len(raw(kafka_bootstrap, topic)) == 6)
    before = {key for key, _ in raw(kafka_bootstrap, topic)}
    # Nobody hears of these: the publication has no deletes while they go.
    sql(
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update')",
        "DELETE FROM m WHERE n IN (2.5, 4.5)",
        "DELETE FROM m WHERE n = 6.5",
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
        ROW.format(7),
    )
    wait_until("the stream", lambda: len(raw(kafka_bootstrap, topic)) == 7)
    data = {"type": "find-deleted-rows", "data": {"data-collections": ["public.m"]}}
    assert worker.request("POST", f"/connectors/{name}/signals", data)[0] == 202
    wait_until("three deletes", lambda: len(raw(kafka_bootstrap, topic)) >= 13)
    records = raw(kafka_bootstrap, topic)
    gone = {key for key, value in records if value is None}
    assert len(gone) == 3
    assert gone <= before
    assert len(records) == 13, "a row that is there was declared deleted"


def test_what_a_killed_worker_left_of_a_topics_keys_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoTopic:
        def batches(self) -> Any:
            return iter(())

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = OwnDirectory("tidings-keys-", tmp_path)
    os.close(left.locks[0])  # as if its process were dead
    keys = LiveKeys(NoTopic(), None)
    [own] = tmp_path.glob("tidings-keys-*")
    assert own != left.path
    assert remove_abandoned("tidings-keys-", tmp_path) == [], "it lives"
    keys.close()
    assert list(tmp_path.iterdir()) == []
