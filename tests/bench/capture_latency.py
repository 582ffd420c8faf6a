"""From the commit in PostgreSQL to a consumer of the topic, at 1,000 rows per second; each engine with its defaults.

The commit's time is the server's own (``source.ts_us``), the consumer's clock is that of the same machine.
"""

import json
import multiprocessing
import statistics
import time

import psycopg
from confluent_kafka import Consumer
from tests.bench.engines import ROWS, Bench, Engine, bench

ROWS_PER_SECOND = 1_000
ROWS_PER_COMMIT = 10
SECONDS = 30
WARM_UP_SECONDS = 20
"""Sent before, and not counted; long enough for a JVM to compile what it runs."""


def run(rows: int) -> None:
    """Print the median and the 99th percentile of both engines."""
    with bench() as made:
        written = 0
        for engine in made.engines:
            engine.put("latency", made.config(engine, "latency", "json", snapshot_mode="no_data"))
            seconds = WARM_UP_SECONDS + SECONDS
            found = _measure(made, engine, written, seconds)
            written += seconds * ROWS_PER_SECOND
            counted = sorted(found[WARM_UP_SECONDS * ROWS_PER_SECOND :])
            p50, p99 = statistics.median(counted), counted[int(len(counted) * 0.99)]
            print(
                f"  {engine.name:9} {len(counted):,} rows: p50 {p50 / 1000:8.1f} ms, p99 {p99 / 1000:8.1f} ms",
                flush=True,
            )
            engine.delete("latency")


def _measure(made: Bench, engine: Engine, first: int, seconds: int) -> list[float]:
    """Latencies in microseconds, in the order of arrival."""
    consumer = Consumer(
        {
            "bootstrap.servers": made.stack.kafka.bootstrap,
            "group.id": f"latency-{engine.name}",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([f"{engine.name}_latency.public.bench"])
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(made.database, first, seconds))
    writer.start()
    found: list[float] = []
    deadline = time.monotonic() + seconds + 60
    while len(found) < seconds * ROWS_PER_SECOND and time.monotonic() < deadline:
        batch = consumer.consume(500, 0.01)
        now = time.time_ns() // 1000
        for message in batch:
            value = message.value()
            if message.error() is None and isinstance(value, bytes):
                found.append(now - json.loads(value)["source"]["ts_us"])
    writer.join()
    consumer.close()
    return found


def _write(database: str, first: int, seconds: int) -> None:
    """Commits at an even pace; runs in a process of its own."""
    with psycopg.connect(database, autocommit=True) as connection:
        start = time.monotonic()
        for number in range(seconds * ROWS_PER_SECOND // ROWS_PER_COMMIT):
            due = start + number * ROWS_PER_COMMIT / ROWS_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            at = first + number * ROWS_PER_COMMIT
            connection.execute(ROWS, (at + 1, at + ROWS_PER_COMMIT))
