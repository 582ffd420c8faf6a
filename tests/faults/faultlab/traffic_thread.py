"""A thread that writes to a database until its `with` ends, also through crashes of the server."""

import contextlib
import random
import threading
from typing import Any, Self

PAUSE_SECONDS = 0.02
"""Between two transactions."""


class TrafficThread:
    """Transactions in a thread of its own; a connection that is lost is made again. Seeded.

    Args:
        gone: what a statement raises while the server is away, or refuses for a lock.
    """

    def __init__(self, seed: int | str, gone: tuple[type[Exception], ...]) -> None:
        self._gone = gone
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._connection: Any = None
        self._failure: BaseException | None = None
        self.transactions = 0

    def connect(self) -> Any:
        """A new connection."""
        raise NotImplementedError

    def write(self, connection: Any) -> None:
        """One transaction, to its end."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        self._disconnect()
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ended.wait(PAUSE_SECONDS):
                try:
                    if self._connection is None:
                        self._connection = self.connect()
                    self.write(self._connection)
                    self.transactions += 1
                except self._gone:
                    self._disconnect()
        except BaseException as error:  # noqa: BLE001 - raised where the `with` ends
            self._failure = error

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*self._gone):
                connection.close()
