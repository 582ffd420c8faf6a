"""The four services as processes of their own, on servers that are there: start, watch, stop.

What can start at the same time does. The lakehouse, whose Spark takes longest, has what the others leave of the processors.
"""

import concurrent.futures
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidings_jvm import SilentProgress
from tidings_stack.errors import PipelineError
from tidings_stack.pipeline import pages
from tidings_stack.pipeline.figures import Figures, Part, State
from tidings_stack.pipeline.services import Service, installed
from tidings_stack.ports import PortReservations, accepts
from tidings_stack.stack import Stack

SERVERS: Final = {
    "pg": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "kafka": "Kafka",
    "registry": "registry",
}
STAGES: Final = ("capture", "sequencer", "translator")
LAKEHOUSE: Final = "lakehouse"

_TICK_SECONDS = 0.1
_POLL_SECONDS = 0.4
_CONNECTOR_SECONDS = 2.0
START_SECONDS: Final = 120.0
_AGAIN, _HINT = "next attempt in", "hint: "
"""How lines of a failed task's trace begin."""
_AFTER_OTHERS: Final = ("nice", "-n", "10")
"""A command's beginning: it runs while others have nothing to do."""


class LocalPipeline(ABC):
    """Servers and services; a context manager that leaves nothing running.

    Args:
        directory: for logs and the services' temporary files.
        connector: the connector's name.
        members: the servers that are started here; the others are somewhere else.
        pause: called again and again while something is waited for, with seconds to wait; raises to give up.
        keep: where the servers keep their data; None: in a temporary directory.
    """

    def __init__(
        self,
        directory: Path,
        figures: Figures,
        pause: Callable[[float], None],
        *,
        connector: str,
        members: Sequence[str],
        keep: Path | None = None,
    ) -> None:
        self._directory = directory
        self._figures = figures
        self._pause = pause
        self._connector_name = connector
        self._start = time.monotonic()
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="start")
        self._ports = PortReservations()
        self._polled = self._connector_checked = 0.0
        self.services: dict[str, Service] = {}
        self.stack = Stack(members, progress=SilentProgress(), directory=keep)
        self._members = tuple(members)
        figures.parts = [Part(name) for name in (*(SERVERS[one] for one in members), *STAGES, LAKEHOUSE)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the services, then the servers."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(Service.stop, self.services.values()))
        self.stack.close()
        self._ports.release()
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def urls(self) -> dict[str, str]:
        """Base addresses of the services, by name."""
        return {name: service.url for name, service in self.services.items()}

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    # Waiting

    def tick(self) -> None:
        """Wait a moment; see that nobody has died, and who has got ready.

        Raises:
            PipelineError: when a service has ended.
        """
        self._pause(_TICK_SECONDS)
        if time.monotonic() - self._polled < _POLL_SECONDS:
            return
        self._polled = time.monotonic()
        for name, service in self.services.items():
            part = self._figures.part(name)
            try:
                service.check()
            except PipelineError:
                part.state = State.FAILED
                raise
            if part.state is State.STARTING and service.is_ready():
                self._ready(part)

    def check_connector(self) -> None:
        """See that the connector has not failed for good; not more often than it is worth asking.

        Raises:
            PipelineError: it has, with what it says.
        """
        if time.monotonic() - self._connector_checked < _CONNECTOR_SECONDS:
            return
        self._connector_checked = time.monotonic()
        capture = self.services["capture"]
        refuse_failed_task(capture.url, self._connector_name, log=capture.log, passing=True)

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `condition` holds.

        Raises:
            PipelineError: after `seconds`, naming `what`.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"waited {seconds:.0f} s for {what} in vain{self._unready()}",
                    hint=f"see {self._directory}/logs",
                )
            self.tick()

    def _unready(self) -> str:
        """What the services say is missing, for an error; empty when nothing is."""
        said = {
            name: pages.unready(service.url) for name, service in self.services.items() if service.started
        }
        return "".join(f"; {name}: {missing}" for name, missing in said.items() if missing)

    def all_ready(self) -> bool:
        """Whether every part is."""
        return all(part.state is State.READY for part in self._figures.parts)

    def _begin(self, name: str) -> None:
        part = self._figures.part(name)
        part.state, part.since = State.STARTING, self._figures.elapsed

    def _ready(self, part: Part) -> None:
        if part.state is not State.READY:
            part.state, part.seconds = State.READY, self._figures.elapsed - part.since

    # Coming up

    def _start_servers(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Start the servers; `meanwhile` is called while they do."""
        self._figures.phase = "starting the servers"
        for name in self._members:
            self._begin(SERVERS[name])
        stack = self._pool.submit(self.stack.start)
        while not stack.done():
            for name, server in self.stack.servers.items():
                if accepts(getattr(server, "port", 0)):
                    self._ready(self._figures.part(SERVERS[name]))
            meanwhile()
            self.tick()
        stack.result()
        for name in self._members:
            self._ready(self._figures.part(SERVERS[name]))

    def _start_stages(
        self, capture: str, worker: Path, config: Mapping[str, str], consistent: Callable[[], bool]
    ) -> None:
        """Start the services, and return when every further commit will be captured.

        Args:
            capture: address of capture's REST API.
            worker: its properties.
            config: the connector's.
            consistent: whether the database says so.
        """
        self._figures.phase = "starting the services"
        self._add("capture", ["tidings-capture", str(worker)], url=capture)
        self._add("sequencer", ["tidings-sequencer"])
        self._add("translator", ["tidings-translator"])
        self._add(LAKEHOUSE, [*_AFTER_OTHERS, installed("tidings-lakehouse"), "run"])
        for name in (*STAGES, LAKEHOUSE):
            self._begin(name)
            self.services[name].start()
        self.until(lambda: pages.answers(capture), START_SECONDS, "capture's REST API")
        pages.put_json(f"{capture}/connectors/{self._connector_name}/config", config)

        def streaming() -> bool:
            refuse_failed_task(capture, self._connector_name, log=self.services["capture"].log)
            return consistent()

        self.until(streaming, START_SECONDS, "capture to read the log")

    def _add(self, name: str, command: list[str], *, url: str | None = None) -> None:
        environment = self.environment()
        if url is None:
            port = self._ports.reserve()
            url, environment["TIDINGS_HTTP_PORT"] = f"http://127.0.0.1:{port}", str(port)
        self.services[name] = Service(
            name, command, environment=environment, url=url, directory=self._directory
        )

    # Settings

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """The TIDINGS_* variables of the services, for people who want to look too."""

    def environment(self) -> dict[str, str]:
        """A service's whole environment: this process's, but none of its TIDINGS_* except the cache."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TIDINGS_") or name == "TIDINGS_CACHE"
        }
        temporary = self._directory / "tmp"  # gone with its owner, whatever a service leaves there
        temporary.mkdir(exist_ok=True)
        return (
            inherited
            | self.settings()
            | {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
            # Spark lives for minutes here, too short for its compiler's second stage to pay: half the CPU without.
            | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        )


def refuse_failed_task(capture: str, connector: str, *, log: Path, passing: bool = False) -> None:
    """Raise when the connector, or a task of it, says that it has failed.

    Args:
        log: of the worker, for the error's hint.
        passing: whether a failure is let pass after which the worker tries again by itself.

    Raises:
        PipelineError: with the first line of what it says, and what it says to do.
    """
    status = pages.read_json(f"{capture}/connectors/{connector}/status")
    if not isinstance(status, Mapping):
        return
    for one in (status.get("connector"), *(status.get("tasks") or ())):
        if not isinstance(one, Mapping) or one.get("state") != "FAILED":
            continue
        trace = str(one.get("trace") or "no reason given").strip().splitlines()
        if passing and any(line.startswith(_AGAIN) for line in trace):
            continue
        hint = next((line.removeprefix(_HINT) for line in trace if line.startswith(_HINT)), None)
        raise PipelineError(
            f"the connector has failed: {trace[0]}",
            hint=f"{hint}; all of it is in {log}" if hint else f"the reason is in {log}",
        )
