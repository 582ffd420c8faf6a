"""Threads that write to a database through crashes of its server, until they are told to stop."""

import random
import threading
from typing import Any, Self

import psycopg

THREADS = 2


class Writers:
    """Two threads that commit transactions until the `with` ends; a connection that is lost is made again. Seeded.

    Args:
        pause: seconds between two transactions of a thread.
    """

    def __init__(self, url: str, seed: int, *, pause: float) -> None:
        self._url = url
        self._pause = pause
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, random.Random(f"{seed}-{number}")))
            for number in range(THREADS)
        ]
        self._failure: BaseException | None = None
        self.transactions = 0
        """How many were committed, or rolled back on purpose."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        if self._failure is not None and kind is None:
            raise self._failure

    def transaction(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        """One transaction of the thread `number`, to its commit or rollback."""
        raise NotImplementedError

    def _run(self, number: int, chance: random.Random) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with psycopg.connect(self._url, connect_timeout=5) as connection:
                        while not self._stop.is_set():
                            self.transaction(connection, number, chance)
                            self.transactions += 1
                            self._stop.wait(self._pause)
                except psycopg.OperationalError:
                    # The server is away, or both threads wanted the same two rows (a deadlock is of this class, too);
                    # the history tells what of this was committed.
                    self._stop.wait(0.1)
        except BaseException as error:
            self._failure = error
            raise
