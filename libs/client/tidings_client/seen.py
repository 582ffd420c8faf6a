"""What was handled already, kept across restarts: Kafka repeats to a reader what it had read and not yet committed.

An event is `add`ed after its handler has come back, so one whose handler was cut off comes again. To have an effect
exactly once, write the effect and the event's `key` in one transaction of your own database, and implement `Seen` on it.

The sets here forget what is old, so that they do not grow for ever. How long they must remember depends on how far back a
reader can be set. Kafka itself repeats what was read within the last commit's second or so. A group that had no member
for a week (`offsets.retention.minutes`) is forgotten and begins at the topic's start, as one that is set back by hand may;
a topic of business events is kept for ever. A repeat of an event whose key was forgotten is handled as a new one: its
effect happens twice. So give `keep` and `most` what covers the furthest you would go back.
"""

import sqlite3
import time
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

_PRUNED_SECONDS: Final = 60.0
_AT_ONCE: Final = 10_000
"""Keys that are forgotten in one go at most: a handler waits meanwhile."""


class Seen(Protocol):
    """A set of keys. Implement it on your own database to share it, or to write it together with your own data."""

    def __contains__(self, key: str) -> bool:
        """Whether the event of that key was handled."""

    def add(self, key: str) -> None:
        """It was. May be called again with the same key."""

    def close(self) -> None:
        """No more calls come."""


class MemorySeen:
    """Forgets with the process: for tests, and for readers to whom a repeat does no harm.

    Args:
        most: how many keys are kept, the newest; 250,000 take about 40 MB. Within one process Kafka repeats what came since
            the last commit, a second or so: this is enough for 100,000 events a second.
    """

    def __init__(self, *, most: int = 250_000) -> None:
        self._most = _positive(most)
        self._keys: set[str] = set()
        self._order: deque[str] = deque()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        if key in self._keys:
            return
        self._keys.add(key)
        self._order.append(key)
        if len(self._order) > self._most:
            self._keys.discard(self._order.popleft())

    def close(self) -> None:
        """Nothing to do."""


class SqliteSeen:
    """In a file; survives the process's death, and of the machine's at most the last moments.

    Args:
        path: of the file; one for each consumer group.
        keep: how long a key is kept after its event was handled; None for ever. The default, 90 days, is far more than the
            week after which Kafka forgets a group that nobody runs.
        most: how many keys are kept, the newest; None for any number. Ten million take about 1.5 GB.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keep: timedelta | None = timedelta(days=90),
        most: int | None = 10_000_000,
    ) -> None:
        self._most = None if most is None else _positive(most)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._keep_seconds = keep.total_seconds() if keep is not None else None
        self._look_at = 0.0
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = normal",
            "create table if not exists seen (key text primary key, at real not null) without rowid",
            "create index if not exists seen_at on seen (at)",
        ):
            self._connection.execute(statement)
        self._count = int(self._connection.execute("select count(*) from seen").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        return self._connection.execute("select 1 from seen where key = ?", (key,)).fetchone() is not None

    def add(self, key: str) -> None:
        now = time.time()
        self._count += self._connection.execute(
            "insert or ignore into seen values (?, ?)", (key, now)
        ).rowcount
        if self._most is not None and self._count > self._most + min(self._most // 10, _AT_ONCE):
            self._forget(
                "select key from seen order by at limit ?", (min(self._count - self._most, _AT_ONCE),)
            )
        if self._keep_seconds is not None and now >= self._look_at:
            gone = self._forget(
                "select key from seen where at < ? order by at limit ?", (now - self._keep_seconds, _AT_ONCE)
            )
            self._look_at = now if gone == _AT_ONCE else now + min(self._keep_seconds, _PRUNED_SECONDS)

    def _forget(self, which: str, values: tuple[float, ...]) -> int:
        gone = self._connection.execute(f"delete from seen where key in ({which})", values).rowcount  # noqa: S608 - ours
        self._count -= gone
        return gone

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _positive(most: int) -> int:
    if most < 1:
        raise ValueError("most must be at least 1")
    return most
