"""The two stages as processes, and waiting for what they have done."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidings_stack.waiting import pause_after

TESTS = Path(__file__).parent.parent
T = TypeVar("T")


class StageProcess:
    """`tidings-sequencer` or `tidings-translator`; a context manager that leaves nothing running."""

    def __init__(self, stage: str, log: Path, **settings: str) -> None:
        self.stage = stage
        self.log = log
        self.settings = settings
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")
        } | {
            "PYTHONPATH": str(TESTS),
            "TIDINGS_DOMAIN": "bikes",
            "TIDINGS_HTTP_PORT": "0",
            "TIDINGS_LOG_FORMAT": "json",
            "TIDINGS_SESSION_TIMEOUT_SECONDS": "6",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **changes: str) -> Self:
        assert self._process is None or self._process.poll() is not None
        command = Path(sys.executable).with_name(f"tidings-{self.stage}")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([str(command)], env={**self._environment, **changes}, stderr=log)
        return self

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def said(self, words: str) -> dict[str, Any] | None:
        """The last log line with these words."""
        for line in reversed(self.log.read_text().splitlines()):
            if words in line and line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        return None

    def readyz(self) -> dict[str, Any] | None:
        """The answer of /readyz, None before the process listens."""
        listening = self.said('"listening"')
        if listening is None:
            return None
        try:
            with urllib.request.urlopen(f"{listening['url']}/readyz", timeout=5) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            text = error.read()
        except OSError:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def detail(self, component: str) -> str:
        """What /readyz says about a component."""
        answer = self.readyz() or {"components": {}}
        return str(answer["components"].get(component, {}).get("detail", ""))

    def metrics(self) -> str:
        """The text of /metrics."""
        listening = self.said('"listening"')
        assert listening is not None
        with urllib.request.urlopen(f"{listening['url']}/metrics", timeout=5) as answer:
            return str(answer.read(), "utf-8")

    def kill(self) -> None:
        """SIGKILL: no handler, no flush, no goodbye."""
        assert self._process is not None
        self._process.kill()
        assert self._process.wait(30) == -signal.SIGKILL, self.log.read_text()

    def restart_killed(self) -> None:
        self.kill()
        self.start()

    def terminate(self, timeout_seconds: float = 120) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout_seconds)

    def exit_code(self, timeout_seconds: float = 120) -> int:
        """Waits for the process to end by itself."""
        assert self._process is not None
        return self._process.wait(timeout_seconds)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running and self._process is not None:
            self._process.kill()
            self._process.wait(30)
        if error is not None:
            sys.stderr.write(f"--- {self.stage}\n{self.log.read_text()[-6000:]}\n")


def wait_for(
    look: Callable[[], T | None],
    what: str,
    *,
    seconds: float = 180,
    every: float = 0.05,
    alive: tuple[StageProcess, ...] = (),
) -> T:
    """Asks `look` until it gives something true; the stages must stay alive meanwhile."""
    start = time.monotonic()
    while True:
        began = time.thread_time()
        found = look()
        if found:
            return found
        for stage in alive:
            assert stage.running, f"{stage.stage} ended while waiting for {what}"
        waited = time.monotonic() - start
        assert waited < seconds, f"waited {seconds} s for {what}"
        time.sleep(pause_after(time.thread_time() - began, waited, every))
