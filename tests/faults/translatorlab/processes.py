"""Sequencers and translators as processes, started again when they end, as whoever runs them does it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FAULTS = Path(__file__).resolve().parent.parent


class StageProcess:
    """One instance of ``tidings-sequencer`` or ``tidings-translator``."""

    def __init__(self, kind: str, instance: str, directory: Path, settings: Mapping[str, str]) -> None:
        self.kind = kind
        self.name = f"{kind}-{instance}"
        self.log = directory / f"{self.name}.log"
        self._points = directory / f"{self.name}.point"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
        self._environment = {
            **kept,
            "PYTHONPATH": str(FAULTS),
            "TIDINGS_DOMAIN": "translatorlab.domain",
            "TIDINGS_HTTP_PORT": "0",
            "TIDINGS_LOG_FORMAT": "json",
            "TIDINGS_INSTANCE": self.name,
            "TIDINGS_FAULT_POINTS": str(self._points),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.wanted = False
        self.starts = 0

    def start(self) -> None:
        """Run from now on."""
        with self._lock:
            self.wanted = True
        self.look()

    def look(self) -> None:
        """Start it when it should run and does not."""
        with self._lock:
            if not self.wanted or (self._process is not None and self._process.poll() is None):
                return
            command = str(Path(sys.executable).with_name(f"tidings-{self.kind}"))
            with self.log.open("ab") as log:
                self._process = subprocess.Popen([command], env=self._environment, stdout=log, stderr=log)
            self.starts += 1

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)

    def stop(self) -> None:
        """SIGTERM, and stay away."""
        with self._lock:
            self.wanted = False
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL; whoever wants it to run starts it again."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(60)

    def arm(self, point: str, skip: int) -> None:
        """Let it be killed when it has passed a named point `skip` times."""
        made = self._points.with_suffix(".new")
        made.write_text(f"{point} kill {skip}", encoding="ascii")
        made.replace(self._points)

    @property
    def armed(self) -> bool:
        return self._points.exists()

    def disarm(self) -> None:
        self._points.unlink(missing_ok=True)

    def ready(self) -> dict[str, Any] | None:
        """What /readyz says; None while it does not answer."""
        url = None
        if self.log.exists():
            for line in self.log.read_bytes().splitlines():
                if b'"listening"' in line:
                    url = json.loads(line)["url"]
        if url is None or self.pid is None:
            return None
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
        except OSError:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def tail(self, size: int = 3000) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""


class Supervisor:
    """Looks after stages until it is closed."""

    def __init__(self) -> None:
        self.stages: list[StageProcess] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, stage: StageProcess) -> StageProcess:
        self.stages.append(stage)
        return stage

    def _run(self) -> None:
        while not self._end.wait(0.2):
            for stage in list(self.stages):
                stage.look()

    def close(self) -> None:
        """No process is left behind."""
        self._end.set()
        self._thread.join(60)
        for stage in self.stages:
            stage.wanted = False
            stage.kill()


def wait_until(look: Any, seconds: float) -> bool:
    """Whether something has become true within some seconds: a random fault must not wait for ever."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
