"""`make bench`: run the benchmarks and print their figures; `make bench ARGS="capture"` runs one.

Every benchmark is a module of this folder, or of one in it, with a ``run(rows)`` that prints what it measures. Figures are compared only
within one run: servers, machine and load are the same for both sides.
"""

import argparse
import importlib
import platform
import sys
from pathlib import Path

BENCHMARKS = {
    "binary_format": "nanoseconds from a cell to JSON, from PostgreSQL's text and from its binary form",
    "conversion": "microseconds from an insert's bytes to its record, without I/O",
    "capture": "a backlog through capture and real Debezium, in three formats, and pg_recvlogical",
    "capture_snapshot": "the initial snapshot, capture and real Debezium",
    "capture_many_tables": "a snapshot of a thousand small tables, and the first change of each",
    "capture_exactly_once": "a backlog through capture, exactly once and at least once",
    "capture_latency": "from commit to consumer at 1,000 rows per second in two shapes, capture and real Debezium",
    "capture_memory": "capture's resident memory through one transaction of --rows rows; --streaming: in blocks, before its commit",
    "capture_idle": "memory of a worker with twenty idle connectors, capture and real Debezium",
    "capture_takeover": "how long a connector stands still when its worker is stopped or killed",
    "capture_rest": "twenty concurrent PUTs of connectors, capture and real Kafka Connect",
    "capture_mariadb": "a backlog of MariaDB's log and a snapshot, capture and real Debezium",
    "capture_mysql": "a backlog of MySQL's log and a snapshot, capture and real Debezium",
    "capture_binlog_latency": "as capture_latency, from MariaDB and from MySQL",
    "capture_binlog_memory": "capture's resident memory through one transaction of --rows rows of MariaDB, and of MySQL",
    "sink_jdbc": "upserts of envelopes into PostgreSQL through our JDBC sink and Debezium's",
    "sink_graph": "nodes and relationships into Neo4j by our sink's task and by the driver's own UNWIND and MERGE",
    "sink_search": "documents into OpenSearch by our sink's task and by opensearch-py, which has to be installed for it",
    "sink_mongo": "documents by our MongoDB sink's task and pymongo's bulk_write, and by our sink and mongo-kafka's",
    "sink_topic": "rows from a topic in Avro into DuckDB and MongoDB by our sinks, and by hand with the libraries' own bulk calls",
    "sink_http": "records as HTTP requests by our sink's task and by a bare loop of aiohttp, on the same receiver",
    "wal_watch": "what watching slots, WAL and publication costs the database",
    "translator": "technical events through sequencer and translator, transactions on",
    "translator_scale": "both stages with one to four partitions, and two translators",
    "translator_plain": "the rules in the translator and in a plain per-event Faust agent",
    "translator_latency": "from commit to business event at 500 transactions per second",
    "translator_large": "the sequencer's memory through one transaction of --rows rows",
    "translator_wide": "the sequencer's memory through one transaction of a tenth of --rows rows of 50 kB each",
    "lakehouse": "a backlog into log and state, 10,000 changes on tables of two sizes, a start on such logs; BENCH_FORMER",
    "lakehouse_freshness": "from commit to the lake's tables at 1,000 rows per second over six tables and fifty; BENCH_SECONDS",
    "lakehouse_buckets": "changes of current states of --rows rows and of a tenth of them, without partitions and by buckets",
    "lakehouse_appends": "a backlog of --rows envelopes into the job's log alone, and into a table by Iceberg's sink on Kafka Connect",
    "lakehouse_reads": "readers behind a thousand small batches and on compacted tables, and one that takes ten minutes; BENCH_BATCHES",
    "replay": "the rules over logs of --rows rows on Spark, one core and two",
    "translator_recovery": "the state of as many aggregates as --rows says, from the changelogs of both stages",
}


def module_of(benchmark: str) -> str:
    """The module's name: `capture_latency` is in the folder `capture`, and a folder's own name is its `backlog`."""
    folder, _, name = benchmark.partition("_")
    if (Path(__file__).parent / folder).is_dir():
        return f"tests.bench.{folder}.{name or 'backlog'}"
    return f"tests.bench.{benchmark}"


def machine() -> str:
    """One line that describes the machine the figures belong to."""
    cpu = "unknown CPU"
    cores = 0
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                cpu, cores = line.split(":", 1)[1].strip(), cores + 1
    return f"{cores} x {cpu}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "benchmark",
        nargs="*",
        choices=[[], *BENCHMARKS],
        help="; ".join(f"{k}: {v}" for k, v in BENCHMARKS.items()),
    )
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of the backlog (default: one million)"
    )
    parser.add_argument(
        "--streaming", action="store_true", help="with tidings.streaming.mode=on; for capture_memory"
    )
    options = parser.parse_args()
    if options.streaming and options.benchmark != ["capture_memory"]:
        parser.error("--streaming is for capture_memory")
    extra = {"streaming": True} if options.streaming else {}
    print(f"machine: {machine()}", flush=True)
    for name in options.benchmark or BENCHMARKS:
        print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
        importlib.import_module(module_of(name)).run(options.rows, **extra)
    return 0


if __name__ == "__main__":
    sys.exit(main())
