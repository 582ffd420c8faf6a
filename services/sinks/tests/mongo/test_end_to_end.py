"""PostgreSQL to MongoDB's protocol: real capture, Kafka and sinks, whose worker is killed; the documents are the rows."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from bson import Decimal128, Int64
from bson.datetime_ms import DatetimeMS
from end_to_end import follow_orders
from mongo_parts import CODEC, POSTGRES, id_strategy
from psycopg.rows import dict_row
from pymongo import MongoClient

from tidings_stack.mongo import MongoServer

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
    request: pytest.FixtureRequest,
    pg_database: str,
    mongo: MongoServer,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    """By the handler of envelopes, and by flat records as `ExtractNewRecordState` makes them."""
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
    request.addfinalizer(client.close)
    database = client.get_database(unique_name, codec_options=CODEC)

    def documents(connector: str) -> dict[int, dict[str, Any]]:
        """What a collection holds, each with its key's field, which the handler leaves out."""
        found = {}
        for document in database[connector.removeprefix(f"{unique_name}-")].find():
            identity = document.pop("_id")
            document.pop("_tidings")
            found[identity["id"]] = {**document, "id": identity["id"]}
        return found

    sinks = {f"{unique_name}-envelopes": envelopes, f"{unique_name}-flat": flat}
    follow_orders(
        pg_database, kafka_bootstrap, tmp_path, unique_name, sinks, documents, lambda: rows(pg_database)
    )
    client.drop_database(unique_name)
