"""Capture's resident memory through one giant transaction of MariaDB, and of MySQL: as `capture_memory`."""

from tests.bench.capture.mariadb import MARIADB, MYSQL, binlog_bench
from tests.bench.capture.memory import watch_one_transaction


def run(rows: int) -> None:
    """Print the highest resident memory."""
    for kind in (MARIADB, MYSQL):
        with binlog_bench(kind, debezium=False) as made:
            watch_one_transaction(made, rows, f" of {kind.server.name}")
