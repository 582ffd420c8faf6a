"""How long a translator needs until it has the state of a million aggregates back, from the changelog and nothing else.

States of the shop's orders are written to the state topic as the translator writes them; then a translator starts, and says
how long each of its four partitions took. A changelog that is not compacted has every aggregate several times.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.processes import cpu_seconds, resident_bytes

from tidings_stack import Stack
from tidings_translator.changes import ChangeSet, RowChange, encode_change_set
from tidings_translator.domain import load_domain
from tidings_translator.evaluate import Evaluator

PARTITIONS = 4
VERSIONS = 3
"""How often an aggregate is on the changelog."""
DEADLINE_SECONDS = 900


def run(rows: int) -> None:
    """`rows` is the number of aggregates."""
    with Stack(members=("kafka", "registry")) as stack:
        for versions in (1, VERSIONS):
            prefix = f"recovery_{secrets.token_hex(3)}"
            size = _write(stack.kafka.bootstrap, prefix, rows, versions)
            seconds, cpu, resident = _recover(stack, prefix, rows)
            print(
                f"  {rows:,} aggregates, {versions} times each ({size / rows / versions:,.0f} bytes): {seconds:5.1f} s,"
                f" {cpu:5.1f} CPU seconds, {resident / 1e6:,.0f} MB",
                flush=True,
            )


def _state() -> bytes:
    """The state of an order with two lines."""
    row = {
        "id": 1,
        "customer_id": 7,
        "status": "placed",
        "currency": "EUR",
        "ordered_at": "2026-11-20T10:00:00.123456Z",
        "required_on": 20_000,
    }
    line = {"order_id": 1, "product_id": 5, "quantity": 2, "unit_price": "499.00", "discount": "0.05"}
    changes = [RowChange("public.orders", "c", None, row, 1)]
    changes += [
        RowChange("public.order_items", "c", None, {**line, "line_no": number}, number + 1)
        for number in (1, 2)
    ]
    customer = {"id": 7, "email": "a@example.org", "first_name": "A", "last_name": "B", "city": "Porto"}
    references = {"public.customers": {"7": customer}}
    change_set = ChangeSet("Order", "1", 100, 7, 1_760_000_000_000_000, False, tuple(changes), references)
    encode_change_set(change_set)
    found = Evaluator(load_domain("tidings_shop.domain")).apply(None, change_set)
    assert found.new_state is not None, found.failures
    return found.new_state


def _write(bootstrap: str, prefix: str, rows: int, versions: int) -> int:
    topics = [
        NewTopic(f"tidings.{prefix}.change-sets", PARTITIONS, 1),
        NewTopic(f"tidings.{prefix}.state", PARTITIONS, 1, config={"cleanup.policy": "compact"}),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    state = _state()
    for _ in range(versions):
        for number in range(rows):
            while True:
                try:
                    producer.produce(f"tidings.{prefix}.state", state, b"Order/%d" % number)
                    break
                except BufferError:
                    producer.poll(0.05)
    # Batches are handed out for partitions that have change sets.
    for partition in range(PARTITIONS):
        producer.produce(f"tidings.{prefix}.change-sets", b"", b"Order/0", partition)
    assert producer.flush(300) == 0
    return len(state) * rows * versions


def _recover(stack: Stack, prefix: str, rows: int) -> tuple[float, float, int]:
    log = Path(stack.directory) / f"{prefix}.log"
    environment = {
        **os.environ,
        "TIDINGS_KAFKA": stack.kafka.bootstrap,
        "TIDINGS_REGISTRY": stack.registry.url,
        "TIDINGS_DOMAIN": "tidings_shop.domain",
        "TIDINGS_SOURCE": prefix,
        "TIDINGS_HTTP_PORT": "0",
        "TIDINGS_LOG_FORMAT": "json",
    }
    with log.open("wb") as output:
        command = str(Path(sys.executable).with_name("tidings-translator"))
        process = subprocess.Popen([command], env=environment, stderr=output)
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            lines = [
                json.loads(line) for line in log.read_bytes().splitlines() if b'"partition assigned"' in line
            ]
            if len(lines) == PARTITIONS:
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no recovery: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        assert sum(line["aggregates"] for line in lines) == rows
        return (
            sum(line["seconds"] for line in lines),
            cpu_seconds(process.pid),
            resident_bytes(process.pid),
        )
    finally:
        process.terminate()
        process.wait(60)
