"""The process around a task, as the task sees it."""

from typing import Protocol

from tidings_connect.task.channel import Command, Report


class Supervision(Protocol):
    """The process around a task."""

    descriptor: int
    """Readable when there may be something to hear."""

    def stop_requested(self) -> bool:
        """Whether the worker said stop, or is gone. Called often: it hears everything else, too."""
        ...

    def commands(self) -> list[Command]:
        """Commands that came through the worker since the last call, the oldest first; those that stood when the task began
        come with the first call."""
        ...

    def report(self, report: Report) -> None:
        """Say how it is, at least once a second."""
        ...
