"""From the commit in PostgreSQL to the lake's log and current state, at 1,000 rows a second over six tables and over fifty.

Capture, Kafka, the registry and the job run as a person would start them, with their defaults, on one machine. A row's freshness is
the moment at which the table's metadata has the snapshot with the row's file, less the commit's own time (``changed_at``); of the
current state, the first snapshot behind that of the log. A tenth of the rows is new, and the others are updates of random keys.
"""

import contextlib
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from tests.bench.engines import Bench, bench, converters
from tests.bench.processes import cpu_seconds

from tidings_stack.connect import connector_settings
from tidings_stack.pipeline.services import Service
from tidings_stack.ports import PortReservations
from tidings_stack.waiting import wait_for

TABLES = (6, 50)
ROWS_PER_SECOND = 1_000
ROWS_PER_COMMIT = 10
WARM_UP_SECONDS = 120
"""Not counted: the job makes its tables, and its JVM compiles what it runs."""
SECONDS = int(os.environ.get("BENCH_SECONDS", "300"))


def run(rows: int) -> None:
    """Print how old rows are when readers of the lake can see them; `rows` has no meaning here."""
    with bench(debezium=False, registry=True) as made:
        for tables in TABLES:
            _run_one(made, tables)


def _run_one(made: Bench, tables: int) -> None:
    name = f"fresh{tables}"
    for number in range(tables):
        made.execute(
            f"CREATE TABLE {name}_{number} (id bigint PRIMARY KEY, n integer, note text, amount numeric(12,2))"
        )
    made.execute(
        f"CREATE PUBLICATION {name} FOR TABLE {', '.join(f'{name}_{number}' for number in range(tables))}"
    )
    (engine,) = made.engines
    own = {
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "disabled",
        "table.include.list": rf"public\.{name}_.*",
        "provide.transaction.metadata": "true",
        "snapshot.mode": "no_data",
        **converters("avro", made.stack),
    }
    engine.put(name, connector_settings(made.database, **own))
    with tempfile.TemporaryDirectory() as directory, _job(made, name, Path(directory)) as job:
        writer = multiprocessing.get_context("spawn").Process(
            target=_write, args=(made.database, name, tables)
        )
        began, cpu = time.time(), cpu_seconds(job)
        writer.start()
        writer.join()
        cpu = cpu_seconds(job) - cpu
        with contextlib.closing(_catalog(Path(directory))) as catalog:
            # The last rows, too.
            behind = lambda: min(_newest(catalog, f"technical.{name}_{one}") for one in range(tables))  # noqa: E731
            wait_for("the last rows", lambda: behind() > began + WARM_UP_SECONDS + SECONDS - 1, 300)
            counted = began + WARM_UP_SECONDS
            logs: list[float] = []
            states: list[float] = []
            for number in range(tables):
                log, state = _freshness(catalog, f"technical.{name}_{number}", counted)
                logs += log
                states += state
    engine.delete(name)
    made.drop_slot(name)
    share = cpu / (WARM_UP_SECONDS + SECONDS)
    print(
        f"  {tables} tables, {ROWS_PER_SECOND:,} rows a second for {SECONDS} s; the job takes {share:.0%} of a core",
        flush=True,
    )
    for what, found in (("log", logs), ("current state", states)):
        found.sort()
        print(
            f"    {what}: {len(found):,} rows, p50 {statistics.median(found):.1f} s, p95 {found[int(len(found) * 0.95)]:.1f} s,"
            f" most {found[-1]:.1f} s",
            flush=True,
        )


@contextlib.contextmanager
def _job(made: Bench, source: str, directory: Path) -> Iterator[int]:
    """The job's process id."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    settings = {
        "TIDINGS_KAFKA": made.stack.kafka.bootstrap,
        "TIDINGS_REGISTRY": made.stack.registry.url,
        "TIDINGS_SOURCE": source,
        "TIDINGS_LAKEHOUSE_WAREHOUSE": str(directory / "warehouse"),
        "TIDINGS_HTTP_PORT": str(PortReservations().reserve()),
    }
    url = f"http://127.0.0.1:{settings['TIDINGS_HTTP_PORT']}"
    command = ["tidings-lakehouse", "run"]
    job = Service("lakehouse", command, environment=environment | settings, url=url, directory=directory)
    job.start()
    try:
        wait_for("the job to run", job.is_ready, 300)
        assert job.pid is not None
        yield job.pid
    finally:
        job.stop()


def _write(database: str, name: str, tables: int) -> None:
    """Commits at an even pace; runs in a process of its own."""
    r = random.Random(7)
    known = [0] * tables
    with psycopg.connect(database, autocommit=True) as connection:
        start = time.monotonic()
        for commit in range((WARM_UP_SECONDS + SECONDS) * ROWS_PER_SECOND // ROWS_PER_COMMIT):
            table = commit % tables
            known[table] += 1
            ids = {known[table], *(r.randint(1, known[table]) for _ in range(ROWS_PER_COMMIT - 1))}
            connection.execute(
                f"INSERT INTO {name}_{table} SELECT i, %s, 'a note of ordinary length', i / 7.0 FROM unnest(%s::bigint[]) AS i"
                " ON CONFLICT (id) DO UPDATE SET n = excluded.n",
                (commit, list(ids)),
            )
            time.sleep(max(0.0, start + (commit + 1) * ROWS_PER_COMMIT / ROWS_PER_SECOND - time.monotonic()))


def _catalog(directory: Path) -> SqlCatalog:
    warehouse = directory / "warehouse"
    return SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse.as_uri())


def _newest(catalog: SqlCatalog, name: str) -> float:
    """When the newest snapshot of a current state was published, in seconds since 1970; 0 without a table."""
    if not catalog.table_exists(name):
        return 0.0
    return (
        max((entry.timestamp_ms for entry in catalog.load_table(name).metadata.snapshot_log), default=0)
        / 1000
    )


def _freshness(catalog: SqlCatalog, name: str, since: float) -> tuple[list[float], list[float]]:
    """Seconds from each row's commit to the log's and to the current state's snapshot."""
    log = catalog.load_table(f"{name}_log")
    shown = {entry.snapshot_id: entry.timestamp_ms / 1000 for entry in log.metadata.snapshot_log}
    states = sorted(entry.timestamp_ms / 1000 for entry in catalog.load_table(name).metadata.snapshot_log)
    in_log: list[float] = []
    in_state: list[float] = []
    for snapshot, moment in shown.items():
        place = bisect_left(states, moment)
        for committed in _added(log, snapshot):
            if committed >= since:
                in_log.append(moment - committed)
                if place < len(states):
                    in_state.append(states[place] - committed)
    return in_log, in_state


def _added(table: Table, snapshot_id: int) -> Iterator[float]:
    """The commit times of the rows that a snapshot has added; those that compaction has written again are none."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None or snapshot.summary is None or snapshot.summary.operation.value != "append":
        return
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot_id:
                file = unquote(urlsplit(entry.data_file.file_path).path)
                for moment in pq.read_table(file, columns=["changed_at"])["changed_at"]:
                    yield moment.as_py().timestamp()
