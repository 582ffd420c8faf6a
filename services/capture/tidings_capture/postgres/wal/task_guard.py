"""What a task does at the guard's levels (`guard`): no snapshots from 2 on, and from 3 on nothing but the stream.

The guard tells the task its level with a command of the kind `GUARD_LEVEL`.
"""

import time
from typing import Final

from tidings_capture.postgres.errors import GuardError
from tidings_capture.postgres.offsets.progress import TaskProgress

_STOP_SNAPSHOTS: Final = 2
_PAUSE: Final = 3
_PATIENCE_SECONDS: Final = 60.0
"""How long a snapshot that began at the level may be read before it is interrupted again."""


class TaskGuard:
    """A task's view of the guard."""

    def __init__(self, progress: TaskProgress) -> None:
        self.level = 0
        """The guard's; 0: all is well."""
        self._progress = progress
        self._began: float | None = None
        self._level_then = 0

    @property
    def no_snapshots(self) -> bool:
        return self.level >= _STOP_SNAPSHOTS

    @property
    def stream_only(self) -> bool:
        return self.level >= _PAUSE

    def check(self) -> None:
        """Called again and again.

        Raises:
            GuardError: a snapshot is being read and has to end. The next attempt first streams what has gathered, which
                is what the slot needs, and goes on with the tables that are left.
        """
        if self._progress.state != "snapshot":
            self._began = None
            return
        if self._began is None:
            self._began, self._level_then = time.monotonic(), self.level
        patient = self._level_then >= _STOP_SNAPSHOTS and time.monotonic() - self._began < _PATIENCE_SECONDS
        if self.no_snapshots and not patient:
            raise GuardError(
                "the snapshot was interrupted: the slot retains more WAL than tidings.wal.guard.stop.snapshots allows",
                hint="what has gathered is streamed first; then the snapshot goes on",
            )
