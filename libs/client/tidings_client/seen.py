"""What was handled already, kept across restarts: Kafka repeats to a reader what it had read and not yet committed.

An event is `add`ed after its handler has come back, so one whose handler was cut off comes again. To have an effect
exactly once, write the effect and the event's `key` in one transaction of your own database, and implement `Seen` on it.
"""

import sqlite3
import time
from datetime import timedelta
from pathlib import Path
from typing import Protocol


class Seen(Protocol):
    """A set of keys. Implement it on your own database to share it, or to write it together with your own data."""

    def __contains__(self, key: str) -> bool:
        """Whether the event of that key was handled."""

    def add(self, key: str) -> None:
        """It was. May be called again with the same key."""

    def close(self) -> None:
        """No more calls come."""


class MemorySeen:
    """Forgets with the process: for tests, and for readers to whom a repeat does no harm."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        self._keys.add(key)

    def close(self) -> None:
        """Nothing to do."""


class SqliteSeen:
    """In a file; survives the process's death, and of the machine's at most the last moments.

    Args:
        path: of the file; one for each consumer group.
        keep: how long keys are kept; None for ever. Kafka repeats what was not committed (seconds), but a reader that moves
            to another version or is set back by hand goes further.
    """

    def __init__(self, path: str | Path, *, keep: timedelta | None = None) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._keep_seconds = keep.total_seconds() if keep is not None else None
        self._pruned_at = 0.0
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = normal",
            "create table if not exists seen (key text primary key, at real not null) without rowid",
            "create index if not exists seen_at on seen (at)",
        ):
            self._connection.execute(statement)

    def __contains__(self, key: str) -> bool:
        return self._connection.execute("select 1 from seen where key = ?", (key,)).fetchone() is not None

    def add(self, key: str) -> None:
        now = time.time()
        self._connection.execute("insert or ignore into seen values (?, ?)", (key, now))
        if self._keep_seconds is not None and now - self._pruned_at > min(self._keep_seconds, 60.0):
            self._connection.execute("delete from seen where at < ?", (now - self._keep_seconds,))
            self._pruned_at = now

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
