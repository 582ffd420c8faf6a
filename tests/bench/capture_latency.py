"""From the commit in PostgreSQL to a consumer of the topic, at 1,000 rows per second; each engine with its defaults.

Two shapes: a hundred commits of ten rows a second, between which PostgreSQL pauses, and a thousand of one row, where it
never does. The commit's time is the server's own (``source.ts_us``), the consumer's clock is that of the same machine.
"""

import json
import multiprocessing
import statistics
import time

import psycopg
from confluent_kafka import Consumer
from tests.bench.engines import ROWS, Bench, Engine, bench
from tests.bench.processes import cpu_seconds

ROWS_PER_SECOND = 1_000
ROWS_PER_COMMIT = (10, 1)
SECONDS = 30
WARM_UP_SECONDS = 20
"""Sent before, and not counted; long enough for a JVM to compile what it runs."""


def run(rows: int, *, debezium: bool = True) -> None:
    """Print the median and the 99th percentile of both engines, and what they take of a core."""
    seconds = WARM_UP_SECONDS + SECONDS
    with bench(debezium=debezium) as made:
        written = 0
        for per_commit in ROWS_PER_COMMIT:
            for engine in made.engines:
                name = f"latency_{per_commit}"
                engine.put(name, made.config(engine, name, "json", snapshot_mode="no_data"))
                cpu = cpu_seconds(engine.pid)
                found = _measure(made, engine, name, written, per_commit)
                cpu = cpu_seconds(engine.pid) - cpu
                written += seconds * ROWS_PER_SECOND
                counted = sorted(found[WARM_UP_SECONDS * ROWS_PER_SECOND :])
                p50, p99 = statistics.median(counted), counted[int(len(counted) * 0.99)]
                print(
                    f"  {ROWS_PER_SECOND // per_commit:5,} commits of {per_commit:2} a second, {engine.name:9}"
                    f" {len(counted):,} rows: p50 {p50 / 1000:8.1f} ms, p99 {p99 / 1000:8.1f} ms,"
                    f" {cpu / seconds:.0%} of a core",
                    flush=True,
                )
                engine.delete(name)


def _measure(made: Bench, engine: Engine, name: str, first: int, per_commit: int) -> list[float]:
    """Latencies in microseconds, in the order of arrival."""
    seconds = WARM_UP_SECONDS + SECONDS
    consumer = Consumer(
        {
            "bootstrap.servers": made.stack.kafka.bootstrap,
            "group.id": f"{name}-{engine.name}",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([f"{engine.name}_{name}.public.bench"])
    writer = multiprocessing.get_context("spawn").Process(
        target=_write, args=(made.database, first, seconds, per_commit)
    )
    writer.start()
    found: list[float] = []
    deadline = time.monotonic() + seconds + 60
    while len(found) < seconds * ROWS_PER_SECOND and time.monotonic() < deadline:
        # Each as it comes: `consume` would wait for more of them.
        message = consumer.poll(0.1)
        if message is None or message.error() is not None:
            continue
        value = message.value()
        if isinstance(value, bytes):
            found.append(time.time_ns() // 1000 - json.loads(value)["source"]["ts_us"])
    writer.join()
    consumer.close()
    return found


def _write(database: str, first: int, seconds: int, per_commit: int) -> None:
    """Commits at an even pace; runs in a process of its own."""
    with psycopg.connect(database, autocommit=True) as connection:
        start = time.monotonic()
        for number in range(seconds * ROWS_PER_SECOND // per_commit):
            due = start + number * per_commit / ROWS_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            at = first + number * per_commit
            connection.execute(ROWS, (at + 1, at + per_commit))
        behind = time.monotonic() - start - seconds
    if behind > 1.0:
        print(f"  the writer was {behind:.1f} seconds behind its pace at the end", flush=True)
