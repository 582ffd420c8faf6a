"""The supervisor's side of one task: a process, its job down one pipe, its reports up another."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from tidings_capture.task_channel import (
    STOP,
    Failure,
    Report,
    Request,
    TaskJob,
    decode_report,
    encode_job,
    encode_request,
)
from tidings_capture.task_forks import ForkedTask, TaskForks


class TaskProcess:
    """One run of a task in a process of its own.

    Args:
        forks: starts the process.
        on_report: called on the event loop for every report.
    """

    def __init__(self, job: TaskJob, forks: TaskForks, on_report: Callable[[Report], None]) -> None:
        self._job = job
        self._forks = forks
        self._on_report = on_report
        self._process: ForkedTask | None = None
        self.failure: Failure | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self) -> int:
        """Start the process and follow it to its end; its exit code.

        Raises:
            OSError: it could not be started.
        """
        # Nothing secret in arguments or environment: everybody on the machine can read those.
        process = self._process = await self._forks.start()
        try:
            process.stdin.write(encode_job(self._job) + b"\n")
            async for line in process.stdout:
                self._take(line)
            return await process.wait()
        finally:
            process.kill()
            await process.wait()
            process.close()

    def signal(self, text: str) -> bool:
        """Hand a signal on; False when no process listens."""
        return self._tell(Request(signal=text))

    def tell_guard(self, level: int) -> bool:
        """Hand the guard's level on; False when no process listens."""
        return self._tell(Request(guard=level))

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
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            process.kill()

    def _take(self, line: bytes) -> None:
        try:
            report = decode_report(line)
        except msgspec.DecodeError as error:
            self.failure = Failure(
                "task_channel", f"a task's report is malformed: {error}", "timed", None, ""
            )
            return
        if report.failure is not None:
            self.failure = report.failure
        self._on_report(report)
