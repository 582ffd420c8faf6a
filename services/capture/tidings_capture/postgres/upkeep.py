"""What has to happen while a task works or waits: it hears the worker, reports, and keeps the server content."""

import time
from collections.abc import Callable
from typing import Final, NoReturn

from tidings_capture.cdc.signals.channels import Signal, signal_of_json
from tidings_capture.postgres.streaming.slot_feedback import SlotFeedback
from tidings_capture.postgres.wal.options import GUARD_LEVEL
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_connect.task.channel import SIGNAL, Report
from tidings_connect.task.supervision import Supervision
from tidings_connect.task.worker_link import WorkerLink

_SLICE_SECONDS: Final = 0.1


class Upkeep:
    """Args: report: says how the task is."""

    def __init__(
        self,
        supervision: Supervision,
        guard: TaskGuard,
        feedback: SlotFeedback,
        report: Callable[[], Report],
    ) -> None:
        self._supervision = supervision
        self._guard = guard
        self._feedback = feedback
        self._link = WorkerLink(supervision, report)
        self._signals: list[Signal] = []
        self.report = self._link.report
        self.ending = self._link.ending
        self.descriptor = supervision.descriptor
        """Readable when there may be something to hear."""

    def begin(self) -> None:
        """Hear what stands already, and report for the first time."""
        self._hear()
        self.report()

    def breathe(self) -> None:
        """Called between batches and in every wait.

        Raises:
            StopRequested: the task is to stop, or the time for its last work is over.
            GuardError: a snapshot has to end.
        """
        self._link.listen()
        self._hear()
        if not self._feedback.streaming:  # while it streams up to a snapshot, the slot moves on
            self._guard.check()
        self._feedback.keep()

    def signals(self) -> list[Signal]:
        """Signals that came through the worker since the last call."""
        found, self._signals = self._signals, []
        return found

    def pause(self, seconds: float) -> None:
        """Wait so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.breathe()
            time.sleep(min(left, _SLICE_SECONDS))

    def idle(self) -> NoReturn:
        """Wait until the task is to stop."""
        self.report()
        while True:
            self.pause(1.0)

    def _hear(self) -> None:
        """Take the guard's level, and signals; what is not one is left out."""
        for command in self._supervision.commands():
            if command.kind == GUARD_LEVEL:
                self._guard.level = int(command.body)
            elif command.kind == SIGNAL and (signal := signal_of_json(command.body)) is not None:
                self._signals.append(signal)
