"""The supervisor's side of one task: a process, its job down one pipe, its reports up another."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from tidings_connect.errors import ReportError, SilentTaskError
from tidings_connect.renewals import Renewal
from tidings_connect.task.channel import (
    STOP,
    Command,
    Failure,
    Report,
    Request,
    TaskJob,
    decode_report,
    encode_job,
    encode_request,
)
from tidings_connect.task.forks import ForkedTask, TaskForks
from tidings_service import get_logger

_SLICE_SECONDS: Final = 1.0
_STACKS_SECONDS: Final = 0.2
"""For a process to write where it stands before it is killed."""

T = TypeVar("T")

_log = get_logger(__name__)


class TaskProcess:
    """One run of a task in a process of its own.

    Args:
        forks: starts the process.
        on_report: called on the event loop for every report.
        on_silence: called when it has said nothing for so long that it is killed, before it is: the kernel may take its
            time for that.
        silence_seconds: how long it may say nothing; 0: for ever.
    """

    def __init__(
        self,
        job: TaskJob,
        forks: TaskForks,
        on_report: Callable[[Report], None],
        on_silence: Callable[[SilentTaskError], None],
        silence_seconds: float,
    ) -> None:
        self._job = job
        self._forks = forks
        self._on_report = on_report
        self._on_silence = on_silence
        self._silence_seconds = silence_seconds
        self._heard_at: float | None = None
        self._process: ForkedTask | None = None
        self.failure: Failure | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def report_age_seconds(self) -> float | None:
        """Since when it has said nothing; None while no process runs."""
        process = self._process
        if process is None or process.returncode is not None or self._heard_at is None:
            return None
        return time.monotonic() - self._heard_at

    async def run(self) -> int:
        """Start the process and follow it to its end; its exit code.

        Raises:
            OSError: it could not be started.
            SilentTaskError: it has said nothing for too long, and was killed.
            ReportError: what it says cannot be understood; it was killed.
        """
        # Nothing secret in arguments or environment: everybody on the machine can read those.
        process = self._process = await self._in_time(
            self._forks.start(), "the task's process has not been started"
        )
        self._heard_at = time.monotonic()
        try:
            process.stdin.write(encode_job(self._job) + b"\n")
            async for line in self._lines(process):
                self._take(line)
            return await self._in_time(
                process.wait(), "the task's process says nothing any more, and how it ended is not known"
            )
        except SilentTaskError as error:
            self._on_silence(error)
            await self._tell_stacks(process)
            raise
        finally:
            process.kill()
            await process.wait()
            process.close()

    async def _lines(self, process: ForkedTask) -> AsyncIterator[bytes]:
        """What it says, line by line, to the end of the pipe.

        Raises:
            SilentTaskError: nothing for too long. Counted in slices, so that a worker that stood still itself does not
                take its tasks for silent.
        """
        longest = self._silence_seconds
        slice_seconds = min(_SLICE_SECONDS, longest / 4) if longest else _SLICE_SECONDS
        silent = 0.0
        while True:
            try:
                async with asyncio.timeout(slice_seconds):
                    line = await process.stdout.readline()
            except TimeoutError:
                silent += slice_seconds
                if longest and silent >= longest:
                    raise SilentTaskError(
                        f"the task's process has not reported for {silent:.0f} seconds",
                        hint="the log has where it stood (its stacks); tidings.task.report.timeout.ms in the worker's"
                        " properties says how long it may be silent",
                    ) from None
                continue
            if not line:
                return
            silent, self._heard_at = 0.0, time.monotonic()
            yield line

    async def _in_time(self, answer: Awaitable[T], what: str) -> T:
        """What the process that tasks are forked from says, which may stand still like any other."""
        try:
            async with asyncio.timeout(self._silence_seconds or None):
                return await answer
        except TimeoutError:
            raise SilentTaskError(
                f"{what} within {self._silence_seconds:.0f} seconds",
                hint="does the process tidings-tasks stand still, or has the machine too little memory?",
            ) from None

    async def _tell_stacks(self, process: ForkedTask) -> None:
        """Have it write where its threads stand, if it can."""
        _log.error("a task's process is silent and is killed", connector=self._job.connector, pid=process.pid)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGUSR1)
            await asyncio.sleep(_STACKS_SECONDS)

    def command(self, command: Command) -> bool:
        """Hand a command on; False when no process listens."""
        return self._tell(Request(command=command))

    def renew(self, renewals: list[Renewal]) -> bool:
        """Hand passwords on that have changed; False when no process listens."""
        return self._tell(Request(renewals=renewals))

    def renew_lease(self, until: float) -> None:
        """Let the process run until then, if one listens."""
        self._tell(Request(lease=until))

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        """Tell the process of new log levels, if one listens."""
        self._tell(Request(log_levels=dict(levels)))

    def _tell(self, request: Request) -> bool:
        process = self._process
        if process is None or process.returncode is not None or process.stdin.is_closing():
            return False
        process.stdin.write(encode_request(request) + b"\n")
        return True

    async def stop(self, seconds: float) -> None:
        """Ask the process to end, and kill it when it has not after `seconds`."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if not process.stdin.is_closing():
            process.stdin.write(STOP)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            process.kill()

    def _take(self, line: bytes) -> None:
        try:
            report = decode_report(line)
        except msgspec.DecodeError as error:
            raise ReportError(f"a task's report is malformed: {error}") from error
        if report.failure is not None:
            self.failure = report.failure
        self._on_report(report)
