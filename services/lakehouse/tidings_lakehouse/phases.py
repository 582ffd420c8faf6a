"""Where the time of a batch goes: its steps one after the other, and the tables that are written at the same time in one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidings_lakehouse.metrics import PHASE_SECONDS

_SLOWEST = 5
"""Tables that are named."""


class Phases:
    """Measures the batches of one stream, one after the other; `of_table` is for any thread.

    Args:
        stream: for the metric.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        self._at = time.monotonic()
        self._seconds: dict[str, float] = {}
        self._tables: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """A step has ended, and the next one begins."""
        now = time.monotonic()
        seconds, self._at = now - self._at, now
        self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
        PHASE_SECONDS.labels(self._stream, phase).inc(seconds)

    @contextmanager
    def of_table(self, table: str) -> Iterator[None]:
        """A table is written, while others may be, too."""
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._tables[table] = self._tables.get(table, 0.0) + time.monotonic() - began

    def told(self) -> dict[str, dict[str, float]]:
        """Seconds of each step, in their order, and of the slowest tables."""
        with self._lock:
            slowest = sorted(self._tables.items(), key=lambda one: one[1], reverse=True)[:_SLOWEST]
        return {
            "phases": {name: round(seconds, 3) for name, seconds in self._seconds.items()},
            "slowest": {name: round(seconds, 3) for name, seconds in slowest},
        }
