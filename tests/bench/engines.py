"""Capture and real Debezium side by side: one database, one broker, the same connector JSON (other prefix and slot).

Both sides' converters are named in the connector's JSON, so that neither inherits a worker's default.
"""

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from psycopg.conninfo import make_conninfo
from tests.bench import former

from tidings_stack import Stack
from tidings_stack.capture import JSON_CONVERTER as _JSON
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import avro_converter_settings, connector_settings

WARM_UP_ROWS = 20_000 if former.FORMER else 200_000
"""Streamed before anything is measured: a cold JVM would flatter us threefold."""
DEADLINE_SECONDS = 900
TRANSACTION_ROWS = 1_000
"""Rows per transaction: neither one row each nor one giant."""

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


def converters(wire_format: str, stack: Stack) -> dict[str, str]:
    """The converter part of a connector's JSON: ``json``, ``json-schemas`` or ``avro``."""
    if wire_format == "avro":
        return avro_converter_settings(stack.registry.url)
    enable = "true" if wire_format == "json-schemas" else "false"
    return {
        f"{side}.converter{option}": value
        for side in ("key", "value")
        for option, value in (("", _JSON), (".schemas.enable", enable))
    }


@dataclass(frozen=True)
class Engine:
    """One engine under test: where its REST API is, and which process tree to account."""

    name: str
    rest: str
    pid: int

    def put(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector and wait until its task runs."""
        request("PUT", f"{self.rest}/connectors/{connector}/config", config)
        self.wait(connector, "RUNNING")

    def pause(self, connector: str) -> None:
        request("PUT", f"{self.rest}/connectors/{connector}/pause")
        self.wait(connector, "PAUSED")

    def resume(self, connector: str) -> None:
        """Ask for it; not waited for, since the first record on the topic says when it is done."""
        request("PUT", f"{self.rest}/connectors/{connector}/resume")

    def delete(self, connector: str) -> None:
        request("DELETE", f"{self.rest}/connectors/{connector}")

    def wait(self, connector: str, state: str) -> None:
        deadline = time.monotonic() + 120
        while (states := self._states(connector)) != [state, state]:
            check(deadline, f"{self.name} to be {state} (is {states})")

    def _states(self, connector: str) -> list[str]:
        try:
            status = request("GET", f"{self.rest}/connectors/{connector}/status")
        except urllib.error.HTTPError as error:
            error.close()
            return []
        assert isinstance(status, dict)
        if any(task["state"] == "FAILED" for task in status["tasks"]):
            raise RuntimeError(f"{self.name}: {status}")
        return [status["connector"]["state"], *[task["state"] for task in status["tasks"]]]


@dataclass(frozen=True)
class Bench:
    """Everything that a benchmark of capture needs."""

    stack: Stack
    database: str
    engines: tuple[Engine, ...]
    ends: "Ends"

    def config(self, engine: Engine, name: str, wire_format: str, **options: str) -> dict[str, str]:
        """The connector's JSON; topics are ``<engine>_<name>.public.bench``."""
        own = {
            "topic.prefix": f"{engine.name}_{name}",
            "slot.name": f"bench_{engine.name}_{name}",
            "publication.name": "bench",
            "publication.autocreate.mode": "disabled",
            "table.include.list": "public.bench",
            **converters(wire_format, self.stack),
            **{option.replace("_", "."): value for option, value in options.items()},
        }
        return connector_settings(self.database, **own)

    def write(self, first: int, rows: int, per_transaction: int = TRANSACTION_ROWS) -> int:
        """Insert rows after number `first`; the number of the last one."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            for start in range(first + 1, first + rows + 1, per_transaction):
                connection.execute(ROWS, (start, min(start + per_transaction - 1, first + rows)))
        return first + rows

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]  # ours

    def drop_slot(self, slot: str) -> None:
        """Drop a slot once its walsender has gone."""
        deadline = time.monotonic() + 60
        query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        with psycopg.connect(self.database, autocommit=True) as connection:
            while (row := connection.execute(query, [slot]).fetchone()) is not None and row[0]:
                check(deadline, f"slot {slot} to be free")
            if row is not None:
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


@contextlib.contextmanager
def bench(*, debezium: bool = True, registry: bool = False) -> Iterator[Bench]:
    """Servers, the table, and both engines, Debezium or a former checkout first; stopped at the end."""
    debezium = debezium and former.FORMER is None
    members = ("pg", "kafka", *(["registry"] if registry else []), *(["connect"] if debezium else []))
    with Stack(members=members) as stack, contextlib.ExitStack() as started:
        database = _create_database(stack.pg.url)
        engines = []
        if debezium:
            engines.append(Engine("debezium", stack.connect.url, stack.connect.pid))
        if former.FORMER is not None:
            commands = former.commands(former=True)
            found = started.enter_context(
                worker(stack, "bench-former", group="bench-former", commands=commands)
            )
            engines.append(_engine(former.NAME, *found))
        engines.append(_engine("tidings", *started.enter_context(worker(stack))))
        yield Bench(stack, database, tuple(engines), Ends(stack.kafka.bootstrap))


def _engine(name: str, process: subprocess.Popen[bytes], port: int) -> Engine:
    return Engine(name, f"http://127.0.0.1:{port}", process.pid)


def _create_database(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bench")
    database = make_conninfo(server, dbname="bench")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute("CREATE PUBLICATION bench FOR TABLE bench")
    return database


@contextlib.contextmanager
def worker(
    stack: Stack,
    name: str = "bench-worker",
    *,
    group: str = "bench",
    commands: Path | None = None,
    **settings: str,
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A worker of a group and its REST port; stopped at the end, if it has not ended by then.

    Args:
        commands: of another checkout.
        settings: further properties, ``_`` for ``.``.
    """
    # As many partitions as Kafka Connect makes by itself.
    own = {"offset.storage.partitions": "25"}
    own |= {option.replace("_", "."): value for option, value in settings.items()}
    with CaptureWorkers(stack.directory, stack.kafka.bootstrap, commands=commands) as workers:
        properties = workers.properties(group, own, name=name)
        made = workers.start(properties, environment={"PYTHONFAULTHANDLER": "1"})
        yield made.process, int(made.url.rpartition(":")[2])


class Ends:
    """End offsets of single-partition topics; without transactions an end offset is a count of records."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench-ends", "enable.auto.commit": False}
        )

    def of(self, topic: str) -> int:
        """The end offset; 0 while a topic that has just been made has no leader yet."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return 0

    def wait(self, topic: str, count: int) -> None:
        """Until the topic holds `count` records."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while topic not in self._consumer.list_topics(timeout=10).topics:
            check(deadline, f"topic {topic} to exist")
        while (end := self.of(topic)) < count:
            check(deadline, f"{topic} to reach {count} (at {end})")


def check(deadline: float, what: str) -> None:
    """A short pause in a wait.

    Raises:
        TimeoutError: the deadline has passed.
    """
    if time.monotonic() > deadline:
        raise TimeoutError(f"waited in vain for {what}")
    time.sleep(0.02)


def request(method: str, url: str, body: Mapping[str, str] | None = None) -> object:
    """One call of a REST API; the decoded answer."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(call, timeout=90) as answer:
        text = answer.read()
    return json.loads(text) if text else None
