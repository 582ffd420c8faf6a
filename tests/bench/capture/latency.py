"""From the commit in PostgreSQL to a consumer of the topic, at 1,000 rows per second; each engine with its defaults.

Two shapes: a hundred commits of ten rows a second, between which PostgreSQL pauses, and a thousand of one row, where it
never does. The commit's time is the server's own (``source.ts_us``), the consumer's clock is that of the same machine.
"""

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from confluent_kafka import Consumer
from tests.bench import former
from tests.bench.engines import ROWS, Bench, Engine, bench
from tests.bench.processes import cpu_seconds

ROWS_PER_SECOND = 1_000
ROWS_PER_COMMIT = (10, 1)
SECONDS = 15 if former.FORMER else 30
WARM_UP_SECONDS = 5 if former.FORMER else 20
"""Sent before, and not counted; long enough for a JVM to compile what it runs."""


@dataclass(frozen=True)
class Figure:
    """One engine for one while: latencies, and CPU seconds per second."""

    median_ms: float
    p99_ms: float
    cores: float


def run(rows: int, *, debezium: bool = True) -> None:
    """Print the median and the 99th percentile of both engines, and what they take of a core."""
    with bench(debezium=debezium) as made:
        compare(made, Pace(_write, lambda value: int(value["source"]["ts_us"])))


@dataclass(frozen=True)
class Pace:
    """Who commits at an even pace, in a process of its own, and when."""

    write: Callable[[str, int, int, int], None]
    """With the database, the number of rows before, the seconds, and the rows of a commit."""
    committed: Callable[[Any], int]
    """The time of a record's commit, or a little before it, in microseconds since the Unix epoch."""


def compare(made: Bench, pace: Pace) -> None:
    """Print both engines' figures."""
    written = 0
    for per_commit in ROWS_PER_COMMIT:
        figures: dict[str, list[Figure]] = {engine.name: [] for engine in made.engines}
        for turn in range(former.rounds(1)):
            for engine in made.engines if turn % 2 == 0 else reversed(made.engines):
                name = f"latency_{per_commit}_{turn}"
                figures[engine.name].append(_run_one(made, pace, engine, name, written, per_commit))
                written += (WARM_UP_SECONDS + SECONDS) * ROWS_PER_SECOND
        if former.FORMER:
            _print_ratios(f"{per_commit} rows a commit", *figures.values())


def _run_one(made: Bench, pace: Pace, engine: Engine, name: str, written: int, per_commit: int) -> Figure:
    engine.put(name, made.config(engine, name, "json", snapshot_mode="no_data"))
    cpu = cpu_seconds(engine.pid)
    found = _measure(made, pace, engine, name, written, per_commit)
    cpu = cpu_seconds(engine.pid) - cpu
    counted = sorted(found[WARM_UP_SECONDS * ROWS_PER_SECOND :])
    p50, p99 = statistics.median(counted), counted[int(len(counted) * 0.99)]
    figure = Figure(p50 / 1000, p99 / 1000, cpu / (WARM_UP_SECONDS + SECONDS))
    print(
        f"  {ROWS_PER_SECOND // per_commit:5,} commits of {per_commit:2} a second, {engine.name:9}"
        f" {len(counted):,} rows: p50 {figure.median_ms:8.1f} ms, p99 {figure.p99_ms:8.1f} ms,"
        f" {figure.cores:.1%} of a core",
        flush=True,
    )
    engine.delete(name)
    made.drop_slot(f"bench_{engine.name}_{name}")
    return figure


def _print_ratios(what: str, theirs: list[Figure], ours: list[Figure]) -> None:
    for field, unit, times in (("cores", "percent of a core", 100.0), ("median_ms", "ms at the median", 1.0)):
        mine, other = ([times * getattr(figure, field) for figure in side] for side in (ours, theirs))
        former.print_ratio(what, unit, mine, other)


def _measure(made: Bench, pace: Pace, engine: Engine, name: str, first: int, per_commit: int) -> list[float]:
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
        target=pace.write, args=(made.database, first, seconds, per_commit)
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
            found.append(time.time_ns() // 1000 - pace.committed(json.loads(value)))
    writer.join()
    consumer.close()
    return found


def _write(database: str, first: int, seconds: int, per_commit: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        evenly(lambda start, end: connection.execute(ROWS, (start, end)), first, seconds, per_commit)


def evenly(commit: Callable[[int, int], object], first: int, seconds: int, per_commit: int) -> None:
    """Commit rows at an even pace; `commit` gets the numbers of the first and of the last row."""
    start = time.monotonic()
    for number in range(seconds * ROWS_PER_SECOND // per_commit):
        due = start + number * per_commit / ROWS_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
        at = first + number * per_commit
        commit(at + 1, at + per_commit)
    behind = time.monotonic() - start - seconds
    if behind > 1.0:
        print(f"  the writer was {behind:.1f} seconds behind its pace at the end", flush=True)
