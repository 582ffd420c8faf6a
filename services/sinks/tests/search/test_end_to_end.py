"""PostgreSQL to OpenSearch: real capture, Kafka and sinks, whose worker is killed; the documents are the rows."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import psycopg
from end_to_end import follow_orders
from search_parts import asking

from tidings_stack.opensearch import OpenSearchServer

ROWS = """
SELECT id, json_build_object(
    'id', id, 'customer', customer, 'amount', amount, 'at', to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US'),
    'zoned', to_char(zoned AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'day', to_char(day, 'YYYY-MM-DD'),
    'yes', yes, 'document', document, 'tags', tags, 'data', encode(data, 'base64'), 'big', big
)::text FROM orders ORDER BY id
"""


def exact(text: bytes | str) -> Any:
    """JSON, with numbers as decimals."""

    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def rows(url: str) -> dict[str, Any]:
    """The table's rows as documents, by id."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(ROWS.encode()).fetchall()
    return {str(key): exact(text) for key, text in found}


def test_documents_are_the_rows_after_a_kill(
    pg_database: str,
    opensearch: OpenSearchServer,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    """By envelopes, and by flat records as `ExtractNewRecordState` makes them."""
    sink = {
        "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
        "topics": f"{unique_name}.public.orders",
        "connection.url": opensearch.url,
        "behavior.on.null.values": "delete",
        "batch.size": "30",
    }
    flat = sink | {
        "transforms": "unwrap,rename",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.rename.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.rename.regex": ".*",
        "transforms.rename.replacement": f"{unique_name}-flat",
    }
    ask = asking(opensearch.url)
    indexes = {
        f"{unique_name}-envelopes": f"{unique_name}.public.orders",
        f"{unique_name}-flat": f"{unique_name}-flat",
    }

    def documents(connector: str) -> dict[str, Any]:
        index = indexes[connector]
        ask("POST", f"/{index}/_refresh", missing={})
        found = ask("POST", f"/{index}/_search", {"size": 5000}, missing={"hits": {"hits": []}})
        return {hit["_id"]: exact(orjson.dumps(hit["_source"])) for hit in found["hits"]["hits"]}

    follow_orders(
        pg_database,
        kafka_bootstrap,
        tmp_path,
        unique_name,
        dict(zip(indexes, (sink, flat), strict=True)),
        documents,
        lambda: rows(pg_database),
    )
    for index in indexes.values():
        mapping = ask("GET", f"/{index}/_mapping")[index]["mappings"]["properties"]
        kinds = {name: mapping[name]["type"] for name in ("id", "amount", "at", "zoned", "day")}
        assert kinds == {"id": "long", "amount": "double", "at": "date", "zoned": "date", "day": "date"}
