"""The process of one connector task: ``python -m tidings_capture.task``, started by the supervisor.

Reads its job from standard input, writes reports to standard output and logs to standard error (see `task_channel`).
It ends with its supervisor: the pipe's end asks it to stop, and where the system can do that (Linux) it is killed when
the supervisor dies.
"""

import ctypes
import os
import select
import signal
import sys
import traceback
import uuid
from typing import Final

from tidings_capture.connector_config import read_connector_config
from tidings_capture.log_levels import apply_levels
from tidings_capture.signals import Signal, signal_of_json
from tidings_capture.task_channel import Failure, Report, TaskJob, decode_job, decode_request, encode_report
from tidings_capture.task_run import TaskRun
from tidings_envelope.errors import EnvelopeError
from tidings_service import TidingsError, configure_logging, get_logger, stacks_on_signal

EXIT_FAILED: Final = 1
_PR_SET_PDEATHSIG: Final = 1


class Pipes:
    """Standard input and output, towards the supervisor."""

    def __init__(self) -> None:
        self.descriptor = sys.stdin.fileno()
        self._stop = False
        self._buffer = b""
        self._signals: list[Signal] = []
        self.guard_level = 0

    def read_job(self) -> TaskJob:
        """The first line."""
        while b"\n" not in self._buffer:
            data = os.read(self.descriptor, 65536)
            if not data:
                raise SystemExit("tidings_capture.task is started by tidings-capture")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        job = decode_job(line)
        self.guard_level = job.guard_level
        self._take_lines()
        return job

    def stop_requested(self) -> bool:
        """Whether the supervisor said stop, or is gone."""
        if not self._stop:
            ready, _, _ = select.select([self.descriptor], [], [], 0)
            if ready:
                data = os.read(self.descriptor, 65536)
                self._stop = not data
                self._buffer += data
                self._take_lines()
        return self._stop

    def signals(self) -> list[Signal]:
        """Signals that came since the last call; `stop_requested` hears them."""
        found, self._signals = self._signals, []
        return found

    def _take_lines(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            request = decode_request(line)
            if request.log_levels:
                apply_levels(request.log_levels)
            elif request.guard is not None:
                self.guard_level = request.guard
            elif request.signal is None:
                self._stop = True
            elif (made := signal_of_json(request.signal)) is not None:
                self._signals.append(made)

    def request_stop(self) -> None:
        self._stop = True

    def report(self, report: Report) -> None:
        """One line on standard output; when nobody reads any more, stop."""
        try:
            os.write(sys.stdout.fileno(), encode_report(report) + b"\n")
        except BrokenPipeError:
            self._stop = True


def main() -> int:
    """Run the task; the exit code is 0 after a stop."""
    _die_with_parent()
    stacks_on_signal()
    pipes = Pipes()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the supervisor stops its tasks
    signal.signal(signal.SIGTERM, lambda _number, _frame: pipes.request_stop())
    job = pipes.read_job()
    configure_logging(
        "capture",
        level=job.log_level,
        format=job.log_format,  # type: ignore[arg-type]  # checked by the worker
        build_info=False,
    )
    apply_levels(job.log_levels)
    log = get_logger("tidings_capture.task")
    try:
        config = read_connector_config(
            job.connector, job.config, job.converters, run_id=str(uuid.uuid4()), task=job.task
        )
        TaskRun(job, config, pipes).run()
    except (TidingsError, EnvelopeError) as error:
        failure = Failure(error.code, str(error), str(error.retry), error.hint, traceback.format_exc())
        log.error(str(error), connector=job.connector, code=error.code, hint=error.hint)  # noqa: TRY400 - one line
    except Exception as error:
        failure = Failure("unexpected", type(error).__name__, "manual", None, traceback.format_exc())
        log.exception("the task stopped on an unexpected error", connector=job.connector)
    else:
        pipes.report(Report(state="stopped"))
        return 0
    pipes.report(Report(state="failed", failure=failure))
    return EXIT_FAILED


def _die_with_parent() -> None:
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)  # it died before the call


if __name__ == "__main__":
    sys.exit(main())
