"""The process around a task, as the task sees it."""

from typing import Protocol

from tidings_connect.task.channel import Report


class Supervision(Protocol):
    """The process around a task."""

    descriptor: int
    """Readable when there may be something to hear."""
    guard_level: int
    """How far the worker's guard has gone (`Companion`); 0: all is well."""

    def stop_requested(self) -> bool:
        """Whether the worker said stop, or is gone. Called often: it hears everything else, too."""
        ...

    def signals(self) -> list[str]:
        """Signals as JSON texts that came through the worker since the last call."""
        ...

    def report(self, report: Report) -> None:
        """Say how it is, at least once a second."""
        ...
