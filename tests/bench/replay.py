"""The shop's rules over logs of about `rows` rows: rows per second with one core and with two.

The logs are made by Spark itself: orders with three lines in one transaction, and a payment with the order's update in another;
a thousand customers, to whom orders refer, were there before. What is measured is the whole command but the start of Spark: the
checks of the range, and the evaluation with all of its events.
"""

import subprocess
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_domain.loading.domain import load_domain
from tidings_lakehouse.replay.run import replayed
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.spark.session import create_session

_CUSTOMERS = 1000
_ROWS_OF_AN_ORDER = 6
_STEP = 100
_AT_US = 1_700_000_000_000_000
_HEADERS = "array<struct<key: string, value: binary>>"
_AT = f"timestamp_micros({_AT_US} + number * 1000)"
_ORDER = (
    "named_struct('id', number, 'customer_id', number % 1000, 'status', '{status}', 'currency', 'EUR', 'ordered_at', {at},"
    " 'required_on', cast(null as date))"
)
_LINE = (
    "named_struct('order_id', number, 'line_no', line, 'product_id', number % 50, 'quantity', line, 'unit_price',"
    " cast(9.99 as decimal(10, 2)), 'discount', cast(0.05 as decimal(4, 2)))"
)
_PAYMENT = (
    "named_struct('id', number, 'order_id', number, 'amount', cast(100 as decimal(10, 2)), 'paid_at', {at})"
)
_BUYER = (
    "named_struct('id', number, 'email', concat('c', number, '@example.org'), 'first_name', 'Ann', 'last_name', 'Lee', 'city',"
    " 'Hof', 'newsletter', true, 'created_at', {at})"
)
_SHIPMENT = (
    "named_struct('id', number, 'order_id', number, 'carrier', 'x', 'tracking_code', 'x', 'shipped_at', {at})"
)
_PRODUCT = "named_struct('id', number, 'sku', 'x', 'name', 'x', 'price', cast(1 as decimal(10, 2)))"


def run(rows: int) -> None:
    """Make the logs, then replay them in processes of their own."""
    with tempfile.TemporaryDirectory() as directory:
        _child("make", directory, "local[2]", rows)
        for cores in (1, 2):
            _child("replay", directory, f"local[{cores}]", rows)


def _child(*words: Any) -> None:
    subprocess.run([sys.executable, "-m", "tests.bench.replay", *map(str, words)], check=True)


def _session(directory: str, master: str) -> Any:
    return create_session(WarehouseSettings(lakehouse_warehouse=directory, lakehouse_master=master), "bench")


def make(directory: str, master: str, rows: int) -> None:
    """Write the logs of so many rows."""
    session = _session(directory, master)
    orders = rows // _ROWS_OF_AN_ORDER
    for namespace in ("technical", "tidings"):
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    placed = session.range(1, orders + 1).select(
        sf.col("id").alias("number"),
        (sf.col("id") * _STEP).alias("base"),
        (sf.col("id") * 2).alias("tx"),
    )
    paid = placed.select(
        "number", ((sf.col("number") + orders) * _STEP).alias("base"), (sf.col("tx") + 1).alias("tx")
    )
    snapshot = session.range(_CUSTOMERS).select(
        sf.col("id").alias("number"),
        sf.lit(0).cast("bigint").alias("base"),
        sf.lit(None).cast("bigint").alias("tx"),
    )
    lines = placed.withColumn("line", sf.explode(sf.array(*map(sf.lit, (1, 2, 3)))))
    _log(
        session,
        "orders",
        _changes(placed, "c", _ORDER.format(status="placed", at=_AT), "1").unionByName(
            _changes(paid, "u", _ORDER.format(status="paid", at=_AT), "2")
        ),
    )
    _log(session, "order_items", _changes(lines, "c", _LINE, "1 + line"))
    _log(session, "payments", _changes(paid, "c", _PAYMENT.format(at=_AT), "1"))
    _log(session, "customers", _changes(snapshot, "r", _BUYER.format(at=_AT), "null"))
    _log(session, "shipments", _changes(placed.limit(0), "c", _SHIPMENT.format(at=_AT), "1"))
    _log(session, "products", _changes(placed.limit(0), "c", _PRODUCT, "1"))
    count = "array(struct('public.orders' as data_collection, 1L as event_count), struct('public.{0}' as data_collection, {1}L as event_count))"
    ends = placed.select("base", "tx", sf.expr(count.format("order_items", 3)).alias("data_collections"))
    ends = ends.unionByName(
        paid.select("base", "tx", sf.expr(count.format("payments", 1)).alias("data_collections"))
    )
    ends.select(
        sf.lit("shop.transaction").alias("topic"),
        sf.lit("END").alias("status"),
        sf.col("tx").alias("tx_id"),
        (sf.col("base") + _STEP // 2).alias("commit_lsn"),
        "data_collections",
        sf.lit(None).cast("string").alias("left_out"),
    ).writeTo("tidings.transaction_log").create()
    tables = ("orders", "order_items", "payments", "customers", "shipments", "products")
    marks = [("technical", f"technical.{name}_log", (2 * orders + 1) * _STEP) for name in tables]
    session.createDataFrame(marks, "stream string, table_name string, commit_lsn bigint").writeTo(
        "tidings.watermark"
    ).create()
    session.stop()


def _changes(rows: DataFrame, op: str, after: str, order: str) -> DataFrame:
    row = sf.expr(after)
    return rows.select(
        sf.lit("t").alias("topic_id"),
        sf.lit(0).alias("partition"),
        sf.col("number").alias("offset"),
        sf.lit(op).alias("op"),
        sf.when(sf.lit(False), row).alias("before"),
        row.alias("after"),
        sf.lit(op == "r").alias("snapshot"),
        sf.col("tx").alias("tx_id"),
        sf.expr(f"cast({order} as bigint)").alias("total_order"),
        sf.when(sf.lit(op != "r"), sf.col("base") - _STEP // 2).alias("last_commit_lsn"),
        (sf.col("base") + 1).alias("lsn"),
        sf.timestamp_micros(sf.lit(_AT_US) + sf.col("base")).alias("changed_at"),
        sf.lit(None).cast(_HEADERS).alias("headers"),
        sf.lit(False).alias("incremental"),
    )


def _log(session: Any, table: str, rows: DataFrame) -> None:
    del session
    rows.writeTo(f"technical.{table}_log").tableProperty("tidings.topic", f"shop.public.{table}").create()


def replay(directory: str, master: str, _rows: int) -> None:
    """Replay all, and say how long it took."""
    session = _session(directory, master)
    domain = load_domain("tidings_shop.domain")
    began = time.monotonic()
    with replayed(session, "shop", domain) as found:
        checked = time.monotonic() - began
        events = found.events.count()
        rows = sum(
            session.table(f"technical.{name}_log").count() for name in ("orders", "order_items", "payments")
        )
        seconds = time.monotonic() - began
        notes = [note for note in found.notes() if not note.startswith("up to")]
    print(
        f"{master}: {rows} rows, {events} events in {seconds:.1f} s, of which {checked:.1f} s for the range:"
        f" {rows / seconds:,.0f} rows/s; {'; '.join(notes)}",
        flush=True,
    )
    session.stop()


if __name__ == "__main__":
    {"make": make, "replay": replay}[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
