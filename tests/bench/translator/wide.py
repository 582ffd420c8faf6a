"""The sequencer's memory through one transaction of wide rows: a tenth of ``--rows`` of 50 kB each, and how long it takes.

The rows compress well (on the topic, with zstd), so that 5 GB of them are a few hundred MB there; the process sees all of it.
The transaction is told first of all to many aggregates, then once more to a single one: a change set that fits into no
record, of which only a dead letter comes out.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.translator.backlog import Backlog
from tests.bench.translator.shop_backlog import forget_former_sources

from tidings_stack import Stack

WIDTH_BYTES = 50_000
PARTITIONS = 3
_TXID, _END, _TS_US = 700, 10_000_000, 1_760_000_000_000_000


def run(rows: int) -> None:
    """Print the largest resident memory, beside the bytes that went through."""
    with Stack(members=("kafka", "registry")) as stack:
        for what in ("orders", "order_items"):
            measure(stack, max(rows // 10, 1), what)


def measure(stack: Stack, rows: int, table: str, *, limit_bytes: int | None = None) -> int:
    """One transaction of `rows` in a table: the largest resident memory in bytes.

    Raises:
        RuntimeError: the sequencer has ended, or took more than the limit (and was ended then).
    """
    prefix = f"wide_{secrets.token_hex(3)}"
    bootstrap = stack.kafka.bootstrap
    topics = write_wide(bootstrap, prefix, table, rows)
    environment = {
        **os.environ,
        "TIDINGS_KAFKA": bootstrap,
        "TIDINGS_REGISTRY": stack.registry.url,
        "TIDINGS_DOMAIN": "tidings_shop.domain",
        "TIDINGS_SOURCE": prefix,
        "TIDINGS_HTTP_PORT": "0",
    }
    backlog = Backlog(bootstrap, f"tidings-sequencer-{prefix}", topics)
    with (Path(stack.directory) / "wide.log").open("wb") as log:
        command = str(Path(sys.executable).with_name("tidings-sequencer"))
        process = subprocess.Popen([command], env=environment, stderr=log)
    began, peak = time.monotonic(), 0
    try:
        while backlog.left() > 16:
            if process.poll() is not None:
                raise RuntimeError(f"the sequencer ended with {process.returncode}")
            peak = max(peak, resident_bytes(process.pid))
            if limit_bytes is not None and peak > limit_bytes:
                raise RuntimeError(f"the sequencer takes {peak / 1e6:,.0f} MB")
            time.sleep(0.1)
        return peak
    finally:
        print(
            f"  {rows:,} rows of {table}, {rows * WIDTH_BYTES / 1e9:.1f} GB, in one transaction:"
            f" {time.monotonic() - began:6.1f} s, {cpu_seconds(process.pid):6.1f} CPU seconds,"
            f" at most {peak / 1e6:,.0f} MB",
            flush=True,
        )
        backlog.close()
        process.terminate()
        process.wait(60)


def write_wide(bootstrap: str, prefix: str, table: str, rows: int) -> list[str]:
    """Topics with one transaction of wide rows, `PARTITIONS` a table; their names."""
    names = [f"{prefix}.transaction", f"{prefix}.public.orders", f"{prefix}.public.order_items"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    forget_former_sources(admin)
    for made in admin.create_topics(
        [NewTopic(name, 1 if name.endswith("transaction") else PARTITIONS, 1) for name in names]
    ).values():
        made.result(60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 50, "queue.buffering.max.kbytes": 65_536}
    )  # fmt: skip
    for topic, key, value in _records(prefix, table, rows):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)
    return names


def _records(prefix: str, table: str, rows: int) -> Iterator[tuple[str, bytes, bytes]]:
    text = "lorem ipsum dolor sit amet " * (WIDTH_BYTES // 27)
    topic = f"{prefix}.public.{table}"
    source = {"name": prefix, "db": "shop", "ts_ms": _TS_US // 1000, "ts_us": _TS_US, "snapshot": "false",
              "sequence": '["1","2"]', "schema": "public", "table": table, "txId": _TXID, "lsn": _END - 1}  # fmt: skip
    marker = {
        "status": "BEGIN",
        "id": f"{_TXID}:{_END - rows}",
        "event_count": None,
        "data_collections": None,
        "ts_ms": 1,
    }
    yield f"{prefix}.transaction", b"{}", json.dumps(marker, separators=(",", ":")).encode()
    for number in range(1, rows + 1):
        if table == "orders":
            row = {"id": number, "customer_id": 1, "status": f"{number} {text}"}
        else:
            row = {
                "order_id": 1,
                "line_no": number,
                "product_id": 1,
                "quantity": 1,
                "unit_price": f"{number} {text}",
            }
        event = {"before": None, "after": row, "source": source, "op": "c",
                 "transaction": {"id": f"{_TXID}:{_END - 1}", "total_order": number, "data_collection_order": number}}  # fmt: skip
        yield topic, b"%d" % number, json.dumps(event).encode()
    count = [{"data_collection": f"public.{table}", "event_count": rows}]
    end = marker | {"status": "END", "id": f"{_TXID}:{_END}", "event_count": rows, "data_collections": count}
    yield f"{prefix}.transaction", b"{}", json.dumps(end, separators=(",", ":")).encode()
