"""Capture workers as processes of their own, for tests and benchmarks.

`tidings-capture` is started as people start it, from a properties file, and spoken to over REST. Nothing of the service
is imported: it is the command beside the running Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidings_stack.errors import ServerStartError
from tidings_stack.ports import LOOPBACK, PortReservations
from tidings_stack.waiting import pause_after

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_AVRO_CONVERTER = "io.confluent.connect.avro.AvroConverter"
_START_SECONDS = 180.0
_TASK_SECONDS = 120.0
_STOP_SECONDS = 120.0
_TOPICS = ("config", "offset", "status")


def avro_options(registry: str) -> dict[str, str]:
    """Options of a connector that writes Avro, in which a null is null, also of a column with a default.

    Args:
        registry: its URL.
    """
    return _of_both(
        _AVRO_CONVERTER, {"schema.registry.url": registry, "ignore.default.for.nullables": "true"}
    )


def json_options() -> dict[str, str]:
    """Options of a connector that writes JSON with schemas, in which a null is null, also of a column with a default."""
    return _of_both(JSON_CONVERTER, {"schemas.enable": "true", "replace.null.with.default": "false"})


def _of_both(converter: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Options of a converter of keys and values."""
    found = {}
    for side in ("key", "value"):
        found[f"{side}.converter"] = converter
        found |= {f"{side}.converter.{name}": value for name, value in settings.items()}
    return found


@dataclass
class CaptureWorker:
    """A running worker."""

    process: subprocess.Popen[bytes]
    url: str
    """Of its REST API."""
    log: Path

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and body of an answer, whatever the status; a body that is not JSON as text. Raises OSError."""
        return call(method, self.url + path, body)

    def task(self, name: str) -> dict[str, Any]:
        """The state of a connector's task; ``{"state": None}`` while there is none."""
        status, body = self.request("GET", f"/connectors/{name}/status")
        return dict(body["tasks"][0]) if status == 200 and body["tasks"] else {"state": None}

    def wait_task(self, name: str, state: str, seconds: float = _TASK_SECONDS) -> dict[str, Any]:
        """Wait until a connector's task has a state.

        Raises:
            AssertionError: it has another one after `seconds`; with that and the end of the worker's log.
        """
        start = time.monotonic()
        while (task := self.task(name))["state"] != state:
            if (waited := time.monotonic() - start) > seconds:
                log = self.log.read_text("utf-8", "replace")[-3000:]
                raise AssertionError(f"waited {seconds} s for {name} to be {state}; it is {task}\n{log}")
            time.sleep(pause_after(0, waited))
        return task

    def task_pid(self) -> int | None:
        """The process of the worker's only task; none between two attempts."""
        return next(iter(task_pids(self.process.pid)), None)

    def kill(self) -> None:
        """SIGKILL, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait(_STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)

    def end(self) -> None:
        """End it, by force when it does not end by itself. May be called again."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


class CaptureWorkers:
    """The workers of a test session or a benchmark, with their properties files, ports and logs in one directory."""

    def __init__(self, directory: Path, bootstrap: str, *, commands: Path | None = None) -> None:
        """`commands` is where another checkout's `tidings-capture` is; by default it is the one beside the running Python."""
        self._directory = directory
        self._commands = commands or Path(sys.executable).parent
        self._bootstrap = bootstrap
        self._ports = PortReservations()
        self._workers: list[CaptureWorker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def properties(
        self, group: str, settings: Mapping[str, str] | None = None, *, name: str | None = None
    ) -> Path:
        """Write a worker's properties file and return it: a port of its own, the group's topics, JSON converters;
        `settings` change or add to them. The file is called like the group, or `name`."""
        lines = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "listeners": f"http://{LOOPBACK}:{self._ports.reserve()}",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in _TOPICS},
            **{f"{kind}.storage.replication.factor": "1" for kind in _TOPICS},
            "offset.storage.partitions": "3",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            **(settings or {}),
        }
        path = self._directory / f"{name or group}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), "utf-8")
        return path

    def start(
        self, properties: Path, *connectors: Path, environment: Mapping[str, str] | None = None
    ) -> CaptureWorker:
        """Start a worker, and wait until it answers and has read its topics; it ends with `close` at the latest.
        With files of connectors it is a standalone one. `environment` adds to the process's own.

        Raises:
            ServerStartError: it ended, or did not answer in time; with the end of its log.
        """
        log = properties.with_suffix(".log")
        command = [
            str(self._commands / "tidings-capture"),
            *map(str, (properties, *connectors)),
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
            )
        lines = properties.read_text("utf-8").splitlines()
        listeners = next(line.partition("=")[2] for line in lines if line.startswith("listeners="))
        worker = CaptureWorker(process, listeners.split(",")[0], log)
        self._workers.append(worker)
        deadline = time.monotonic() + _START_SECONDS
        while not _reads_kafka(worker):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerStartError(
                    f"the capture worker of {properties.name} did not start (exit code {process.poll()}):\n"
                    + log.read_text("utf-8", "replace")[-4000:]
                )
            time.sleep(0.05)
        return worker

    def close(self) -> None:
        """End all workers. May be called again."""
        while self._workers:
            self._workers.pop().end()
        self._ports.release()


def task_pids(worker: int) -> list[int]:
    """The processes of a worker's tasks: the children of the process that it forks them from."""
    with contextlib.suppress(OSError):  # one that has just ended
        return [task for server in _children(worker) for task in _children(server)]
    return []


def _children(pid: int) -> list[int]:
    return [int(part) for part in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def _reads_kafka(worker: CaptureWorker) -> bool:
    with contextlib.suppress(OSError):
        # Not the status of the answer: a connector that has failed makes a worker unready, too.
        body = worker.request("GET", "/readyz")[1]
        return isinstance(body, dict) and bool(body["components"]["kafka"]["ok"])
    return False


def call(method: str, url: str, body: object = None, seconds: float = 60.0) -> tuple[int, Any]:
    """Status and body of a REST API's answer, whatever the status; a body that is not JSON as text. Raises OSError."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 (our own URLs)
        url, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read()
    return status, json.loads(text) if text[:1] in (b"{", b"[") else text.decode(errors="replace")
