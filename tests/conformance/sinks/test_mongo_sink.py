"""Our MongoDB sink beside mongo-kafka's: the same connector JSON and the same records, compared document by document.

Random streams, and the known differences (docs/mongodb.md), which are asserted with what each side makes of them. For long
random runs: ``python -m tests.conformance.mongo_sinks``.
"""

import os
import random

import pytest
from jdbc_sinks.stream import Column, Sent, Table, envelope, flat, key_of
from jdbc_sinks.values import UNAVAILABLE, VALUES, Values
from mongo_sinks.cases import SINK, run_case
from mongo_sinks.sides import MongoKafka, differences, run_ours

from tidings_stack.connect import ConnectServer
from tidings_stack.mongo import MongoServer

BY_KEY = {
    "document.id.strategy": f"{SINK}processor.id.strategy.FullKeyStrategy",
    "delete.on.null.values": "true",
}
POSTGRES = {"change.data.capture.handler": f"{SINK}cdc.debezium.rdbms.postgres.PostgresHandler"}
INT = Values("int32", {"type": "int32"}, (1, 2))
TEXT = Values("string", {"type": "string"}, ("a",))


@pytest.fixture
def mongo_kafka(plugins: ConnectServer, kafka_bootstrap: str) -> MongoKafka:
    return MongoKafka(plugins.url, kafka_bootstrap)


def test_a_script_of_every_kind(mongo_kafka: MongoKafka, mongo: MongoServer, unique_name: str) -> None:
    table = Table(
        f"{unique_name}.public.all",
        [Column("id", INT, optional=False)],
        [Column(f"c_{v.name}", v) for v in VALUES],
    )
    rows = [
        {"id": number, **{f"c_{v.name}": v.values[number % len(v.values)] for v in VALUES}}
        for number in range(5)
    ]
    rows.append({"id": 5, **{f"c_{v.name}": None for v in VALUES}})
    records: list[Sent] = [(table.topic, key_of(table, row), envelope(table, "c", None, row)) for row in rows]
    for again in (rows[2], rows[3]):  # delete and insert of a key within a batch
        records.append((table.topic, key_of(table, again), envelope(table, "d", again, None)))
        records.append((table.topic, key_of(table, again), None))
    records.append((table.topic, key_of(table, rows[2]), envelope(table, "c", None, rows[2])))
    theirs = mongo_kafka.run(unique_name, mongo.url, POSTGRES, records)
    ours = run_ours(unique_name, mongo.url, POSTGRES, records)
    assert (theirs.error, ours.error) == (None, None)
    assert not differences(theirs.documents, ours.documents)
    (found,) = ours.documents.values()
    assert len(found) == 5


def test_random_streams(mongo_kafka: MongoKafka, mongo: MongoServer, unique_name: str) -> None:
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    for number in range(3):
        result = run_case(seed + number, f"{unique_name}n{number}", mongo.url, mongo_kafka, 60)
        assert result.kind in {"same", "both"}, (seed + number, result.case.options, *result.lines)


def test_known_differences(mongo_kafka: MongoKafka, mongo: MongoServer, unique_name: str) -> None:
    """A value that was not sent, a key that is text, a record that comes again without an id, and one that is bad."""
    table = Table(
        f"{unique_name}.known", [Column("id", INT, optional=False)], [Column("n", INT), Column("big", TEXT)]
    )
    row = {"id": 1, "n": 1, "big": "kept"}
    records: list[Sent] = [
        (table.topic, key_of(table, row), envelope(table, "c", None, row)),
        (table.topic, key_of(table, row), envelope(table, "u", row, {**row, "n": 2, "big": UNAVAILABLE})),
    ]
    theirs = mongo_kafka.run(f"{unique_name}a", mongo.url, POSTGRES, records)
    ours = run_ours(f"{unique_name}a", mongo.url, POSTGRES, records)
    assert theirs.documents == {table.topic: [f"{{'_id': {{'id': 1}}, 'big': '{UNAVAILABLE}', 'n': 2}}"]}
    assert ours.documents == {table.topic: ["{'_id': {'id': 1}, 'big': 'kept', 'n': 2}"]}

    other = Table(f"{unique_name}.text", table.keys, table.columns)
    text = b'{"schema": {"type": "string"}, "payload": "order-1"}'
    records = [(other.topic, text, flat(other, row))]
    tolerant = BY_KEY | {"errors.tolerance": "all"}
    theirs = mongo_kafka.run(f"{unique_name}b", mongo.url, tolerant, records)
    ours = run_ours(f"{unique_name}b", mongo.url, tolerant, records)
    assert theirs.documents == {}
    assert ours.documents == {other.topic: ["{'_id': 'order-1', 'big': 'kept', 'id': 1, 'n': 1}"]}

    last = Table(f"{unique_name}.keyless", table.keys, table.columns)
    records = [(last.topic, None, flat(last, {**row, "n": number})) for number in (1, 2)]
    theirs = mongo_kafka.run(f"{unique_name}c", mongo.url, tolerant, records)
    ours = run_ours(f"{unique_name}c", mongo.url, tolerant, records)
    assert theirs.documents == {last.topic: ["{'_id': {}, 'big': 'kept', 'id': 1, 'n': 2}"]}
    assert ours.documents == {}


def test_unordered_requests(mongo_kafka: MongoKafka, mongo: MongoServer, unique_name: str) -> None:
    """Theirs runs the deletes of a request last, so that a row that came back is gone; ours keeps the order of a document."""
    table = Table(f"{unique_name}.unordered", [Column("id", INT, optional=False)], [Column("n", INT)])
    row = {"id": 1, "n": 1}
    key = key_of(table, row)
    records: list[Sent] = [
        (table.topic, key, flat(table, row)),
        (table.topic, key, None),
        (table.topic, key, flat(table, {**row, "n": 2})),
    ]
    options = BY_KEY | {"bulk.write.ordered": "false"}
    theirs = mongo_kafka.run(unique_name, mongo.url, options, records)
    ours = run_ours(unique_name, mongo.url, options, records)
    assert theirs.documents == {}
    assert ours.documents == {table.topic: ["{'_id': {'id': 1}, 'id': 1, 'n': 2}"]}
