"""The source: three small tables, and transactions over them."""

from typing import Any

import psycopg
from faultlab.traffic_thread import TrafficThread

from sinklab.target import TABLES


def create_tables(url: str) -> None:
    """Make the tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int NOT NULL)".encode())


def source_rows(url: str) -> dict[str, dict[int, Any]]:
    """`n` by key, of each table."""
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            table: dict(connection.execute(f"SELECT id, n FROM {table}".encode()).fetchall())
            for table in TABLES
        }


class Traffic(TrafficThread):
    """Transactions over the tables, in a thread of its own.

    Args:
        bursts: whether some change some hundred rows of a table: what a sink takes as columns.
    """

    def __init__(self, url: str, seed: int, *, bursts: bool = False) -> None:
        super().__init__(seed, (psycopg.Error,))
        self._url, self._bursts = url, bursts

    def connect(self) -> Any:
        return psycopg.connect(self._url, autocommit=True)

    def write(self, connection: Any) -> None:
        r = self._random
        if self._bursts and r.random() < 0.2:
            first = 60 + r.randrange(200)
            connection.execute(
                f"INSERT INTO {r.choice(TABLES)} (id, n) SELECT id, %s::int FROM generate_series(%s::int, %s::int) AS id"
                " ON CONFLICT (id) DO UPDATE SET n = excluded.n".encode(),
                (self.transactions, first, first + r.randrange(70, 300)),
            )
            return
        with connection.transaction():
            for _ in range(r.randrange(1, 6)):
                table, key = r.choice(TABLES), r.randrange(60)
                if r.random() < 0.2:
                    connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), (key,))
                else:
                    connection.execute(
                        f"INSERT INTO {table} (id, n) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET n = excluded.n".encode(),
                        (key, self.transactions),
                    )
