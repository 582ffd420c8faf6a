"""Streaming a backlog: capture beside real Debezium in three formats, and pg_recvlogical, which only receives.

Both engines stream 200,000 rows first. Then both are paused, the backlog is written, and each is resumed alone. Measured
from the first new record on the topic to the last, so that neither's start-up counts; CPU is that of the engine's
process tree.
"""

import resource
import shutil
import subprocess
import time
from dataclasses import dataclass

import psycopg
from tests.bench import former
from tests.bench.engines import WARM_UP_ROWS, Bench, Engine, bench
from tests.bench.processes import cpu_seconds, resident_bytes

FORMATS = ("json", "json-schemas", "avro")
ROUNDS = 2


@dataclass(frozen=True)
class Figure:
    """What one engine did with one backlog."""

    rows_per_second: float
    rows_per_cpu_second: float
    resident_mb: float

    def __str__(self) -> str:
        return (
            f"{self.rows_per_second:9,.0f} rows/s {self.rows_per_cpu_second:9,.0f} rows per CPU s"
            f" {1e6 / self.rows_per_cpu_second:6.1f} CPU s per million {self.resident_mb:7,.0f} MB"
        )


def run(rows: int) -> None:
    """Print every engine's figures for every format, and their ratios."""
    formats, rounds = former.formats(FORMATS), former.rounds(ROUNDS)
    with bench(registry="avro" in formats) as made:
        written = 0
        for wire_format in formats:
            written = run_format(made, wire_format, written, rows, rounds)
        if former.FORMER is None:
            _receive_only(made, written, rows)


def run_format(made: Bench, wire_format: str, written: int, rows: int, rounds: int) -> int:
    """Print both engines' figures for one format; the number of the last row."""
    name = wire_format.replace("-", "_")
    base = written
    for engine in made.engines:
        engine.put(name, made.config(engine, name, wire_format, snapshot_mode="no_data"))
    written = made.write(written, WARM_UP_ROWS)
    for engine in made.engines:
        made.ends.wait(_topic(engine, name), written - base)
    figures: dict[str, list[Figure]] = {engine.name: [] for engine in made.engines}
    for turn in range(rounds):
        for engine in made.engines:
            engine.pause(name)
        before, written = written, made.write(written, rows)
        for engine in made.engines if turn % 2 == 0 else reversed(made.engines):
            figure = _drain(made, engine, name, before - base, written - base)
            figures[engine.name].append(figure)
            print(f"  {wire_format:13} round {turn + 1} {engine.name:9} {figure}", flush=True)
    for engine in made.engines:
        engine.delete(name)
        made.drop_slot(f"bench_{engine.name}_{name}")
    print_ratios(wire_format, figures)
    return written


def print_ratios(what: str, figures: dict[str, list[Figure]]) -> None:
    """Ours beside those of the other engine, in both units."""
    theirs, ours = figures.values()
    for field, unit in (("rows_per_second", "rows/s"), ("rows_per_cpu_second", "rows per CPU s")):
        former.print_ratio(
            what,
            unit,
            [getattr(figure, field) for figure in ours],
            [getattr(figure, field) for figure in theirs],
        )


def _topic(engine: Engine, name: str) -> str:
    return f"{engine.name}_{name}.public.bench"


def _drain(made: Bench, engine: Engine, name: str, before: int, written: int) -> Figure:
    topic = _topic(engine, name)
    engine.resume(name)
    made.ends.wait(topic, before + 1)
    first_rows, start, cpu = made.ends.of(topic), time.monotonic(), cpu_seconds(engine.pid)
    made.ends.wait(topic, written)
    seconds, cpu = time.monotonic() - start, cpu_seconds(engine.pid) - cpu
    resident = resident_bytes(engine.pid) / 1e6
    engine.wait(name, "RUNNING")
    engine.pause(name)
    rows = written - first_rows
    return Figure(rows / seconds, rows / max(cpu, 0.01), resident)


def _receive_only(made: Bench, written: int, rows: int) -> None:
    """pg_recvlogical into /dev/null: what the server gives at most."""
    command = shutil.which("pg_recvlogical")
    if command is None:
        print("  pg_recvlogical is not installed (PostgreSQL's client programs): left out")
        return
    with psycopg.connect(made.database, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('receive_only', 'pgoutput')")
        made.write(written, rows)
        end = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert end is not None
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [command, "--dbname", made.database, "--slot", "receive_only", "--start", "--file", "/dev/null",
         "--endpos", end[0], "--option", "proto_version=1", "--option", "publication_names=bench"],
        check=True,
    )  # fmt: skip
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  pg_recvlogical {rows / seconds:9,.0f} rows/s {rows / cpu:9,.0f} rows per CPU s", flush=True)
    made.drop_slot("receive_only")
