"""Traffic on one table, in the background, while something is done to a worker."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import psycopg


class RowTraffic:
    """Transactions that insert rows with consecutive ids into table ``a (id int)``, one after the other, in a `with`.

    Args:
        rows: of each transaction.
        first: the first id.
        pause_seconds: between two transactions.
    """

    def __init__(self, url: str, *, rows: int, first: int = 1, pause_seconds: float = 0.0) -> None:
        self.rows = rows
        self.transactions = 0
        """How many are committed."""
        self._url = url
        self._first = first
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="traffic")
        self._future: Future[None] | None = None

    @property
    def total_rows(self) -> int:
        """How many rows are committed."""
        return self.transactions * self.rows

    def _run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stop.wait(self._pause_seconds):
                start = self._first + self.total_rows
                connection.execute(
                    "INSERT INTO a SELECT i FROM generate_series(%s::int, %s::int) i",
                    (start, start + self.rows - 1),
                )
                self.transactions += 1

    def __enter__(self) -> Self:
        self._future = self._pool.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; what has gone wrong with a transaction is raised, unless the test has failed already."""
        self._stop.set()
        self._pool.shutdown()
        assert self._future is not None
        if kind is None:
            self._future.result()
