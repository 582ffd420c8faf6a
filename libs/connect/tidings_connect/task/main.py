"""The process of one connector task, forked from `task.fork_server` for the supervisor.

Reads its job from standard input, writes reports to standard output and logs to standard error (see `task.channel`).
It ends with its supervisor: the pipe's end asks it to stop, and where the system can do that (Linux) it is killed when
the supervisor dies. A supervisor that stands still is worse: others take over what it had. So a task has a lease, which the
supervisor renews as long as its group would not give the connector away, and without it the task ends at once, as if
killed: whatever it stored from then on could be older than what its successor has.
"""

import ctypes
import os
import select
import signal
import sys
import time
from typing import Final, NoReturn

from tidings_connect.config.plugins import connector_of
from tidings_connect.config.secrets import MASK
from tidings_connect.connector import Connector
from tidings_connect.errors import LeaseError, OptionError
from tidings_connect.kafka.clients import renew
from tidings_connect.limits import set_limits
from tidings_connect.log_levels import apply_levels
from tidings_connect.renewals import Renewal
from tidings_connect.task.channel import (
    Command,
    Failure,
    Report,
    TaskJob,
    decode_job,
    decode_request,
    encode_report,
)
from tidings_connect.task.kafka_transport import KafkaTransport
from tidings_connect.task.transport import TaskContext
from tidings_envelope.errors import EnvelopeError
from tidings_service import (
    TidingsError,
    configure_logging,
    get_logger,
    hide,
    hide_also,
    safe_trace,
    stacks_on_signal,
    without_secrets,
)

EXIT_FAILED: Final = 1
_STDIN: Final = 0
_STDOUT: Final = 1
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_LAST_WORD_SECONDS: Final = 10.0
"""How long a supervisor that reads nothing is waited for at the end."""


class Pipes:
    """Standard input and output, towards the supervisor; `descriptor`: what is read instead, for tests."""

    def __init__(self, descriptor: int = _STDIN) -> None:
        self.descriptor = descriptor
        self._stop = False
        self._buffer = b""
        self._commands: list[Command] = []
        self._lease: float | None = None
        self._unsent = b""

    def read_job(self) -> TaskJob:
        """The first line."""
        while b"\n" not in self._buffer:
            data = os.read(self.descriptor, 65536)
            if not data:
                raise SystemExit(0)  # the worker has changed its mind, or is gone
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        job = decode_job(line)
        self._commands = list(job.commands)
        self._lease = job.lease
        os.set_blocking(_STDOUT, False)
        self._take_lines()
        return job

    def stop_requested(self) -> bool:
        """Whether the supervisor said stop, or is gone."""
        while not self._stop and select.select([self.descriptor], [], [], 0)[0]:
            data = os.read(self.descriptor, 65536)
            self._stop = not data
            self._buffer += data
            self._take_lines()
        # After all that was said: this process may have been the one that stood still.
        if self._lease is not None and time.monotonic() > self._lease:
            self._end_without_lease()
        return self._stop

    def commands(self) -> list[Command]:
        """Commands that came since the last call; `stop_requested` hears them."""
        found, self._commands = self._commands, []
        return found

    def _take_lines(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            request = decode_request(line)
            if request.log_levels:
                apply_levels(request.log_levels)
            elif request.command is not None:
                self._commands.append(request.command)
            elif request.lease is not None:
                self._lease = request.lease
            elif request.renewals:
                _renew(request.renewals)
            else:
                self._stop = True

    def request_stop(self) -> None:
        self._stop = True

    def report(self, report: Report) -> None:
        """One line on standard output; when nobody reads any more, stop. Never waits: while the supervisor reads nothing,
        reports are left out, since each holds all that the one before it held."""
        if not self._unsent or self._write():
            self._unsent = encode_report(report) + b"\n"
            self._write()

    def last_report(self, report: Report) -> None:
        """Another line that is not left out, unless the supervisor reads nothing for a while."""
        self._unsent += encode_report(report) + b"\n"
        deadline = time.monotonic() + _LAST_WORD_SECONDS
        while not self._write() and (left := deadline - time.monotonic()) > 0:
            select.select([], [_STDOUT], [], left)

    def _write(self) -> bool:
        """Whether nothing is left to write."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(_STDOUT, self._unsent) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._stop, self._unsent = True, b""
        return True

    def _end_without_lease(self) -> NoReturn:
        error = LeaseError(
            "the worker has not renewed this task's lease within session.timeout.ms: it stands still, or is out of its group",
            hint="is the worker's process stopped, or its machine short of memory or processors?",
        )
        get_logger("tidings_capture.task").error(str(error), code=error.code, hint=error.hint)
        self.report(
            Report(state="failed", failure=Failure(error.code, str(error), str(error.retry), error.hint, ""))
        )
        sys.stderr.flush()
        os._exit(EXIT_FAILED)


def main() -> int:
    """Run the task; the exit code is 0 after a stop."""
    stacks_on_signal()
    pipes = Pipes()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the supervisor stops its tasks
    signal.signal(signal.SIGTERM, lambda _number, _frame: pipes.request_stop())
    job = pipes.read_job()
    name_process(f"task {job.connector}")
    configure_logging(
        "capture",
        level=job.log_level,
        format=job.log_format,  # type: ignore[arg-type]  # checked by the worker
        build_info=False,
    )
    apply_levels(job.log_levels)
    set_limits(job.limits)
    hide(job.hidden)
    _renew(job.renewals)
    log = get_logger("tidings_capture.task")
    try:
        _connector(job).run_task(TaskContext(job, pipes, KafkaTransport(job)))
    except (TidingsError, EnvelopeError) as error:
        failure = _failure(error.code, str(error), str(error.retry), error.hint, error)
        log.error(str(error), connector=job.connector, code=error.code, hint=error.hint)  # noqa: TRY400 - one line
    except Exception as error:
        failure = _failure("unexpected", type(error).__name__, "manual", None, error)
        log.exception("the task stopped on an unexpected error", connector=job.connector)
    else:
        pipes.last_report(Report(state="stopped"))
        return 0
    pipes.last_report(Report(state="failed", failure=failure))
    return EXIT_FAILED


def _connector(job: TaskJob) -> Connector:
    found = connector_of(job.config)
    if found is None:
        raise OptionError(f"this worker has no connector {job.config.get('connector.class')}")
    return found


def _renew(renewals: list[Renewal]) -> None:
    hide_also({renewal.new: MASK for renewal in renewals})
    for renewal in renewals:
        renew(renewal)


def _failure(code: str, message: str, retry: str, hint: str | None, error: Exception) -> Failure:
    """What the status shows to everybody: without secrets, and without what others' exceptions say."""
    shown = None if hint is None else without_secrets(hint)
    return Failure(code, without_secrets(message), retry, shown, without_secrets(safe_trace(error)))


def end_with_parent(parent: int) -> None:
    """From now on this process is killed when its parent ends, where the system can do that (Linux).

    Args:
        parent: its process id, as it was when this process was forked.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)  # it ended before the call


def name_process(name: str) -> None:
    """What ``ps -o comm`` and ``top`` show, 15 bytes of it, where the system can do that (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15])
