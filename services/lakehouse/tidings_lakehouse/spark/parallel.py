"""Several tables at once: while one waits for the catalog or for its plan, another one's tasks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tidings_lakehouse.spark.session import use_in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Threads that do the same for several topics; made when there is more than one.

    Args:
        most: threads; as many cores as Spark has, and two more that plan, are of use.
    """

    def __init__(self, session: SparkSession, most: int | None = None) -> None:
        self._most = session.sparkContext.defaultParallelism + 2 if most is None else most
        self._pool: ThreadPoolExecutor | None = None

    def each(self, session: SparkSession, items: Iterable[T], action: Callable[[T], R]) -> list[R]:
        """Do something for every item; gives the results in the items' order.

        Everything that has begun is ended before an error is raised, which is that of the first item with one.
        """
        todo = list(items)
        if len(todo) < 2 or self._most < 2:
            return [action(item) for item in todo]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="tidings-tables")

        def act(item: T) -> R:
            use_in_thread(session)
            return action(item)

        futures = [self._pool.submit(act, item) for item in todo]
        errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None:
                raise error
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
