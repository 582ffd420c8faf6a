"""Threads for what blocks, a pool for each purpose: who waits for a server that does not answer keeps no other purpose waiting.

asyncio's own pool is one for everything, and has as few threads as six on a small machine: as many databases that take a
connection and say nothing would stop the storage topics, ``/metrics`` and the guard with them. These are daemon threads, so that
one that hangs does not keep the process from ending (`concurrent.futures` waits for its own when Python ends).
"""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_Work = tuple[Future[Any], Callable[[], Any]]


class Threads(Executor):
    """Up to so many threads, which are started when they are needed.

    Args:
        purpose: their name, for people who look at the process.
        most: how many at a time; further work waits.
    """

    def __init__(self, purpose: str, most: int) -> None:
        self._purpose = purpose
        self._most = most
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0
        """Given and not done."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As every executor."""
        future: Future[T] = Future()
        with self._lock:
            self._unfinished += 1
            starts = self._started < min(self._unfinished, self._most)
            self._started += starts
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if starts:
            threading.Thread(target=self._run, name=self._purpose, daemon=True).start()
        return future

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns, from a thread; who gives up waiting does not stop the function."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let the threads end once they have done what they were given; never waits."""
        del wait, cancel_futures
        with self._lock:
            started = self._started
        for _ in range(started):
            self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, call = item
            del item
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, call  # else an idle thread keeps alive what it has made
            with self._lock:
                self._unfinished -= 1


class Places:
    """Lets only some wait for the same server at a time, so that one that hangs leaves threads to the others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limits: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def at(self, place: str) -> AsyncIterator[None]:
        """Waits for a turn at the place."""
        limit, users = self._limits.get(place) or (asyncio.Semaphore(self._most), 0)
        self._limits[place] = limit, users + 1
        try:
            async with limit:
                yield
        finally:
            limit, users = self._limits.pop(place)
            if users > 1:
                self._limits[place] = limit, users - 1


STORAGE: Final = Threads("storage", 8)
"""The config and status topics."""
GROUP: Final = Threads("group", 4)
"""Membership and assignment."""
OFFSETS: Final = Threads("offsets", 4)
"""The offsets topic, on behalf of REST."""
VALIDATION: Final = Threads("validation", 16)
"""Checks of configurations, which ask the databases that they name."""
TASKS: Final = Threads("tasks", 8)
"""What a task is started with: its configuration with its secrets."""
FENCING: Final = Threads("fencing", 4)
"""Former tasks' transactional ids, taken over before new tasks start."""
