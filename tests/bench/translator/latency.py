"""From the commit in PostgreSQL to a read_committed consumer of the business topic, at 500 transactions per second.

Capture, sequencer and translator as they are by default. The commit's time is the server's own (``ce_time``); the consumer's
clock is that of the same machine.
"""

import multiprocessing
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg
from confluent_kafka import Consumer

from tidings_shop.database import ShopDatabase
from tidings_stack import Stack
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.postgres import create_database

TRANSACTIONS_PER_SECOND = 500
SECONDS = 30
WARM_UP_SECONDS = 10
"""Sent before, and not counted."""
TOPIC = "shop.customer-registered.v1"
"""One event for each transaction."""
TABLES = ("customers", "orders", "order_items", "payments", "shipments", "products")


def run(rows: int) -> None:
    """Print the median and the 99th percentile."""
    with Stack(members=("pg", "kafka", "registry")) as stack:
        prefix = f"latency_{secrets.token_hex(3)}"
        url = create_database(stack.pg.url, prefix)
        with ShopDatabase(url) as database:
            database.ensure_schema()
        with (
            CaptureWorkers(Path(stack.directory), stack.kafka.bootstrap) as workers,
            _stages(stack, prefix),
        ):
            worker = workers.start(workers.properties(prefix))
            config = connector_settings(
                url,
                **{
                    "topic.prefix": prefix,
                    "slot.name": prefix,
                    "publication.name": prefix,
                    "publication.autocreate.mode": "filtered",
                    "table.include.list": r"public\..*",
                    "provide.transaction.metadata": "true",
                    "snapshot.mode": "no_data",
                    "decimal.handling.mode": "string",
                    "topic.creation.default.partitions": "1",
                    "topic.creation.default.replication.factor": "1",
                    "key.converter.schemas.enable": "false",
                    "value.converter.schemas.enable": "false",
                    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                },
            )
            status, body = worker.request("PUT", f"/connectors/{prefix}/config", config)
            assert status in {200, 201}, body
            worker.wait_task(prefix, "RUNNING")
            found = _measure(stack.kafka.bootstrap, url)
        counted = sorted(found[WARM_UP_SECONDS * TRANSACTIONS_PER_SECOND :])
        p50, p99 = statistics.median(counted), counted[int(len(counted) * 0.99)]
        print(
            f"  {len(counted):,} transactions: p50 {p50 * 1e3:8.1f} ms, p99 {p99 * 1e3:8.1f} ms", flush=True
        )


@contextmanager
def _stages(stack: Stack, prefix: str) -> Iterator[None]:
    environment = {
        **os.environ,
        "TIDINGS_KAFKA": stack.kafka.bootstrap,
        "TIDINGS_REGISTRY": stack.registry.url,
        "TIDINGS_DOMAIN": "tidings_shop.domain",
        "TIDINGS_SOURCE": prefix,
        "TIDINGS_HTTP_PORT": "0",
    }
    processes = []
    try:
        for stage in ("sequencer", "translator"):
            command = str(Path(sys.executable).with_name(f"tidings-{stage}"))
            with (Path(stack.directory) / f"latency-{stage}.log").open("wb") as log:
                processes.append(subprocess.Popen([command], env=environment, stderr=log))
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait(60)


def _measure(bootstrap: str, url: str) -> list[float]:
    """Latencies in seconds, in the order of arrival."""
    count = (SECONDS + WARM_UP_SECONDS) * TRANSACTIONS_PER_SECOND
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "latency",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([TOPIC])
    # Not the start of four processes is measured.
    _write(url, 9, 1)
    deadline = time.monotonic() + 120
    while not any(message.error() is None for message in consumer.consume(10, 0.2)):
        assert time.monotonic() < deadline, "no event came"
    writers = [
        multiprocessing.get_context("spawn").Process(target=_write, args=(url, number, count // 2))
        for number in range(2)
    ]
    for writer in writers:
        writer.start()
    found: list[float] = []
    deadline = time.monotonic() + SECONDS + WARM_UP_SECONDS + 120
    while len(found) < count and time.monotonic() < deadline:
        batch = consumer.consume(500, 0.01)
        now = time.time()
        for message in batch:
            if message.error() is None:
                at = dict(message.headers() or ())["ce_time"]
                assert isinstance(at, bytes)
                found.append(now - datetime.fromisoformat(at.decode()).timestamp())
    for writer in writers:
        writer.join()
    consumer.close()
    assert len(found) == count, f"{len(found)} of {count} events came"
    return found


def _write(url: str, number: int, count: int) -> None:
    """Commits at an even pace; runs in a process of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        start = time.monotonic()
        for one in range(count):
            due = start + one * 2 / TRANSACTIONS_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            connection.execute(
                "INSERT INTO customers (email, first_name, last_name) VALUES (%s, 'Ada', 'Byron')",
                (f"{number}-{one}@example.org",),
            )
