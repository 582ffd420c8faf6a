"""The services as processes of their own, with their logs in files; they die with their owner, however it ends."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidings_stack.errors import PipelineError, StackError
from tidings_stack.guarding.guarded import GuardedProcess
from tidings_stack.pipeline import pages

_TAIL_LINES = 15
_STOP_SECONDS = 15.0


class Service:
    """One service's process.

    Args:
        name: what people call it.
        command: an installed command and its arguments.
        environment: variables of the process.
        url: where its /metrics and /readyz are.
        directory: its working directory; the log is ``<directory>/logs/<name>.log``.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str], url: str, directory: Path
    ) -> None:
        self.name = name
        self.url = url
        self.log = directory / "logs" / f"{name}.log"
        self._command = [installed(command[0]), *command[1:]]
        self._environment = dict(environment)
        self._directory = directory
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start the process.

        Raises:
            PipelineError: when the command cannot be run.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)  # of an earlier run in the same directory
        self._process = GuardedProcess(directories=[])
        try:
            self._process.start(
                self._command, environment=self._environment, directory=self._directory, log=self.log
            )
        except StackError as error:
            raise PipelineError(f"{self.name} could not be started: {error}") from error

    @property
    def started(self) -> bool:
        """Whether it has been started and not been stopped by us."""
        return self._process is not None

    def is_ready(self) -> bool:
        """Whether it says that it is connected and consuming."""
        return self.started and pages.is_ready(self.url)

    def check(self) -> None:
        """Raise when the process has ended although nobody stopped it.

        Raises:
            PipelineError: with the last lines of its log.
        """
        if self._process is None:
            return
        try:
            status = self._process.status()
        except StackError as error:
            raise PipelineError(f"{self.name} is gone: {error}\n{self.tail()}") from error
        if status.pid is None:
            raise PipelineError(
                f"{self.name} ended with code {status.exit}; the end of its log:\n{self.tail()}"
            )

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return None if self._process is None else self._process.status().pid

    def kill(self) -> None:
        """SIGKILL it, with everything it started, and forget it; `start` starts it anew."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.close()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines of its log."""
        try:
            return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after a while; nothing when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            try:
                process.stop(_STOP_SECONDS)
            except StackError:  # its guard is gone, and it with the guard
                return
            finally:
                process.close()


def installed(command: str) -> str:
    """The command beside this Python, which need not be on the PATH."""
    beside = Path(sys.executable).with_name(command)
    found = str(beside) if beside.exists() else shutil.which(command)
    if found is None:
        raise PipelineError(f"the command {command} is not installed", hint="make install")
    return found
