"""Says when a table's small files are put together, between two times that it is looked after (`maintenance`).

That is done as often as it is cheap: by one thread, for a tenth of its time. A reader then finds few files whatever the
batches are like.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from tidings_lakehouse.spark.small_files import SmallFiles
from tidings_lakehouse.tables.commits import Commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 0.1
"""The part of the time that it takes at most: with many tables, each one's turn comes later."""
_FEWEST: Final = 2
"""Files that are put together."""


class Joining:
    """Counts the commits to tables, and puts a table's small files together when there have been some.

    Args:
        commits: after how many; 0: never.
    """

    def __init__(self, session: SparkSession, guard: Commits, commits: int) -> None:
        self._guard = guard
        self._commits = commits
        self._files = SmallFiles(session)
        self._since: dict[str, int] = {}
        self._failed: set[str] = set()
        """Tables whose small files wait for the upkeep."""
        self._lock = threading.Lock()
        self._rested_at = 0.0

    def after(self, table: str, commits: int) -> None:
        """Note that a table has had so many more commits."""
        if self._commits:
            with self._lock:
                self._since[table] = self._since.get(table, 0) + commits

    def due(self) -> str | None:
        """The table that it is time for, of several the one with the most commits; none while this has had its share of the time."""
        if not self._commits or time.monotonic() < self._rested_at:
            return None
        with self._lock:
            counts = {table: count for table, count in self._since.items() if table not in self._failed}
        table = max(counts, key=counts.__getitem__, default=None)
        return table if table is not None and counts[table] >= self._commits else None

    def looked_after(self, table: str) -> None:
        """Note that a table has been looked after, and has no small files."""
        with self._lock:
            self._since[table] = 0
            self._failed.discard(table)

    def join(self, table: str) -> int:
        """Put a table's small files together now; gives how many there were. After an error they wait until the table is looked after.

        Raises:
            SecondWriterError: another job has written to the table.
        """
        began = time.monotonic()
        with self._lock:
            self._since[table] = 0
        least = max(_FEWEST, self._commits)
        try:
            return self._guard.looked_at(table, lambda held: self._files.put_together(held, least))
        except BaseException:
            with self._lock:
                self._failed.add(table)
            raise
        finally:
            ended = time.monotonic()
            self._rested_at = ended + (ended - began) * (1 / SHARE - 1)
