"""What the tests share that run real capture, Kafka and sinks on a worker that is killed."""

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from tidings_stack.capture import CaptureWorker, CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.waiting import wait_for

GROUP = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "0",
}
"""Properties of a worker that hears of a dead one soon."""
TABLE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12,2), at timestamp(6), zoned timestamptz(3), day date,
    yes boolean, document jsonb, tags text[], data bytea, big text
)
"""


def random_seed() -> int:
    """The seed of a test's random changes, which is printed; the one of TIDINGS_SEED if it is set."""
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    return seed


def capture_config(url: str, name: str, **more: str) -> dict[str, Any]:
    """A connector that captures all tables of a database; its topics, slot and publication have a name of their own."""
    own = {
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "all_tables",
    }
    return connector_settings(url, **own, **more)


def put_connectors(worker: CaptureWorker, configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Create connectors."""
    for name, config in configs.items():
        status, body = worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body


def stop_connectors(worker: CaptureWorker, configs: Mapping[str, object]) -> None:
    """Stop connectors, of which the first is the source, and wait until that has no task left."""
    for name in reversed(list(configs)):
        worker.request("PUT", f"/connectors/{name}/stop")
    worker.wait_task(next(iter(configs)), None)  # type: ignore[arg-type]  # none is left


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


def follow_orders(
    url: str,
    kafka_bootstrap: str,
    directory: Path,
    name: str,
    sinks: Mapping[str, Mapping[str, str]],
    found: Callable[[str], dict[Any, Any]],
    rows: Callable[[], dict[Any, Any]],
) -> None:
    """Random changes of a table, while sinks write its documents and the worker is killed; then documents are rows.

    Args:
        name: of the source, and what the names of topics begin with.
        sinks: configurations by connector.
        found: the documents of a connector, by key.
        rows: the rows as such documents.
    """
    source = random.Random(random_seed())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
    last = traffic(url, source, 0, 150)
    configs = {name: capture_config(url, name), **sinks}
    with CaptureWorkers(directory, kafka_bootstrap) as workers:
        properties = workers.properties(name, GROUP)
        worker = workers.start(properties)
        put_connectors(worker, configs)
        wait_for("the first documents", lambda: all(found(sink) for sink in sinks))
        last = traffic(url, source, last, 100)
        worker.kill()
        worker = workers.start(properties)
        traffic(url, source, last, 100)
        wanted = rows()
        try:
            for sink in sinks:
                wait_for(f"{sink} to be the table", lambda sink=sink: found(sink) == wanted, 60)  # type: ignore[misc]
        except AssertionError:
            for sink in sinks:
                there = found(sink)
                print(sink, len(there), len(wanted), worker.request("GET", f"/connectors/{sink}/status"))
                print([(there.get(key), row) for key, row in wanted.items() if there.get(key) != row][:2])
                print(sorted(there.keys() - wanted.keys())[:10])
            raise
        stop_connectors(worker, configs)
