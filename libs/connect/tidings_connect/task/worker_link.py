"""What a task's loop hears from its worker, and says to it, between batches and in every wait."""

import time
from collections.abc import Callable
from typing import Final

from tidings_connect.task.channel import Report
from tidings_connect.task.supervision import Supervision

_REPORT_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 8.0
"""How long the last work of a task that is to stop may take."""


class StopRequested(Exception):  # noqa: N818 - not an error
    """The worker asked the task to stop, or the time for its last work is over."""


class WorkerLink:
    """Args: report: says how the task is."""

    def __init__(self, supervision: Supervision, report: Callable[[], Report]) -> None:
        self._supervision, self._made = supervision, report
        self._deadline: float | None = None
        self._next_report = 0.0

    def listen(self) -> None:
        """Hear whether to go on, and report when it is time.

        Raises:
            StopRequested: the worker said stop, or, after `ending`, the time is over.
        """
        now = time.monotonic()
        if self._deadline is not None:
            if now > self._deadline:
                raise StopRequested("Kafka did not acknowledge everything in time")
        elif self._supervision.stop_requested():
            raise StopRequested
        if now >= self._next_report:
            self.report()

    def ending(self) -> None:
        """The task does its last work: from now on only time ends it."""
        self._deadline = time.monotonic() + _STOP_SECONDS

    def report(self) -> None:
        """Report now."""
        self._next_report = time.monotonic() + _REPORT_SECONDS
        self._supervision.report(self._made())
