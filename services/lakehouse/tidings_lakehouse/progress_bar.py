"""How far a backlog is read: a bar on a terminal, log lines where there is none."""

from __future__ import annotations

import sys
import time
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tidings_service import get_logger

_LOG = get_logger("tidings_lakehouse.progress")
_EVERY_SECONDS: Final = 30.0
_WORTH_TELLING: Final = 10_000
"""Records: a job that keeps up has fewer to read."""


class Backlog:
    """Tells how many records are left.

    Args:
        console: a terminal, or None for log lines.
    """

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._most = 0
        self._began = self._told_at = 0.0

    @classmethod
    def of_process(cls, *, is_short: bool) -> Backlog:
        """On the terminal of a short run, if it has one; a job that goes on writes lines."""
        return cls(Console(stderr=True) if is_short and sys.stderr.isatty() else None)

    def left(self, records: int) -> None:
        """So many records have not been written yet."""
        now = time.monotonic()
        if not self._most:
            if records < _WORTH_TELLING:
                return
            self._most, self._began, self._told_at = records, now, now
            self._open()
        self._most = max(self._most, records)  # while it is read, more may come
        done = self._most - records
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=self._most)
        elif now - self._told_at >= _EVERY_SECONDS or not records:
            self._told_at = now
            rate = done / max(now - self._began, 0.001)
            _LOG.info(
                "reading a backlog" if records else "the backlog is read",
                left=records,
                written=done,
                percent=round(100 * done / self._most, 1),
                records_per_second=round(rate),
                seconds_left=round(records / rate) if rate and records else None,
            )
        if not records:
            self.close()

    def close(self) -> None:
        """Nothing more is told of this backlog."""
        self._most = 0
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self) -> None:
        if self._console is None:
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._bar.add_task("records", total=self._most)
        self._bar.start()
