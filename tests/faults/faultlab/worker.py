"""A capture worker as a process of its own: started, asked, killed and looked into as people do it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidings_stack.capture import JSON_CONVERTER, call, task_pids
from tidings_stack.waiting import wait_for


class Worker:
    """A capture worker, started as people start it."""

    def __init__(self, directory: Path, bootstrap: str, group: str, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.points = directory / "fault-points"
        self.log = directory / "worker.log"
        self._properties = directory / "worker.properties"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.offset_topic = f"{group}-offset"
        lines = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": self.url,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "key.converter": JSON_CONVERTER,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON_CONVERTER,
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "100",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            **settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(Path(sys.executable).with_name("tidings-capture")), str(self._properties)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, "TIDINGS_FAULT_POINTS": str(self.points)},
            )
        wait_for("the worker to answer", self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.tail()
        with contextlib.suppress(OSError):
            return bool(self.request("GET", "/readyz")[1]["components"]["kafka"]["ok"])
        return False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body of an answer."""
        try:
            return call(method, self.url + path, body)
        except OSError as error:
            if self._process is not None and (code := self._process.poll()) is not None:
                raise AssertionError(f"the worker has ended with {code}: {self.tail()}") from error
            raise

    def ask(self, method: str, path: str, body: Any, *wanted: int) -> None:
        """A request that has to be granted: 409 and 5xx, while a group agrees or a server is away, are asked again."""
        answers: list[tuple[int, Any]] = []

        def granted() -> bool:
            with contextlib.suppress(OSError):
                answers.append(self.request(method, path, body))
                return answers[-1][0] in wanted
            return False

        try:
            wait_for(f"{method} {path}", granted)
        except AssertionError as error:
            raise AssertionError(f"{error}; {answers[-1:]}") from None

    def task(self, name: str) -> dict[str, Any]:
        """The state of a connector's task."""
        status, body = self.request("GET", f"/connectors/{name}/status")
        return body["tasks"][0] if status == 200 and body["tasks"] else {"state": None}

    def wait_task(self, name: str, state: str = "RUNNING") -> dict[str, Any]:
        """Wait until a connector's task has a state; not for one that was given up."""

        def there() -> Any:
            task = self.task(name)
            if state != "FAILED" and "no further attempt" in task.get("trace", ""):
                raise AssertionError(f"{name} was given up: {task['trace']}")
            return task if task["state"] == state else None

        try:
            return wait_for(f"{name} to be {state}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.task(name)['state']}\n{self.tail()}") from None

    def task_pid(self, name: str = "") -> int | None:
        """The process of a task; of the only one there is."""
        if not self.alive:
            return None
        assert self._process is not None
        return next((pid for pid in task_pids(self._process.pid) if _alive(pid)), None)

    @property
    def pid(self) -> int:
        """Its own process."""
        assert self._process is not None
        return self._process.pid

    @property
    def id(self) -> str:
        """Its name in the group."""
        return self.url.removeprefix("http://")

    def knows(self, other: "Worker") -> bool:
        """Whether it has seen another one in the group, and not seen it leave."""
        told = [
            line
            for line in self.log.read_text().splitlines()
            if f'"worker": "{other.id}", "event": "a worker' in line
        ]
        return bool(told) and "is in the group" in told[-1]

    def kill(self) -> None:
        """SIGKILL, and wait until its task is gone with it."""
        assert self._process is not None
        task = self.task_pid()
        self._process.kill()
        self._process.wait(30)
        wait_for("the task to die with its worker", lambda: task is None or not _alive(task))

    def stop(self) -> None:
        """SIGTERM."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def arm(self, point: str, *, skip: int = 0, action: str = "kill") -> None:
        """Let whoever passes a named point for the `skip` + 1st time end there."""
        made = self.points.with_suffix(".new")
        made.write_text(f"{point} {action} {skip}", encoding="ascii")
        made.replace(self.points)

    @property
    def armed(self) -> bool:
        """Whether nobody has passed the point yet."""
        return self.points.exists()

    def disarm(self) -> None:
        self.points.unlink(missing_ok=True)

    def pass_point(self, point: str, *, skip: int, seconds: float = 4) -> None:
        """Let a task end at a named point, or nobody, where none passes it in so many seconds."""
        self.arm(point, skip=skip)
        deadline = time.monotonic() + seconds
        while self.armed and time.monotonic() < deadline:
            time.sleep(0.02)
        self.disarm()

    def last_words(self) -> str:
        """What the worker and its task are doing, and what they have said; librdkafka's notes of lost connections left out."""
        for pid in (self.alive and self._process and self._process.pid, self.task_pid()):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)  # the stacks of all threads
        time.sleep(1.0)
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if '"event": "FAIL [' not in line][-400:])

    def tail(self, size: int = 4000) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
