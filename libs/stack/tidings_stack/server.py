"""What all servers of the stack have in common: a directory, a log, a guard, and a life of start, stop, kill, start.

A server keeps its ports and its data until `close`, so a test may stop or kill it and start it again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tidings_jvm import Progress, records_classes
from tidings_stack.errors import ServerStartError
from tidings_stack.guarding.guarded import GuardedProcess
from tidings_stack.ports import PortReservations

LOG_LINES_IN_AN_ERROR = 15
RECORDING_SECONDS = 120.0


@dataclass(frozen=True)
class Place:
    """Where a stack's servers live: the stack's directory, its ports, whether data is kept at the end."""

    directory: Path
    ports: PortReservations
    progress: Progress
    keep: bool = False
    keep_open: tuple[int, ...] = field(default=())


class Server(ABC):
    """One server process under a guard."""

    name: ClassVar[str]
    title: str
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL
    stop_seconds: ClassVar[float] = 20.0
    start_seconds: ClassVar[float] = 90.0

    def __init__(self, place: Place, name: str | None = None) -> None:
        self.place = place
        self.directory = place.directory / (name or self.name)
        self.log = self.directory / "server.log"
        self._guarded: GuardedProcess | None = None
        self._prepared = False
        self._state = threading.Lock()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create configuration and data, the first time. The directory exists."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether the server serves its clients."""

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _user(self) -> tuple[int, int] | None:
        """The (uid, gid) to run as, or None for the owner's."""
        return None

    def _after_start(self) -> None:  # noqa: B027 (most servers need nothing)
        """Do what needs a running server, at every start."""

    @property
    def pid(self) -> int | None:
        """The server's process id, or None when it does not run."""
        return None if self._guarded is None else self._guarded.status().pid

    @property
    def guard_pid(self) -> int | None:
        """The guard's process id, or None before the first start and after `close`."""
        return None if self._guarded is None else self._guarded.guard_pid

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self.pid is not None

    def start(self) -> None:
        """Start the server and return when it is ready; nothing happens when it runs. Raises ServerStartError."""
        with self._state:
            if self.running:
                return
            if not self._prepared:
                self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._prepare()
                self._prepared = True
            self._guard().start(
                self._command(),
                environment=self._environment(),
                directory=self.directory,
                log=self.log,
                user=self._user(),
            )
            self._wait_until_ready()
            self._after_start()

    def stop(self) -> None:
        """Stop the server gracefully; data and ports stay."""
        if self._guarded is not None:
            self._guarded.stop(self.stop_seconds)

    def kill(self) -> None:
        """SIGKILL the server, as a crash would; data and ports stay."""
        if self._guarded is not None:
            self._guarded.kill()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server for good and remove its data (unless the stack keeps it). May be called again."""
        guarded, self._guarded = self._guarded, None
        self._prepared = False
        if guarded is not None:
            if records_classes():
                guarded.stop(RECORDING_SECONDS)  # the guard alone would not wait so long
            guarded.close()

    def log_tail(self, lines: int = LOG_LINES_IN_AN_ERROR) -> str:
        """Return the last lines of the server's log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        return ""

    def _guard(self) -> GuardedProcess:
        if self._guarded is None:
            self._guarded = GuardedProcess(
                directories=[] if self.place.keep else [self.directory],
                stop_signal=self.stop_signal,
                death_signal=self.death_signal,
                keep_open=self.place.keep_open,
            )
        return self._guarded

    def _run_tool(self, command: Sequence[str], what: str) -> None:
        """Run a command to its end under the guard, so that it does not outlive the owner either."""
        guard = self._guard()
        guard.start(
            command,
            environment=self._environment(),
            directory=self.directory,
            log=self.log,
            user=self._user(),
        )
        if not wait_for(lambda: guard.status().pid is None, self.start_seconds):
            guard.kill()
        if guard.status().exit != 0:
            raise ServerStartError(f"{what}:\n{self.log_tail()}")

    def _wait_until_ready(self) -> None:
        assert self._guarded is not None
        deadline = time.monotonic() + self.start_seconds
        while not self._is_ready():
            status = self._guarded.status()
            if status.pid is None:
                raise ServerStartError(
                    f"{self.title} ended with code {status.exit} while starting:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self._guarded.kill()
                raise ServerStartError(
                    f"{self.title} was not ready after {self.start_seconds:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.05)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll `condition` until it holds; whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
