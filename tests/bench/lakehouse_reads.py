"""What readers pay for many small batches: a current state and its log behind a thousand of them, and compacted; and a reader of ten minutes.

The job runs with its defaults, but that it waits for nothing between batches and keeps snapshots for eleven minutes in place of an
hour, so that some expire while it runs. The tables are measured some 90 commits after they were looked after last, the most there can
be being 100 (`BENCH_COMPACT`). Beside the batches pyiceberg plans a read of the current state and takes its files over ten minutes, again and again.
"""

import contextlib
import importlib
import os
import queue
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import ArrowScan
from tests.bench.lakehouse import order

from tidings_lakehouse.formats.registry import Registry
from tidings_lakehouse.job import Job
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.spark.session import create_session, stop_gateway
from tidings_service import Health, configure_logging
from tidings_stack import Stack

COMPACT = int(os.environ.get("BENCH_COMPACT", "100"))
"""Commits of a table after which it is looked after."""
BATCHES = int(os.environ.get("BENCH_BATCHES", "1090"))
CHANGES = 200
READ_SECONDS = 600
KEEP_SECONDS = 660.0
TIMES = 5
SOURCE = "reads"
STATE, LOG = "technical.orders", "technical.orders_log"
ASKED = {STATE: "count(note), sum(amount)", LOG: "count(after.note), sum(after.amount)"}


def run(rows: int) -> None:
    """Print the figures; `rows` are those of the current state before the batches."""
    from lakelab.topics import Topics

    configure_logging("bench", level="WARNING")

    with Stack(members=("kafka", "registry")) as stack, tempfile.TemporaryDirectory() as directory:
        topics = Topics(stack.kafka.bootstrap, stack.registry.url)
        table = topics.table(f"{SOURCE}.public.orders")
        settings = LakehouseSettings(
            kafka=stack.kafka.bootstrap,
            registry=stack.registry.url,
            source=SOURCE,
            lakehouse_warehouse=f"{directory}/warehouse",
            lakehouse_trigger_seconds=0.1,
            lakehouse_keep_seconds=KEEP_SECONDS,
            lakehouse_compact_commits=COMPACT,
        )
        Path(directory, "warehouse").mkdir()
        session = create_session(settings, "bench")
        try:
            with _job(session, settings) as ended:
                for number in range(rows):
                    table.change("c", order(number), 10 + number, 11 + number)
                    if not number % 10_000:
                        topics.producer.poll(0.01)
                topics.flush()
                _until_quiet(ended)
                reader = _Reader(Path(directory))
                reader.start()
                seconds = _batches(table, rows, ended)
                reader.stopped.set()
                reader.join()
            print(
                f"  {BATCHES:,} batches of {CHANGES} changes on {rows:,} rows: a batch {statistics.median(seconds):.2f} s (median),"
                f" the first hundred {statistics.median(seconds[:100]):.2f}, the last {statistics.median(seconds[-100:]):.2f}"
            )
            print(
                f"  reads of ten minutes: {reader.done} done, {reader.failures} failed; {reader.expired} snapshots of them had"
                " expired at the end",
                flush=True,
            )
            _measure(Path(directory), session, "behind the batches")
            for name in (STATE, LOG):
                session.sql(
                    f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
                )
            _measure(Path(directory), session, "compacted")
        finally:
            session.stop()
            stop_gateway(session)


@contextlib.contextmanager
def _job(session: Any, settings: LakehouseSettings) -> Iterator["queue.Queue[float]"]:
    """The job, beside this thread; gives when batches end."""
    ended: queue.Queue[float] = queue.Queue()
    registry = Registry(settings.optional_registry)
    job = Job(
        session,
        settings,
        registry,
        Health(),
        streams=["technical"],
        failpoint=lambda point: ended.put(time.monotonic()) if point == "batch:technical" else None,
    )
    job.start()
    stop = threading.Event()
    waiting = threading.Thread(target=job.wait, args=(stop,))
    waiting.start()
    try:
        yield ended
    finally:
        stop.set()
        waiting.join()
        job.stop()


def _until_quiet(ended: "queue.Queue[float]") -> None:
    ended.get(timeout=600)
    with contextlib.suppress(queue.Empty):
        while True:
            ended.get(timeout=15)


def _batches(table: Any, rows: int, ended: "queue.Queue[float]") -> list[float]:
    r = random.Random(7)
    seconds = []
    for turn in range(BATCHES):
        at = rows + 100 + turn * CHANGES
        for number in range(CHANGES):
            key = rows + turn * 20 + number if number < 20 else r.randrange(rows)
            table.change("u", order(key, f"turn {turn}"), at + number, at + number + 1)
        table.topics.flush()
        began = time.monotonic()
        seconds.append(ended.get(timeout=600) - began)
        with contextlib.suppress(queue.Empty):  # what was sent may have come in two
            while True:
                ended.get(timeout=0.05)
    return seconds


def _catalog(directory: Path) -> SqlCatalog:
    warehouse = directory / "warehouse"
    return SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse.as_uri())


class _Reader(threading.Thread):
    """Reads the current state, each time over ten minutes, until it is stopped."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.stopped = threading.Event()
        self.done = self.failures = self.expired = 0

    def run(self) -> None:
        planned: list[int] = []
        with contextlib.closing(_catalog(self._directory)) as catalog:
            while not self.stopped.is_set():
                table = catalog.load_table(STATE)
                scan = table.scan()
                planned.append(scan.snapshot().snapshot_id)  # type: ignore[union-attr]
                tasks = list(scan.plan_files())
                try:
                    for task in tasks:
                        if self.stopped.wait(READ_SECONDS / len(tasks)):
                            break
                        ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_table(
                            [task]
                        )
                    else:
                        self.done += 1
                except OSError as error:
                    print(f"  a read failed: {type(error).__name__}", flush=True)
                    self.failures += 1
            kept = {one.snapshot_id for one in catalog.load_table(STATE).metadata.snapshots}
            self.expired = len(set(planned) - kept)


def _measure(directory: Path, session: Any, when: str) -> None:
    with contextlib.closing(_catalog(directory)) as catalog:
        for name in (STATE, LOG):
            table = catalog.load_table(name)
            files = list(table.scan().plan_files())
            deletes = {each.file_path for task in files for each in task.delete_files}

            def pyiceberg(name: str = name) -> int:
                return int(catalog.load_table(name).scan().to_arrow().num_rows)

            def spark(name: str = name) -> int:
                return int(session.sql(f"SELECT {ASKED[name]} FROM lake.{name}").first()[0])

            location = table.metadata_location
            readers: list[tuple[str, Callable[[], int]]] = [
                ("DuckDB", lambda place=location, asked=ASKED[name]: _duckdb(place, asked)),  # type: ignore[misc]
                ("pyiceberg", pyiceberg),
                ("Spark", spark),
            ]
            figures = []
            for reader, read in readers:
                times = []
                for _ in range(TIMES):
                    began = time.monotonic()
                    read()
                    times.append(time.monotonic() - began)
                figures.append(f"{reader} {min(times):.2f} s ({', '.join(f'{each:.2f}' for each in times)})")
            print(
                f"  {name} {when}: {len(files)} files, {len(deletes)} delete files; {'; '.join(figures)}",
                flush=True,
            )


def _duckdb(location: str, asked: str) -> int:
    lake = duckdb.connect()
    try:
        for name in ("avro", "iceberg"):
            package = importlib.import_module(f"duckdb_extension_{name}")
            lake.load_extension(
                f"{package.__path__[0]}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"
            )
        found = lake.execute(f"SELECT {asked} FROM iceberg_scan('{location}')").fetchone()
        assert found is not None
        return int(found[0])
    finally:
        lake.close()
