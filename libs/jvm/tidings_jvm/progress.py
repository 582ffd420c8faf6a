"""Progress for people: bars on a terminal, plain lines elsewhere (CI logs), nothing when asked.

Every method may be called from any thread.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0


class Task(Protocol):
    """One thing that takes a while."""

    def advance(self, amount: int) -> None:
        """Say that `amount` more bytes are done."""


class Progress(Protocol):
    """Where progress is shown."""

    def say(self, text: str) -> None:
        """Show one line."""

    def task(self, description: str, total_bytes: int) -> contextlib.AbstractContextManager[Task]:
        """Show a task until the context ends."""


class SilentProgress:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def task(self, description: str, total_bytes: int) -> Iterator[Task]:
        """Do nothing for the time of the task."""
        yield _PlainTask(description, total_bytes, self.say)


class PlainProgress:
    """Writes a line when a task starts, every ten seconds, and when it ends."""

    def __init__(self, write: Callable[[str], None] | TextIO | None = None) -> None:
        self._write = write

    def say(self, text: str) -> None:
        """Write one line."""
        if callable(self._write):
            self._write(text)
        else:
            print(text, file=self._write or sys.stderr, flush=True)

    @contextlib.contextmanager
    def task(self, description: str, total_bytes: int) -> Iterator[Task]:
        """Write lines about a task."""
        self.say(f"{description} ({megabytes(total_bytes)})")
        yield _PlainTask(description, total_bytes, self.say)
        self.say(f"{description}: done")


class _PlainTask:
    def __init__(self, description: str, total: int, say: Callable[[str], None]) -> None:
        self._description = description
        self._total = total
        self._say = say
        self._done = 0
        self._last = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say(f"{self._description}: {megabytes(self._done)} of {megabytes(self._total)}")


class RichProgress:
    """Draws bars with rich while a task runs."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console  # noqa: PLC0415 (only where there is a terminal)

        self._console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        """Print one line above the bars."""
        self._console.print(text, highlight=False)

    @contextlib.contextmanager
    def task(self, description: str, total_bytes: int) -> Iterator[Task]:
        """Draw a bar."""
        from rich import progress  # noqa: PLC0415

        columns = (
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TimeElapsedColumn(),
        )
        with progress.Progress(*columns, console=self._console, transient=True) as bars:
            yield _RichTask(bars, bars.add_task(description, total=total_bytes or None))
        self.say(f"{description}: {megabytes(total_bytes)}, done")


class _RichTask:
    def __init__(self, bars: object, task_id: int) -> None:
        self._bars = bars
        self._task_id = task_id

    def advance(self, amount: int) -> None:
        self._bars.advance(self._task_id, amount)  # type: ignore[attr-defined] # rich is imported only when used


def default_progress(stream: TextIO | None = None) -> Progress:
    """Return bars when `stream` (standard error) is a terminal, else plain lines."""
    target = stream or sys.stderr
    return RichProgress() if target.isatty() and target is sys.stderr else PlainProgress(target)


def megabytes(size: int) -> str:
    """Return a size in bytes as people read it."""
    return f"{size / 1_000_000:.0f} MB" if size >= 10_000_000 else f"{size / 1_000_000:.1f} MB"
