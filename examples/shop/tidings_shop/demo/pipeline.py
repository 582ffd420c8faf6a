"""The demo's pipeline: the shop's database on the embedded stack, and the services on it."""

import concurrent.futures
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tidings_service.errors import Retry
from tidings_shop.database import ShopDatabase, create_database
from tidings_shop.demo.source import POSTGRESQL, Source
from tidings_shop.errors import ShopError
from tidings_shop.traffic import seed_shop
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.pipeline.figures import Figures, State
from tidings_stack.pipeline.local import LAKEHOUSE, STAGES, START_SECONDS, LocalPipeline
from tidings_stack.postgres import PostgresServer

__all__ = ["CONNECTOR", "LAKEHOUSE", "SLOT", "STAGES", "Options", "Pipeline"]

CONNECTOR = "shop"
SLOT = "tidings_shop"

_TICK_SECONDS = 0.1
_CUSTOMERS, _PRODUCTS = 60, 80


@dataclass(frozen=True, slots=True)
class Options:
    """What the demo has been asked for."""

    directory: Path
    """For logs, settings and the lake."""
    seconds: float = 60.0
    rate: float = 20.0
    seed: int = 1
    source: Source = POSTGRESQL


class Pipeline(LocalPipeline):
    """Servers, the shop and the services."""

    def __init__(self, options: Options, figures: Figures, pause: Callable[[float], None]) -> None:
        members = (options.source.member, "kafka", "registry")
        super().__init__(options.directory, figures, pause, connector=CONNECTOR, members=members)
        self._options, self.source = options, options.source
        figures.database, figures.log = self.source.title, self.source.log
        self.database_url = ""

    def bring_up(self) -> None:
        """Start everything, and return when every further commit in the shop will be captured.

        Raises:
            PipelineError: when a service dies or does not get there in time.
            TidingsError, StackError: when a server or the database cannot be had.
        """
        shop: concurrent.futures.Future[str] | None = None
        member, title = self.source.member, self.source.title

        def prepare() -> None:
            nonlocal shop
            if shop is None and self._figures.part(title).state is State.READY:
                shop = self._pool.submit(self._prepare_shop, self.stack.servers[member].url)

        self._start_servers(prepare)
        shop = shop or self._pool.submit(self._prepare_shop, self.stack.servers[member].url)
        self.until(shop.done, START_SECONDS, "the shop's database")
        self.database_url = shop.result()
        capture = f"http://127.0.0.1:{self._ports.reserve()}"
        worker = self._options.directory / "worker.properties"
        worker.write_text(self._worker_properties(capture), "utf-8")
        with ShopDatabase(self.database_url) as database:

            def consistent() -> bool:
                reader = database.log_reader(SLOT)
                return reader is not None and reader.consistent

            self._start_stages(capture, worker, self.connector(), consistent)

    def _prepare_shop(self, server_url: str) -> str:
        """Create the database with customers and products, so that there is something to take a snapshot of."""
        deadline, url = time.monotonic() + START_SECONDS, None
        while url is None:
            try:
                url = create_database(server_url, self.source.database)
            except ShopError as error:  # it listens a moment before it lets anybody in
                if error.retry is not Retry.TIMED or time.monotonic() > deadline:
                    raise
                time.sleep(_TICK_SECONDS)
        with ShopDatabase(url) as database:
            database.ensure_schema()
            seed_shop(database, self._options.seed, customers=_CUSTOMERS, products=_PRODUCTS)
        return url

    def settings(self) -> dict[str, str]:
        """The TIDINGS_* variables of the services, for people who want to look too."""
        return {
            "TIDINGS_KAFKA": self.stack.kafka.bootstrap,
            "TIDINGS_REGISTRY": self.stack.registry.url,
            "TIDINGS_SOURCE": "shop",
            "TIDINGS_DOMAIN": "tidings_shop.domain",
            "TIDINGS_LAKEHOUSE_WAREHOUSE": str(self._options.directory / "lake"),
            "TIDINGS_LAKEHOUSE_OFFSETS_TOPIC": "shop-connect-offsets",
        }

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
        server = self.stack.servers[self.source.member]
        assert isinstance(server, PostgresServer | MySqlLikeServer)
        config: dict[str, str] = json.loads(_resource(self.source.connector))
        return config | {
            "connector.class": self.source.connector_class or config["connector.class"],
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.password": server.password,
        }


def _resource(name: str) -> str:
    return files("tidings_shop").joinpath(name).read_text("utf-8")
