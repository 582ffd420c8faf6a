"""PostgreSQL to OpenSearch: real capture, Kafka and sinks, whose worker is killed; the documents are the rows."""

import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import psycopg
from search_parts import asking

from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.waiting import wait_for

TABLE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12,2), at timestamp(6), zoned timestamptz(3), day date,
    yes boolean, document jsonb, tags text[], data bytea, big text
)
"""
ROWS = """
SELECT id, json_build_object(
    'id', id, 'customer', customer, 'amount', amount, 'at', to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US'),
    'zoned', to_char(zoned AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'day', to_char(day, 'YYYY-MM-DD'),
    'yes', yes, 'document', document, 'tags', tags, 'data', encode(data, 'base64'), 'big', big
)::text FROM orders ORDER BY id
"""
GROUP = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "0",
}


def traffic(url: str, seed: random.Random, last: int, count: int) -> int:
    """Random changes, also of keys, of rows that come back, and of rows whose large value is not sent; the highest key."""

    def values() -> str:
        return ", ".join(
            (
                f"'n\u00f6me ''\"\\ {seed.random()}'",
                f"{seed.randrange(-(10**9), 10**9)}.{seed.randrange(100):02d}",
                seed.choice(["NULL", "'1969-12-31 23:59:59.999999'", "'2026-02-03 04:05:06.000007'"]),
                seed.choice(["NULL", "'2026-02-03 04:05:06.5-07'"]),
                seed.choice(["NULL", "'1066-10-14'", "'2026-02-28'"]),
                seed.choice(["NULL", "true", "false"]),
                seed.choice(["NULL", '\'{"a": [1.5, 2.5], "b": {"c": "\u00fc"}}\'']),
                seed.choice(["NULL", "'{}'", "ARRAY['a,b', NULL, '']"]),
                seed.choice(["NULL", "'\\x00ff10'"]),
            )
        )

    columns = "customer, amount, at, zoned, day, yes, document, tags, data"
    big = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 200))"
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(count):
            known = seed.randrange(1, last + 1) if last else 1
            match seed.choice("iiiuuuuukdr") if last else "i":
                case "i":
                    last += 1
                    statement = f"INSERT INTO orders (id, {columns}, big) VALUES ({last}, {values()}, {big})"
                case "u":
                    statement = f"UPDATE orders SET ({columns}) = ROW({values()}) WHERE id = {known}"
                case "k":
                    last += 1
                    statement = f"UPDATE orders SET id = {last}, big = 'moved' WHERE id = {known}"
                case "d":
                    statement = f"DELETE FROM orders WHERE id = {known}"
                case _:
                    statement = (
                        f"INSERT INTO orders (id, customer) VALUES ({known}, 'again') ON CONFLICT DO NOTHING"
                    )
            connection.execute(statement.encode())
    return last


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
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    source = random.Random(seed)
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(TABLE)
    last = traffic(pg_database, source, 0, 200)
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
    indexes = (f"{unique_name}.public.orders", f"{unique_name}-flat")

    def documents(index: str) -> dict[str, Any]:
        ask("POST", f"/{index}/_refresh", missing={})
        found = ask("POST", f"/{index}/_search", {"size": 5000}, missing={"hits": {"hits": []}})
        return {hit["_id"]: exact(orjson.dumps(hit["_source"])) for hit in found["hits"]["hits"]}

    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        names = (unique_name, f"{unique_name}-envelopes", f"{unique_name}-flat")
        for name, config in zip(names, (capture, sink, flat), strict=True):
            status, body = worker.request("PUT", f"/connectors/{name}/config", config)
            assert status == 201, body
        wait_for("the first documents", lambda: all(documents(index) for index in indexes))
        last = traffic(pg_database, source, last, 150)
        worker.kill()
        worker = workers.start(properties)
        traffic(pg_database, source, last, 150)
        wanted = rows(pg_database)
        try:
            for index in indexes:
                wait_for(f"{index} to be the table", lambda index=index: documents(index) == wanted, 60)  # type: ignore[misc]
        except AssertionError:
            for index in indexes:
                found = documents(index)
                print(index, len(found), len(wanted))
                print([(found.get(key), row) for key, row in wanted.items() if found.get(key) != row][:2])
                print(sorted(found.keys() - wanted.keys())[:10])
            print(worker.request("GET", f"/connectors/{names[1]}/status"))
            raise
        for index in indexes:
            mapping = ask("GET", f"/{index}/_mapping")[index]["mappings"]["properties"]
            kinds = {name: mapping[name]["type"] for name in ("id", "amount", "at", "zoned", "day")}
            assert kinds == {"id": "long", "amount": "double", "at": "date", "zoned": "date", "day": "date"}
        for name in reversed(names):
            worker.request("PUT", f"/connectors/{name}/stop")
        worker.wait_task(unique_name, None)  # type: ignore[arg-type]  # none is left
