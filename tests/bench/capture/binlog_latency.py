"""From the commit in MariaDB, and in MySQL, to a consumer of the topic: as `capture_latency`.

MariaDB's log tells the second of a commit only, so that each row says when its statement was sent: the figures have the
statement and its commit in them.
"""

import time
from typing import Any
from urllib.parse import urlsplit

from tests.bench.capture.latency import Pace, compare, evenly
from tests.bench.capture.mariadb import MARIADB, MYSQL, binlog_bench

from tidings_capture.mysql.client import Endpoint, Session

_ROW = "({0}, {0} % 1000, 'customer name {0}', 'a city', '{1}', 1.25, 1, {0} / 7, '2026-01-01', '2026-01-01 00:00:00.001')"


def run(rows: int) -> None:
    """Print both engines' figures, on both servers."""
    for kind in (MARIADB, MYSQL):
        print(f"  {kind.server.name}:", flush=True)
        with binlog_bench(kind) as made:
            compare(made, Pace(write, _sent))


def _sent(value: Any) -> int:
    return int(value["after"]["note"])


def write(database: str, first: int, seconds: int, per_commit: int) -> None:
    """Commits at an even pace; runs in a process of its own."""
    url = urlsplit(database)
    session = Session(Endpoint("127.0.0.1", url.port or 0, url.username or "", url.password or ""))

    def commit(start: int, end: int) -> None:
        now = time.time_ns() // 1000
        session.rows(
            "INSERT INTO public.bench VALUES " + ", ".join(_ROW.format(n, now) for n in range(start, end + 1))
        )

    evenly(commit, first, seconds, per_commit)
    session.close()
