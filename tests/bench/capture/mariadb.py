"""MariaDB, or MySQL: a backlog of its binary log through capture and real Debezium, in three formats; then the initial snapshot.

As `capture` and `capture_snapshot`; Debezium is 3.5.0.Final, the newest for MariaDB that the registry has.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.capture.backlog import FORMATS, ROUNDS, run_format
from tests.bench.capture.snapshot import snapshot
from tests.bench.engines import TRANSACTION_ROWS, Bench, Ends, Engine, converters, worker

from tidings_capture.mysql.client import Endpoint, Session
from tidings_stack import Stack
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer, MySqlLikeServer
from tidings_stack.mysql import MySqlServer

_TABLE = """
CREATE TABLE public.bench (
 id BIGINT PRIMARY KEY, quantity INT NOT NULL, name VARCHAR(100) NOT NULL, city VARCHAR(100), note VARCHAR(200),
 amount DECIMAL(12,2) NOT NULL, active TINYINT(1) NOT NULL, ratio DOUBLE,
 created_at DATETIME NOT NULL, updated_at TIMESTAMP(3) NOT NULL)
"""
_NUMBERS = (
    "CREATE TABLE public.digits (d INT)",
    "INSERT INTO public.digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
)
_ROWS = """
INSERT INTO public.bench
SELECT seq, seq % 1000, CONCAT('customer name ', seq), CONCAT('city ', seq % 500),
       CONCAT('a note of ordinary length for row ', seq), (seq % 100000) / 100.0, seq % 2 = 0, seq / 7.0,
       '2026-01-01' + INTERVAL seq SECOND, '2026-01-01' + INTERVAL seq * 1000 MICROSECOND
FROM (SELECT {first} + {sum} AS seq FROM {tables}) numbers
WHERE seq <= {last}
"""


def rows_statement(first: int, last: int) -> str:
    """What inserts the rows from one number to another."""
    places = range(len(str(last - first)))
    return _ROWS.format(
        first=first,
        last=last,
        sum=" + ".join(f"{10**place} * d{place}.d" for place in places),
        tables=", ".join(f"public.digits d{place}" for place in places),
    )


@dataclass(frozen=True)
class _BinlogBench(Bench):
    server: MySqlLikeServer
    connector_class: str

    def config(self, engine: Engine, name: str, wire_format: str, **options: str) -> dict[str, str]:
        prefix = f"{engine.name}_{name}"
        return {
            "connector.class": self.connector_class,
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "admin",
            "database.password": self.server.password,
            "database.server.id": str(100_000 + zlib.crc32(prefix.encode()) % 100_000),
            "database.include.list": "public",
            "topic.prefix": prefix,
            "include.schema.changes": "false",
            "snapshot.locking.mode": "none",
            "schema.history.internal.kafka.bootstrap.servers": self.stack.kafka.bootstrap,
            "schema.history.internal.kafka.topic": f"history_{prefix}",
            **converters(wire_format, self.stack),
            **{option.replace("_", "."): value for option, value in options.items()},
        }

    def write(self, first: int, rows: int, per_transaction: int = TRANSACTION_ROWS) -> int:
        for start in range(first + 1, first + rows + 1, per_transaction):
            _run(self.server, rows_statement(start, min(start + per_transaction - 1, first + rows)))
        return first + rows

    def execute(self, statement: str) -> None:
        _run(self.server, statement)

    def drop_slot(self, slot: str) -> None:
        """There are none."""


def _run(server: MySqlLikeServer, *statements: str) -> Any:
    session = Session(Endpoint("127.0.0.1", server.port, "admin", server.password))
    try:
        for statement in statements:
            session.rows(statement)
    finally:
        session.close()


@dataclass(frozen=True)
class Kind:
    """A server, and the connector that reads it."""

    server: type[MySqlLikeServer]
    connector_class: str


MARIADB = Kind(MariaDbServer, "io.debezium.connector.mariadb.MariaDbConnector")
MYSQL = Kind(MySqlServer, "io.debezium.connector.mysql.MySqlConnector")


@contextmanager
def binlog_bench(kind: Kind, *, debezium: bool = True) -> Iterator[Bench]:
    """Servers, the table, and both engines, Debezium first; stopped at the end."""
    with Stack(members=("kafka", "registry")) as stack:
        server = stack.add(kind.server)
        engines = []
        if debezium:
            plugin = f"debezium-{kind.server.name}"
            connect = stack.add(
                lambda place: ConnectServer(place, bootstrap=stack.kafka.bootstrap, plugins=(plugin,))
            )
            engines.append(Engine("debezium", connect.url, connect.pid))
        _run(server, "CREATE DATABASE public", _TABLE, *_NUMBERS)
        with worker(stack) as (process, port):
            engines.append(Engine("tidings", f"http://127.0.0.1:{port}", process.pid))
            ends = Ends(stack.kafka.bootstrap)
            yield _BinlogBench(stack, server.url, tuple(engines), ends, server, kind.connector_class)


def compare(rows: int, kind: Kind) -> None:
    """Print both engines' figures on a server of one kind."""
    with binlog_bench(kind) as bench:
        written = 0
        for wire_format in FORMATS:
            written = run_format(bench, wire_format, written, rows, ROUNDS)
        for turn in range(ROUNDS):
            for engine in bench.engines if turn % 2 == 0 else reversed(bench.engines):
                figure = snapshot(bench, engine, f"snapshot_{turn}", written)
                print(f"  snapshot      round {turn + 1} {engine.name:9} {figure}", flush=True)


def run(rows: int) -> None:
    """Print both engines' figures."""
    compare(rows, MARIADB)
