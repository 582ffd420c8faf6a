"""A backlog of envelopes appended to an Iceberg table: the job's log alone, and Iceberg's own sink on Kafka Connect, one after the other.

The sink is append only, so the job merges no current state here. Both read the same topics of Avro, one partition each: the
first to warm up, the second is measured, from the start of a query or a connector to the snapshot with the last row. CPU is that
of the process tree. The sink has the defaults but for `iceberg.control.commit.interval-ms`, which is 5 minutes by itself, and the
whole envelope becomes a row, as it does in the log.
"""

import contextlib
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.bench.engines import Engine, check, converters
from tests.bench.lakehouse import order
from tests.bench.processes import cpu_seconds

from tidings_lakehouse.formats.registry import Registry
from tidings_lakehouse.job import Job
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.spark.session import create_session, stop_gateway
from tidings_service import Health, configure_logging
from tidings_stack import Stack
from tidings_stack.connect import ConnectServer

WARM_UP_ROWS = 300_000
DEADLINE_SECONDS = 900
SOURCE = "appends"


def run(rows: int) -> None:
    """Print both figures; `rows` are those of the backlog."""
    from lakelab.topics import Topics

    configure_logging("bench", level="WARNING")
    with Stack(members=("kafka", "registry")) as stack, TemporaryDirectory() as directory:
        topics = Topics(stack.kafka.bootstrap, stack.registry.url)
        parts = {"warm": WARM_UP_ROWS, "backlog": rows}
        for name, count in parts.items():
            table = topics.table(f"{SOURCE}.public.{name}")
            for number in range(count):
                table.change("c", order(number), 10 + number, 11 + number)
                if not number % 10_000:
                    topics.producer.poll(0.01)
            topics.flush()
        for turn in range(2):
            place = Path(directory, str(turn))
            place.mkdir()
            _by_the_job(stack, place, parts)
            _by_the_sink(stack, place, parts)


def _show(who: str, rows: int, seconds: float, cpu: float) -> None:
    print(
        f"  {who:14} {rows:,} rows: {rows / seconds:,.0f} rows/s, {rows / cpu:,.0f} rows per CPU second",
        flush=True,
    )


def _by_the_job(stack: Stack, place: Path, parts: dict[str, int]) -> None:
    settings = LakehouseSettings(
        kafka=stack.kafka.bootstrap,
        registry=stack.registry.url,
        source=SOURCE,
        lakehouse_warehouse=str(place / "job"),
        lakehouse_merge=".*=never",
    )
    (place / "job").mkdir()
    session = create_session(settings, "bench")
    pid = session.sparkContext._gateway.proc.pid
    try:
        for name, rows in parts.items():
            own = settings.model_copy(
                update={
                    "lakehouse_technical": rf"{SOURCE}\.public\.{name}",
                    "lakehouse_checkpoint": str(place / f"checkpoint-{name}"),
                }
            )
            registry = Registry(own.optional_registry)
            began, cpu = time.monotonic(), cpu_seconds(pid)
            job = Job(session, own, registry, Health(), streams=["technical"])
            try:
                job.start(available_now=True)
                job.wait(threading.Event())
            finally:
                job.stop()
            if name != "warm":
                _show("the job's log", rows, time.monotonic() - began, cpu_seconds(pid) - cpu)
            assert _rows(place / "job/catalog.db", "lake", ("technical", f"{name}_log")) == rows
    finally:
        session.stop()
        stop_gateway(session)


def _by_the_sink(stack: Stack, place: Path, parts: dict[str, int]) -> None:
    connect = stack.add(
        lambda made: ConnectServer(
            made,
            bootstrap=stack.kafka.bootstrap,
            plugins=("iceberg-sink",),
            heap="2g",
            name=f"sink-{place.name}",
        )
    )
    engine = Engine("iceberg", connect.url, connect.pid)
    warehouse = place / "sink"
    warehouse.mkdir()
    for name, rows in parts.items():
        began, cpu = time.monotonic(), cpu_seconds(connect.pid)
        engine.put(f"{name}{place.name}", _config(stack, warehouse, name))
        deadline = began + DEADLINE_SECONDS
        while _rows(warehouse / "catalog.db", "iceberg", ("sink", name)) < rows:
            check(deadline, f"the sink to have {rows:,} rows")
        if name != "warm":
            _show("Iceberg's sink", rows, time.monotonic() - began, cpu_seconds(connect.pid) - cpu)
        engine.delete(f"{name}{place.name}")
    connect.stop()


def _config(stack: Stack, warehouse: Path, name: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": f"{SOURCE}.public.{name}",
        "iceberg.tables": f"sink.{name}",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
        "iceberg.control.commit.interval-ms": "5000",
        "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "iceberg.catalog.uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        "iceberg.catalog.jdbc.schema-version": "V1",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "iceberg.catalog.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "consumer.override.auto.offset.reset": "earliest",
        **converters("avro", stack),
    }


def _rows(catalog: Path, name: str, table: tuple[str, str]) -> int:
    """How many rows a table of a catalog in SQLite has; 0 before it is there."""
    if not catalog.exists():
        return 0
    with contextlib.closing(
        SqlCatalog(name, uri=f"sqlite:///{catalog}", warehouse=catalog.parent.as_uri())
    ) as opened:
        try:
            snapshot: Any = opened.load_table(table).current_snapshot()
        except NoSuchTableError:
            return 0
    return 0 if snapshot is None else int(snapshot.summary["total-records"])
