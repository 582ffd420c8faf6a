"""The process that tasks are forked from, which has loaded all that a task needs: so a task starts at once, and the pages of
modules are in memory once instead of once for each task.

A worker forks it before it has threads (`TaskForks.fork`); where that one has ended, or there was none, it is started as
``python -m tidings_connect.task.fork_server DESCRIPTOR``. The descriptor is a stream socket. The worker sends a byte for each
task, with two descriptors (SCM_RIGHTS): the task's standard input and output. Back come lines of JSON: ``{"pid":7}`` for a
task that was started, ``{"pid":7,"code":0}`` for one that has ended (negative: by that signal), ``{"error":"..."}`` for one that
could not be started. It ends with its worker, and its tasks end with it (`task.end_with_parent`).
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from typing import Any, Final, NoReturn

from tidings_connect.config.plugins import connectors
from tidings_connect.task import main as task
from tidings_connect.task import standard_streams
from tidings_service import stacks_on_signal

_STANDARD: Final = (0, 1, 2)


def preload() -> None:
    """Import what tasks need, so that they share its memory."""
    for connector in connectors().values():
        connector.preload()


def serve(end: socket.socket) -> None:
    """Fork a task for each byte that comes, until the worker is gone."""
    task.end_with_parent(os.getppid())
    task.name_process("tidings-tasks")
    stacks_on_signal()
    # Whoever stops the whole group or service means the worker, which then stops its tasks.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in _STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # What is here now is never garbage; looking at it would copy the pages that are shared.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(end, (woken, wake))


def _serve(end: socket.socket, pipe: tuple[int, int]) -> None:
    while True:
        readable, _, _ = select.select([end.fileno(), pipe[0]], [], [])
        if pipe[0] in readable:
            os.read(pipe[0], 65536)
            for answer in _ended():
                _tell(end, answer)
        if end.fileno() in readable:
            asked, descriptors, _, _ = socket.recv_fds(end, 1, 2)
            if not asked:
                return
            server = os.getpid()
            try:
                pid = os.fork()
            except OSError as error:
                _tell(end, {"error": str(error)})
            else:
                if pid == 0:
                    _run_task(end, pipe, descriptors, server)
                _tell(end, {"pid": pid})
            for descriptor in descriptors:
                os.close(descriptor)


def _ended() -> list[dict[str, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append({"pid": pid, "code": os.waitstatus_to_exitcode(status)})
    return found


def _tell(end: socket.socket, answer: dict[str, Any]) -> None:
    end.sendall(json.dumps(answer).encode() + b"\n")


def _run_task(end: socket.socket, pipe: tuple[int, int], descriptors: list[int], server: int) -> NoReturn:
    """What a task's process does from its first to its last moment; it must never get back into the loop."""
    code = 70  # EX_SOFTWARE
    try:
        task.end_with_parent(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end.close()
        standard_streams.keep()
        for standard, descriptor in zip(_STANDARD, descriptors, strict=False):
            os.dup2(descriptor, standard)
        for descriptor in (*pipe, *descriptors):
            os.close(descriptor)
        code = task.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else task.EXIT_FAILED
    except BaseException:  # noqa: BLE001 - printed: there is nobody left who could
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def main() -> int:
    """The command."""
    preload()
    with socket.socket(fileno=int(sys.argv[1])) as end:
        serve(end)
    return 0


if __name__ == "__main__":
    sys.exit(main())
