"""Brings the servers, the shop's database and the services up, and takes them down again.

What can start at the same time does. The lakehouse, whose Spark takes longest, starts when the others are ready and
holds nobody back.
"""

import concurrent.futures
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

from tidings_jvm import SilentProgress
from tidings_service.errors import Retry
from tidings_shop.database import ShopDatabase, create_database
from tidings_shop.demo import pages
from tidings_shop.demo.figures import Figures, Part, State
from tidings_shop.demo.services import Service
from tidings_shop.errors import DemoError, ShopError
from tidings_shop.traffic import seed_shop
from tidings_stack import Stack
from tidings_stack.ports import PortReservations, accepts

CONNECTOR = "shop"
SLOT = "tidings_shop"
SERVERS = {"pg": "PostgreSQL", "kafka": "Kafka", "registry": "registry"}
STAGES = ("capture", "sequencer", "translator")
LAKEHOUSE = "lakehouse"

_TICK_SECONDS = 0.1
_POLL_SECONDS = 0.4
_START_SECONDS = 120.0
_LAKEHOUSE_WAITS_SECONDS = 15.0
"""The lakehouse starts that long after the others at the latest."""
_CUSTOMERS, _PRODUCTS = 60, 80


@dataclass(frozen=True, slots=True)
class Options:
    """What the demo has been asked for."""

    directory: Path
    """For logs, settings and the lake."""
    seconds: float = 60.0
    rate: float = 20.0
    seed: int = 1


class Pipeline:
    """Servers and services; a context manager that leaves nothing running.

    Args:
        pause: called again and again while something is waited for, with seconds to wait; raises to give up.
    """

    def __init__(self, options: Options, figures: Figures, pause: Callable[[float], None]) -> None:
        self._options = options
        self._figures = figures
        self._pause = pause
        self._start = time.monotonic()
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="start")
        self._ports = PortReservations()
        self._polled = self._stages_started = 0.0
        self.services: dict[str, Service] = {}
        self.stack = Stack(tuple(SERVERS), progress=SilentProgress())
        self.database_url = ""
        figures.parts = [Part(name) for name in (*SERVERS.values(), *STAGES, LAKEHOUSE)]

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
            DemoError: when a service has ended.
        """
        self._pause(_TICK_SECONDS)
        if time.monotonic() - self._polled < _POLL_SECONDS:
            return
        self._polled = time.monotonic()
        for name, service in self.services.items():
            part = self._figures.part(name)
            try:
                service.check()
            except DemoError:
                part.state = State.FAILED
                raise
            if part.state is State.STARTING and service.is_ready():
                self._ready(part)
        lakehouse = self.services.get(LAKEHOUSE)
        if lakehouse is not None and not lakehouse.started and self._lakehouse_may_start():
            self._begin(LAKEHOUSE)
            lakehouse.start()

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `condition` holds.

        Raises:
            DemoError: after `seconds`, naming `what`.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(
                    f"waited {seconds:.0f} s for {what} in vain{self._unready()}",
                    hint=f"see {self._options.directory}/logs",
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

    def _lakehouse_may_start(self) -> bool:
        stages_are_ready = all(self._figures.part(name).state is State.READY for name in STAGES)
        return stages_are_ready or time.monotonic() - self._stages_started > _LAKEHOUSE_WAITS_SECONDS

    def _begin(self, name: str) -> None:
        part = self._figures.part(name)
        part.state, part.since = State.STARTING, self._figures.elapsed

    def _ready(self, part: Part) -> None:
        if part.state is not State.READY:
            part.state, part.seconds = State.READY, self._figures.elapsed - part.since

    # Coming up

    def bring_up(self) -> None:
        """Start everything, and return when every further commit in the shop will be captured.

        Raises:
            DemoError: when a service dies or does not get there in time.
            TidingsError, StackError: when a server or the database cannot be had.
        """
        self._figures.phase = "starting the servers"
        for title in SERVERS.values():
            self._begin(title)
        stack = self._pool.submit(self.stack.start)
        shop: concurrent.futures.Future[str] | None = None
        while not stack.done():
            for name, server in self.stack.servers.items():
                if accepts(getattr(server, "port", 0)):
                    self._ready(self._figures.part(SERVERS[name]))
            if shop is None and self._figures.part("PostgreSQL").state is State.READY:
                shop = self._pool.submit(self._prepare_shop, self.stack.pg.url)
            self.tick()
        stack.result()
        for title in SERVERS.values():
            self._ready(self._figures.part(title))
        shop = shop or self._pool.submit(self._prepare_shop, self.stack.pg.url)
        self.until(shop.done, _START_SECONDS, "the shop's database")
        self.database_url = shop.result()
        self._figures.phase = "starting the services"
        self._start_stages()

    def _prepare_shop(self, server_url: str) -> str:
        """Create the database with customers and products, so that there is something to take a snapshot of."""
        deadline, url = time.monotonic() + _START_SECONDS, None
        while url is None:
            try:
                url = create_database(server_url, "shop")
            except ShopError as error:  # it listens a moment before it lets anybody in
                if error.retry is not Retry.TIMED or time.monotonic() > deadline:
                    raise
                time.sleep(_TICK_SECONDS)
        with ShopDatabase(url) as database:
            database.ensure_schema()
            seed_shop(database, self._options.seed, customers=_CUSTOMERS, products=_PRODUCTS)
        return url

    def _start_stages(self) -> None:
        capture = f"http://127.0.0.1:{self._ports.reserve()}"
        worker = self._options.directory / "worker.properties"
        worker.write_text(self._worker_properties(capture), "utf-8")
        self._add("capture", ["tidings-capture", str(worker)], url=capture)
        self._add("sequencer", ["tidings-sequencer"])
        self._add("translator", ["tidings-translator"])
        self._add(LAKEHOUSE, ["tidings-lakehouse", "run"])
        self._stages_started = time.monotonic()
        for name in STAGES:
            self._begin(name)
            self.services[name].start()
        self.until(lambda: pages.answers(capture), _START_SECONDS, "capture's REST API")
        pages.put_json(f"{capture}/connectors/{CONNECTOR}/config", self.connector())
        with ShopDatabase(self.database_url) as database:

            def streaming() -> bool:
                refuse_failed_task(capture)
                slot = database.slot(SLOT)
                return slot is not None and slot.consistent

            self.until(streaming, _START_SECONDS, "the replication slot")

    def _add(self, name: str, command: list[str], *, url: str | None = None) -> None:
        environment = self.environment()
        if url is None:
            port = self._ports.reserve()
            url, environment["TIDINGS_HTTP_PORT"] = f"http://127.0.0.1:{port}", str(port)
        self.services[name] = Service(
            name, command, environment=environment, url=url, directory=self._options.directory
        )

    # Settings

    def settings(self) -> dict[str, str]:
        """The TIDINGS_* variables of the services, for people who want to look too."""
        return {
            "TIDINGS_KAFKA": self.stack.kafka.bootstrap,
            "TIDINGS_REGISTRY": self.stack.registry.url,
            "TIDINGS_SOURCE": "shop",
            "TIDINGS_DOMAIN": "tidings_shop.domain",
            "TIDINGS_LAKEHOUSE_WAREHOUSE": str(self._options.directory / "lake"),
        }

    def environment(self) -> dict[str, str]:
        """A service's whole environment: this process's, but none of its TIDINGS_* except the cache."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TIDINGS_") or name == "TIDINGS_CACHE"
        }
        temporary = self._options.directory / "tmp"  # gone with the demo, whatever a service leaves there
        temporary.mkdir(exist_ok=True)
        return (
            inherited
            | self.settings()
            | {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
            # Spark lives for minutes here, too short for its compiler's second stage to pay: half the CPU without.
            | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        )

    def _worker_properties(self, listeners: str) -> str:
        registry = self.stack.registry.url
        return _resource("worker.properties") + "".join(
            f"{name}={value}\n"
            for name, value in {
                "# The demo's addresses; the last value of a name counts.\nbootstrap.servers": self.stack.kafka.bootstrap,
                "listeners": listeners,
                "key.converter.schema.registry.url": registry,
                "value.converter.schema.registry.url": registry,
            }.items()
        )

    def connector(self) -> dict[str, str]:
        """The connector's configuration."""
        pg = self.stack.pg
        config: dict[str, str] = json.loads(_resource("connector.json"))
        return config | {
            "database.hostname": "127.0.0.1",
            "database.port": str(pg.port),
            "database.password": pg.password,
        }


def refuse_failed_task(capture: str) -> None:
    """Raise when the connector, or a task of it, says that it has failed.

    Raises:
        DemoError: with the first line of what it says.
    """
    status = pages.read_json(f"{capture}/connectors/{CONNECTOR}/status")
    if not isinstance(status, Mapping):
        return
    for one in (status.get("connector"), *(status.get("tasks") or ())):
        if isinstance(one, Mapping) and one.get("state") == "FAILED":
            trace = str(one.get("trace") or "no reason given").strip().splitlines()
            raise DemoError(f"the connector has failed: {trace[0]}")


def _resource(name: str) -> str:
    return files("tidings_shop").joinpath(name).read_text("utf-8")
