"""Reads several tables at once: one thread for each connection, which only fetches; conversion stays with the caller.

What they have fetched waits in a queue of two batches a reader, so memory is bounded whatever the tables hold.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Generic, TypeVar

_BATCHES_PER_READER: Final = 2
_WAIT_SECONDS: Final = 0.2
_END_SECONDS: Final = 5.0

Rows = TypeVar("Rows")
Reader = Callable[[int], Iterator[Rows]]
"""Gives the batches of a table, by its number."""


class ParallelReads(Generic[Rows]):
    """Some of the rows of every table, as they arrive.

    Args:
        readers: each opens a connection in a thread of its own, and lets go of it.
        tables: how many there are; the next one goes to the reader that is free.
    """

    def __init__(
        self, readers: Sequence[Callable[[], AbstractContextManager[Reader[Rows]]]], tables: int
    ) -> None:
        self._tables = tables
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(tables):
            self._todo.put(number)
        self._out: queue.Queue[tuple[int, Rows | None] | BaseException] = queue.Queue(
            len(readers) * _BATCHES_PER_READER
        )
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(reader,), name=f"snapshot reader {number}", daemon=True)
            for number, reader in enumerate(readers)
        ]

    def batches(
        self, on_wait: Callable[[], None] = lambda: None, interrupt: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[int, Rows | None]]:
        """A table's number and some of its rows; None after the last.

        Args:
            on_wait: called while nothing arrives; may raise to give up.
            interrupt: ends what readers still wait for, when nobody wants more.

        Raises:
            BaseException: what a reader has met.
        """
        for thread in self._threads:
            thread.start()
        left = self._tables
        try:
            while left:
                try:
                    found = self._out.get(timeout=_WAIT_SECONDS)
                except queue.Empty:
                    on_wait()
                    continue
                if isinstance(found, BaseException):
                    raise found
                left -= found[1] is None
                yield found
        finally:
            self._stop.set()
            if left:
                interrupt()
            for thread in self._threads:
                thread.join(_END_SECONDS)

    def _run(self, reader: Callable[[], AbstractContextManager[Reader[Rows]]]) -> None:
        try:
            with reader() as read:
                while (number := self._next()) is not None:
                    for rows in read(number):
                        if not self._give((number, rows)):
                            return
                    self._give((number, None))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for rows, which raises it
            self._give(error)

    def _next(self) -> int | None:
        try:
            return None if self._stop.is_set() else self._todo.get_nowait()
        except queue.Empty:
            return None

    def _give(self, found: tuple[int, Rows | None] | BaseException) -> bool:
        while not self._stop.is_set():
            try:
                self._out.put(found, timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False
