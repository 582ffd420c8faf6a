"""What capture's looks cost the database: slots and WAL every ten seconds, the publication every five.

The server's processes are timed by /proc: a look is a few queries in one backend.
"""

import time
from collections.abc import Callable

import psycopg
from tests.bench.processes import cpu_seconds

from tidings_capture.postgres.client import Session, read_url
from tidings_capture.postgres.offsets.history import read_publication
from tidings_capture.postgres.wal.monitor import INTERVAL_SECONDS
from tidings_capture.postgres.wal.server import ServerWatch
from tidings_stack.stack import Stack

LOOKS = 200
SLOTS = 20
TABLES = 1000
PUBLICATION_SECONDS = 5.0


def run(_rows: int) -> None:
    """Print milliseconds and server CPU of a look, and the share of a core that it is."""
    with Stack(members=("pg",)) as stack, psycopg.connect(stack.pg.url, autocommit=True) as connection:
        for number in range(TABLES):
            connection.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY)")
        tables = ", ".join(f"t{number}" for number in range(TABLES))
        connection.execute(f"CREATE PUBLICATION everything FOR TABLE {tables}")
        for number in range(SLOTS):
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (f"s{number}",))
        pid = stack.pg.pid
        assert pid is not None
        watch = ServerWatch(read_url(stack.pg.url))
        session = Session(read_url(stack.pg.url))
        _measure(f"slots and WAL, {SLOTS} slots", watch.read, pid, INTERVAL_SECONDS)
        _measure(
            f"a publication of {TABLES} tables",
            lambda: read_publication(session, "everything"),
            pid,
            PUBLICATION_SECONDS,
        )
        watch.close()
        session.close()


def _measure(what: str, look: Callable[[], object], pid: int, interval: float) -> None:
    look()
    cpu, start = cpu_seconds(pid), time.monotonic()
    for _ in range(LOOKS):
        look()
    took, used = time.monotonic() - start, cpu_seconds(pid) - cpu
    print(
        f"  {what}: {took / LOOKS * 1000:.2f} ms, {used / LOOKS * 1000:.2f} ms of the server's CPU; every {interval:.0f} s"
        f" that is {used / LOOKS / interval:.4%} of a core",
        flush=True,
    )
