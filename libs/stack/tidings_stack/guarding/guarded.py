"""The owner's side of a guard: start, stop, kill and watch one server process through `guard.py`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidings_stack.errors import StackError

GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Status:
    """`pid` while the server runs; `exit` is its last exit code (negative: a signal)."""

    pid: int | None
    exit: int | None


class GuardedProcess:
    """One server process and its guard.

    `directories` are removed when the owner closes or dies. `stop_signal` is the server's graceful one;
    `death_signal` is what the kernel sends to the server if the guard is killed.
    """

    def __init__(
        self,
        *,
        directories: Sequence[Path],
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
        keep_open: Sequence[int] = (),
    ) -> None:
        self._stop_signal = stop_signal
        self._death_signal = death_signal
        self._lock = threading.Lock()
        settings = {
            "directories": [str(directory) for directory in directories],
            "stop_signal": int(stop_signal),
            "owner": os.getpid(),
        }
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )

    @property
    def guard_pid(self) -> int:
        """The guard's own process id."""
        return self._guard.pid

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        log: Path,
        user: tuple[int, int] | None = None,
    ) -> int:
        """Start the server and return its process id. Raises StackError when the command cannot be run."""
        answer = self._ask(
            do="start",
            command=list(command),
            environment=dict(environment),
            directory=str(directory),
            log=str(log),
            user=user,
            death_signal=int(self._death_signal),
        )
        if "error" in answer:
            raise StackError(f"cannot start {Path(command[0]).name}: {answer['error']}")
        return int(answer["pid"])

    def stop(self, seconds: float = 20.0) -> int | None:
        """Ask the server to end, wait up to `seconds`, then kill it. Returns its exit code."""
        answer = self._ask(do="stop", signal=int(self._stop_signal), seconds=seconds)
        return None if answer["exit"] is None else int(answer["exit"])

    def kill(self) -> None:
        """SIGKILL the server with everything it started."""
        self._ask(do="kill")

    def status(self) -> Status:
        """Return whether the server runs."""
        answer = self._ask(do="status")
        return Status(pid=answer["pid"], exit=answer["exit"])

    def close(self) -> None:
        """Stop the server, remove its directories, and end the guard. May be called again."""
        if self._guard.poll() is None:
            try:
                self._ask(do="close")
            except StackError:
                self._guard.kill()
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # an unsent request to a guard that was killed
                    pipe.close()
        self._guard.wait()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        with self._lock:
            try:
                self._guard.stdin.write(json.dumps(request).encode() + b"\n")
                self._guard.stdin.flush()
                line = self._guard.stdout.readline()
            except (OSError, ValueError) as error:
                raise StackError("the server's guard process is gone, and the server with it") from error
        if not line:
            raise StackError("the server's guard process is gone, and the server with it")
        answer: dict[str, Any] = json.loads(line)
        return answer
