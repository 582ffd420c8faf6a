"""MySQL: as `capture_mariadb`, beside Debezium's connector for MySQL (3.5.0.Final)."""

from tests.bench.capture.mariadb import MYSQL, compare


def run(rows: int) -> None:
    """Print both engines' figures."""
    compare(rows, MYSQL)
