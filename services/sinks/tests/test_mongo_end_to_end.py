"""PostgreSQL to MongoDB's protocol: real capture, Kafka and sinks, whose worker is killed; the documents are the rows."""

import os
import random
from pathlib import Path
from typing import Any

import psycopg
from bson import Decimal128, Int64
from bson.datetime_ms import DatetimeMS
from mongo_parts import CODEC, POSTGRES, id_strategy
from psycopg.rows import dict_row
from pymongo import MongoClient
from test_search_end_to_end import GROUP, TABLE, traffic

from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.mongo import MongoServer
from tidings_stack.waiting import wait_for

ROWS = """
SELECT id, customer, amount, floor(extract(epoch FROM at) * 1000)::bigint AS at,
    floor(extract(epoch FROM zoned) * 1000)::bigint AS zoned, day - DATE '1970-01-01' AS day, yes, document, tags, data, big
FROM orders
"""


def rows(url: str) -> dict[int, dict[str, Any]]:
    """The table's rows as documents, by their key."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        found = connection.execute(ROWS.encode()).fetchall()
    return {row["id"]: _as_document(row) for row in found}


def _as_document(row: dict[str, Any]) -> dict[str, Any]:
    dates = {name: row[name] and DatetimeMS(row[name]) for name in ("at", "zoned")}
    return {
        **row,
        "id": Int64(row["id"]),
        "amount": None if row["amount"] is None else Decimal128(row["amount"]),
        **{name: None if row[name] is None else date for name, date in dates.items()},
        "day": None if row["day"] is None else DatetimeMS(row["day"] * 86_400_000),
    }


def test_documents_are_the_rows_after_a_kill(
    pg_database: str, mongo: MongoServer, kafka_bootstrap: str, unique_name: str, tmp_path: Path
) -> None:
    """By the handler of envelopes, and by flat records as `ExtractNewRecordState` makes them."""
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    source = random.Random(seed)
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(TABLE)
    last = traffic(pg_database, source, 0, 150)
    capture = connector_settings(
        pg_database,
        **{
            "topic.prefix": unique_name,
            "slot.name": unique_name,
            "publication.name": unique_name,
            "publication.autocreate.mode": "all_tables",
        },
    )
    sink = {
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "topics": f"{unique_name}.public.orders",
        "connection.uri": mongo.url,
        "database": unique_name,
        "max.batch.size": "30",
    }
    envelopes = sink | {"collection": "envelopes", "change.data.capture.handler": POSTGRES}
    flat = sink | {
        "collection": "flat",
        "document.id.strategy": id_strategy("FullKey"),
        "delete.on.null.values": "true",
        "bulk.write.ordered": "false",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    }
    client: MongoClient[dict[str, Any]] = MongoClient(mongo.url, document_class=dict)
    database = client.get_database(unique_name, codec_options=CODEC)

    def documents(collection: str) -> dict[int, dict[str, Any]]:
        """What a collection holds, each with its key's field, which the handler leaves out."""
        found = {}
        for document in database[collection].find():
            identity = document.pop("_id")
            document.pop("_tidings")
            found[identity["id"]] = {**document, "id": identity["id"]}
        return found

    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        names = (unique_name, f"{unique_name}-envelopes", f"{unique_name}-flat")
        for name, config in zip(names, (capture, envelopes, flat), strict=True):
            status, body = worker.request("PUT", f"/connectors/{name}/config", config)
            assert status == 201, body
        wait_for("the first documents", lambda: documents("envelopes") and documents("flat"))
        last = traffic(pg_database, source, last, 100)
        worker.kill()
        worker = workers.start(properties)
        traffic(pg_database, source, last, 100)
        wanted = rows(pg_database)
        try:
            for name in ("envelopes", "flat"):
                wait_for(f"{name} to be the table", lambda name=name: documents(name) == wanted, 60)  # type: ignore[misc]
        except AssertionError:
            for name in ("envelopes", "flat"):
                found = documents(name)
                print(name, len(found), len(wanted))
                print([(found.get(key), row) for key, row in wanted.items() if found.get(key) != row][:2])
                print(sorted(found.keys() - wanted.keys())[:10])
            print(worker.request("GET", f"/connectors/{names[1]}/status"))
            raise
        for name in reversed(names):
            worker.request("PUT", f"/connectors/{name}/stop")
        worker.wait_task(unique_name, None)  # type: ignore[arg-type]  # none is left
    client.drop_database(unique_name)
    client.close()
