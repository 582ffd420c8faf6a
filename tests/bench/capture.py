"""Capture beside real Debezium: the same backlog, the same broker, one after the other, both warm.

Both connectors are created with the same JSON (other prefix and slot) and stream 200,000 rows first: a cold JVM would
flatter us threefold. Then both are paused, the backlog is written, and each is resumed alone. Measured from the first
new record on the topic to the last, so that neither's start-up counts; CPU is that of the engine's process tree.
"""

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg.conninfo import conninfo_to_dict
from tests.bench.processes import cpu_seconds, resident_bytes

from tidings_stack import Stack

WARM_UP_ROWS = 200_000
DEADLINE_SECONDS = 900

TABLE = """
CREATE TABLE bench (
    id bigint PRIMARY KEY, quantity integer NOT NULL, name text NOT NULL, city text, note varchar(200),
    amount numeric(12,2) NOT NULL, active boolean NOT NULL, ratio double precision,
    created_at timestamp NOT NULL, updated_at timestamptz NOT NULL)
"""
ROWS = """
INSERT INTO bench
SELECT i, i %% 1000, 'customer name ' || i, 'city ' || i %% 500, 'a note of ordinary length for row ' || i,
       (i %% 100000) / 100.0, i %% 2 = 0, i / 7.0, timestamp '2026-01-01' + i * interval '1 second',
       timestamptz '2026-01-01 00:00+00' + i * interval '1 millisecond'
FROM generate_series(%s::bigint, %s::bigint) AS i
"""
TRANSACTION_ROWS = 1_000
"""Rows per transaction: neither one row each nor one giant."""


@dataclass(frozen=True)
class Figure:
    """What one engine did with one backlog."""

    rows_per_second: float
    rows_per_cpu_second: float
    cpu_seconds_per_million: float
    resident_mb: float


@dataclass(frozen=True)
class Engine:
    """One engine under test: where its REST API is, which process to account, which topic it writes."""

    name: str
    rest: str
    pid: int
    prefix: str

    @property
    def topic(self) -> str:
        return f"{self.prefix}.public.bench"


def run(rows: int, rounds: int = 3) -> None:
    """Print both engines' figures, median of `rounds` backlogs of `rows` rows each."""
    with Stack(members=("pg", "kafka", "connect")) as stack:
        database = _create_database(stack.pg.url)
        worker = _start_worker(stack)
        try:
            engines = [
                Engine("debezium", stack.connect.url, stack.connect.pid, "debezium"),
                Engine("tidings", f"http://127.0.0.1:{worker.port}", worker.process.pid, "tidings"),
            ]
            _measure(engines, database, stack.kafka.bootstrap, rows, rounds)
        finally:
            worker.process.terminate()
            worker.process.wait(60)


def _measure(engines: list[Engine], database: str, bootstrap: str, rows: int, rounds: int) -> None:
    ends = _Ends(bootstrap)
    for engine in engines:
        _request("PUT", f"{engine.rest}/connectors/bench/config", _connector(engine, database))
        _wait_running(engine)
    written = _write(database, 0, WARM_UP_ROWS)
    for engine in engines:
        ends.wait(engine.topic, written)
    figures: dict[str, list[Figure]] = {engine.name: [] for engine in engines}
    for turn in range(rounds):
        for engine in engines:
            _pause(engine)
        before, written = written, _write(database, written, rows)
        for engine in engines if turn % 2 == 0 else reversed(engines):
            figure = _drain(engine, ends, before, written)
            figures[engine.name].append(figure)
            print(
                f"  round {turn + 1} {engine.name:9} {figure.rows_per_second:9,.0f} rows/s "
                f"{figure.rows_per_cpu_second:9,.0f} rows per CPU s {figure.cpu_seconds_per_million:6.1f} CPU s per million "
                f"{figure.resident_mb:7,.0f} MB",
                flush=True,
            )
    median = {
        name: [
            statistics.median(getattr(f, field) for f in found)
            for field in ("rows_per_second", "rows_per_cpu_second")
        ]
        for name, found in figures.items()
    }
    for name, (per_second, per_cpu) in median.items():
        print(f"  median  {name:9} {per_second:9,.0f} rows/s {per_cpu:9,.0f} rows per CPU s")
    print(
        f"  tidings / debezium: {median['tidings'][0] / median['debezium'][0]:.2f} in rows/s, "
        f"{median['tidings'][1] / median['debezium'][1]:.2f} in rows per CPU second"
    )


def _drain(engine: Engine, ends: "_Ends", before: int, written: int) -> Figure:
    _request("PUT", f"{engine.rest}/connectors/bench/resume")
    ends.wait(engine.topic, before + 1)
    first_rows, start, cpu = ends.of(engine.topic), time.monotonic(), cpu_seconds(engine.pid)
    ends.wait(engine.topic, written)
    seconds, cpu = time.monotonic() - start, cpu_seconds(engine.pid) - cpu
    resident = resident_bytes(engine.pid) / 1e6
    _pause(engine)
    rows = written - first_rows
    return Figure(rows / seconds, rows / cpu, cpu / rows * 1e6, resident)


def _connector(engine: Engine, database: str) -> dict[str, str]:
    parts = conninfo_to_dict(database)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": str(parts["host"]),
        "database.port": str(parts["port"]),
        "database.user": str(parts["user"]),
        "database.password": str(parts.get("password") or "none"),
        "database.dbname": str(parts["dbname"]),
        "topic.prefix": engine.prefix,
        "plugin.name": "pgoutput",
        "slot.name": f"bench_{engine.prefix}",
        "publication.name": "bench",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.bench",
        "snapshot.mode": "no_data",
    }


def _create_database(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bench")
    database = psycopg.conninfo.make_conninfo(server, dbname="bench")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute("CREATE PUBLICATION bench FOR TABLE bench")
    return database


def _write(database: str, first: int, rows: int) -> int:
    with psycopg.connect(database, autocommit=True) as connection:
        for start in range(first + 1, first + rows + 1, TRANSACTION_ROWS):
            connection.execute(ROWS, (start, min(start + TRANSACTION_ROWS - 1, first + rows)))
    return first + rows


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    port: int


def _start_worker(stack: Stack) -> _Worker:
    directory = Path(stack.directory)
    port = _free_port()
    properties = directory / "bench-worker.properties"
    converter = "org.apache.kafka.connect.json.JsonConverter"
    properties.write_text(
        f"bootstrap.servers={stack.kafka.bootstrap}\ngroup.id=bench-tidings\nlisteners=http://127.0.0.1:{port}\n"
        "config.storage.topic=bench-tidings-configs\noffset.storage.topic=bench-tidings-offsets\n"
        "status.storage.topic=bench-tidings-status\nconfig.storage.replication.factor=1\n"
        "offset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n"
        f"key.converter={converter}\nkey.converter.schemas.enable=false\n"
        f"value.converter={converter}\nvalue.converter.schemas.enable=false\n"
    )
    with (directory / "bench-worker.log").open("wb") as log:
        command = [str(Path(sys.executable).with_name("tidings-capture")), str(properties)]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    deadline = time.monotonic() + 60
    while True:
        try:
            _request("GET", f"http://127.0.0.1:{port}/")
            return _Worker(process, port)
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Ends:
    """End offsets of single-partition topics; without transactions an end offset is a count of records."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench-ends", "enable.auto.commit": False}
        )

    def of(self, topic: str) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])

    def wait(self, topic: str, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while topic not in self._consumer.list_topics(timeout=10).topics:
            _check(deadline, f"topic {topic} to exist")
        while (end := self.of(topic)) < count:
            _check(deadline, f"{topic} to reach {count} (at {end})")


def _check(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"waited {DEADLINE_SECONDS} s for {what}")
    time.sleep(0.02)


def _request(method: str, url: str, body: dict[str, str] | None = None) -> object:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=90) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def _states(engine: Engine) -> list[str]:
    try:
        status = _request("GET", f"{engine.rest}/connectors/bench/status")
    except urllib.error.HTTPError as error:
        error.close()
        return []
    assert isinstance(status, dict)
    if any(task["state"] == "FAILED" for task in status["tasks"]):
        raise RuntimeError(f"{engine.name}: {status}")
    return [status["connector"]["state"], *[task["state"] for task in status["tasks"]]]


def _wait_states(engine: Engine, state: str) -> None:
    deadline = time.monotonic() + 120
    while (states := _states(engine)) != [state, state]:
        _check(deadline, f"{engine.name} to be {state} (is {states})")


def _wait_running(engine: Engine) -> None:
    _wait_states(engine, "RUNNING")


def _pause(engine: Engine) -> None:
    _request("PUT", f"{engine.rest}/connectors/bench/pause")
    _wait_states(engine, "PAUSED")
