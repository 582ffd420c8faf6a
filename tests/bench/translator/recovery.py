"""How long both stages need until they have the state of as many aggregates as `--rows` says back, from changelogs alone.

For the translator, states of the shop's orders are written to the state topic as the translator writes them, once each and
three times each (a changelog that has not been compacted yet). For the sequencer, what it remembers of as many orders: the
root of each payment and shipment, and a customer for every tenth order. Then the stage starts; the figures are its own
log's. Memory is that of the process with all of it restored.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.translator.shop_backlog import TABLES

from tidings_domain import load_domain
from tidings_domain.changes import ChangeSet, RowChange, encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_stack import Stack

PARTITIONS = 4
VERSIONS = 3
"""How often an aggregate is on the changelog, at most."""
DEADLINE_SECONDS = 900
CUSTOMER = {"id": 7, "email": "a@example.org", "first_name": "A", "last_name": "B", "city": "Porto"}

Entry = tuple[bytes, bytes]


def run(rows: int) -> None:
    """`rows` is the number of aggregates."""
    with Stack(members=("kafka", "registry")) as stack:
        for versions in (1, VERSIONS):
            prefix = f"recovery_{secrets.token_hex(3)}"
            _create(stack, prefix, "change-sets", "state")
            records = _write(stack, f"tidings.{prefix}.state", _states(rows, versions))
            # Batches are handed out for partitions that have change sets.
            wake = [(f"tidings.{prefix}.change-sets", number) for number in range(PARTITIONS)]
            _recover(stack, prefix, "translator", wake, rows, records)
        prefix = f"recovery_{secrets.token_hex(3)}"
        _create(stack, prefix, "sequencer-state")
        records = _write(stack, f"tidings.{prefix}.sequencer-state", _remembered(rows))
        sources = [f"{prefix}.transaction", *(f"{prefix}.public.{table}" for table in TABLES)]
        _recover(stack, prefix, "sequencer", [(topic, 0) for topic in sources], rows, records)


def _states(rows: int, versions: int) -> Iterator[Entry]:
    state = _state()
    return ((b"Order/%d" % number, state) for _ in range(versions) for number in range(rows))


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
    references = {"public.customers": {"7": CUSTOMER}}
    change_set = ChangeSet("Order", "1", 100, 7, 1_760_000_000_000_000, False, tuple(changes), references)
    encode_change_set(change_set)
    found = Evaluator(load_domain("tidings_shop.domain")).apply(None, change_set)
    assert found.new_state is not None, found.failures
    return found.new_state


def _remembered(rows: int) -> Iterator[Entry]:
    """Records of the sequencer's changelog, as `memory.Memory` writes them."""
    encode = msgspec.msgpack.Encoder().encode
    for number in range(rows):
        root = encode(str(number))
        for table in ("public.payments", "public.shipments"):
            yield encode(("c", "Order", table, str(number))), root
        if number % 10 == 0:
            yield encode(("r", "public.customers", str(number), "")), encode({**CUSTOMER, "id": number})


def _create(stack: Stack, prefix: str, *names: str) -> None:
    topics = [
        NewTopic(
            f"tidings.{prefix}.{name}",
            1 if name == "sequencer-state" else PARTITIONS,
            1,
            config={"cleanup.policy": "delete" if name == "change-sets" else "compact"},
        )
        for name in names
    ]
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    for made in admin.create_topics(topics).values():
        made.result()


def _write(stack: Stack, topic: str, entries: Iterable[Entry]) -> int:
    """Returns how many records there are."""
    producer = Producer(
        {
            "bootstrap.servers": stack.kafka.bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    count = 0
    for key, value in entries:
        count += 1
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0
    return count


def _recover(
    stack: Stack, prefix: str, stage: str, wake: list[tuple[str, int]], rows: int, records: int
) -> None:
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap})
    for topic, partition in wake:
        producer.produce(topic, b"", b"Order/0", partition)
    assert producer.flush(60) == 0
    log = Path(stack.directory) / f"{prefix}-{stage}.log"
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
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name(f"tidings-{stage}"))], env=environment, stderr=output
        )
    try:
        lines = _assigned(log, process, PARTITIONS if stage == "translator" else 1)
        have = sum(line.get("aggregates", 0) + line.get("remembered", 0) for line in lines)
        assert have == (rows if stage == "translator" else records), have
        seconds, resident = sum(line["seconds"] for line in lines), resident_bytes(process.pid)
        print(
            f"  {stage:10} {rows:,} aggregates, {records:,} records: {seconds:5.1f} s,"
            f" {cpu_seconds(process.pid):5.1f} CPU seconds with the start, {resident / 1e6:,.0f} MB",
            flush=True,
        )
    finally:
        process.terminate()
        process.wait(60)


def _assigned(log: Path, process: subprocess.Popen[bytes], count: int) -> list[dict[str, float]]:
    """What the stage has logged of `count` assignments."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        lines = [json.loads(line) for line in log.read_bytes().splitlines() if b' assigned"' in line]
        if len(lines) == count:
            return lines
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no recovery: {log.read_text()[-2000:]}")
        time.sleep(0.2)
