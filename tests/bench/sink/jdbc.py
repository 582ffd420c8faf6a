"""Upserts of envelopes into PostgreSQL: our JDBC sink beside Debezium's, the same connector JSON, each with a database of its own.

Capture has written the topic before. Both sinks drain rows to warm up; then both are paused, the backlog is written, and each
is resumed alone. Measured from the first new row in the table to the last; CPU is that of the engine's process tree, and
PostgreSQL's beside it. Memory is that of the tree, and of its largest process, which of ours is the task or the worker.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tests.bench.engines import Bench, Engine, bench, check, converters
from tests.bench.processes import cpu_seconds, resident_bytes, tree

from tidings_stack.connect import ConnectServer
from tidings_stack.postgres import connection_parts, create_database

WARM_UP_ROWS = 60_000
ROUNDS = 2
DEADLINE_SECONDS = 1800


@dataclass(frozen=True)
class Sink:
    """A sink under test, and the database that it writes to."""

    engine: Engine
    database: str

    @property
    def name(self) -> str:
        """The connector's; each has a group of its own."""
        return f"sink-{self.engine.name}"

    def last(self) -> int:
        """The highest key that is there; 0: none yet."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass('bench')").fetchone() == (None,):
                return 0
            row = connection.execute("SELECT coalesce(max(id), 0) FROM bench").fetchone()
        assert row is not None
        return int(row[0])

    def wait(self, last: int) -> None:
        """Until the row with a key is there; keys come in order."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        with psycopg.connect(self.database, autocommit=True) as connection:
            while connection.execute("SELECT coalesce(max(id), 0) FROM bench").fetchone() < (last,):  # type: ignore[operator]
                check(deadline, f"{self.engine.name} to write row {last}")


def run(rows: int, wire_format: str = "avro", rounds: int = ROUNDS) -> None:
    """Print both sinks' figures."""
    with bench(debezium=False, registry=wire_format == "avro") as made:
        connect = made.stack.add(
            lambda place: ConnectServer(
                place, bootstrap=made.stack.kafka.bootstrap, plugins=("debezium-jdbc",)
            )
        )
        source, ours = f"tidings_{wire_format.replace('-', '_')}", made.engines[0]
        ours.put(
            "source", made.config(ours, wire_format.replace("-", "_"), wire_format, snapshot_mode="no_data")
        )
        theirs = Engine("debezium", connect.url, connect.pid)
        sinks = [
            Sink(engine, create_database(made.stack.pg.url, f"sink_{engine.name}"))
            for engine in (theirs, ours)
        ]
        topic = f"{source}.public.bench"
        written = _produce(made, topic, 0, WARM_UP_ROWS)
        for sink in sinks:
            sink.engine.put(sink.name, _config(made, sink, topic, wire_format))
            deadline = time.monotonic() + DEADLINE_SECONDS
            while sink.last() == 0:
                check(deadline, f"{sink.engine.name} to begin")
            sink.wait(written)
        for turn in range(rounds):
            for sink in sinks:
                sink.engine.pause(sink.name)
            written = _produce(made, topic, written, rows)
            ours.pause("source")
            for sink in sinks if turn % 2 == 0 else reversed(sinks):
                _drain(made, sink, turn, written)
            ours.resume("source")
        for sink in sinks:
            sink.engine.delete(sink.name)
        ours.delete("source")


def _produce(made: Bench, topic: str, written: int, rows: int) -> int:
    """Write rows at the source, and wait until capture has them in the topic."""
    last = made.write(written, rows)
    made.ends.wait(topic, last)
    return last


def _config(made: Bench, sink: Sink, topic: str, wire_format: str) -> dict[str, str]:
    parts = connection_parts(sink.database)
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "connection.url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}",
        "connection.username": parts["user"],
        "connection.password": parts.get("password", "none"),
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "schema.evolution": "basic",
        "collection.name.format": "bench",
        **converters(wire_format, made.stack),
    }


def _drain(made: Bench, sink: Sink, turn: int, written: int) -> None:
    engine, before = sink.engine, sink.last()
    engine.resume(sink.name)
    sink.wait(before + 1)
    first, start = sink.last(), time.monotonic()
    cpu, server = cpu_seconds(engine.pid), cpu_seconds(made.stack.pg.pid)
    sink.wait(written)
    seconds, rows = time.monotonic() - start, written - first
    cpu, server = cpu_seconds(engine.pid) - cpu, cpu_seconds(made.stack.pg.pid) - server
    largest = max(_pss(pid) for pid in tree(engine.pid))
    print(
        f"  round {turn + 1} {engine.name:9} {rows / seconds:9,.0f} rows/s {rows / max(cpu, 0.01):9,.0f} rows per CPU s"
        f" {server / rows * 1e6:6.1f} CPU s of PostgreSQL per million"
        f" {resident_bytes(engine.pid) / 1e6:6,.0f} MB, largest process {largest / 1e6:5,.0f} MB",
        flush=True,
    )
    engine.wait(sink.name, "RUNNING")
    engine.pause(sink.name)


def _pss(pid: int) -> int:
    """A process's memory, its share of what others use as well (Linux's Pss)."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
