"""One running demo for all tests here, without its minute: everything is up, and customers are in the shop.

It takes a minute or two until servers, services and Spark are up, so the tests share it, in the order of their files: the
last one ends the traffic and compares. A test that failed may have left it broken: the next one gets another.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidings_shop.database import ShopDatabase
from tidings_shop.demo.pipeline import Options, Pipeline
from tidings_shop.demo.run import Demo
from tidings_shop.demo.source import POSTGRESQL, SOURCES, Source
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic
from tidings_stack.pipeline.figures import Figures
from tidings_stack.pytest_plugin import has_failed

RATE = 12.0
"""Transactions a second. A transaction costs Kafka and the services the same whenever it comes; at 40 they took most of a core from
Spark, for which every test here waits."""


class Customers:
    """Traffic in the background until the end is asked for."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self.summary = TrafficSummary(seed)
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="traffic")
        self._future: Future[None] = self._pool.submit(self._run, pipeline.database_url, seed)

    def _run(self, url: str, seed: int) -> None:
        with ShopDatabase(url) as database:
            plan = prepare_plan(database, seed, rate=RATE)
            run_traffic(database, plan, self.summary, rate=RATE, stop=self._stop)

    @property
    def ended(self) -> bool:
        """Whether the end was asked for."""
        return self._stop.is_set()

    def check(self) -> None:
        """Raise what has gone wrong in the thread."""
        if self._future.done():
            self._future.result()

    def end(self) -> TrafficSummary:
        """No more transactions; what was committed."""
        self._stop.set()
        self._future.result(60)
        self._pool.shutdown()
        return self.summary


@dataclass
class Shop:
    """The demo and its traffic."""

    demo: Demo
    customers: Customers


class Shops:
    """The shop there is; another one after `close`."""

    def __init__(self, make_directory: Callable[[], Path]) -> None:
        self._make_directory = make_directory
        self._exits = contextlib.ExitStack()
        self._shop: Shop | None = None

    def get(self, source: Source) -> Shop:
        """Everything is up, and further commits of this database are captured."""
        if self._shop is not None and (
            self._shop.customers.ended or self._shop.demo.pipeline.source is not source
        ):
            self.close()
        if self._shop is None:
            seed = random.SystemRandom().randrange(1_000_000)
            directory = self._make_directory()
            self._exits.callback(_show_logs, directory)
            demo = self._exits.enter_context(
                contextlib.closing(
                    Demo(
                        Options(directory, rate=RATE, seed=seed, source=source), Figures(), threading.Event()
                    )
                )
            )
            demo.pipeline.bring_up()
            demo._watch()
            customers = Customers(demo.pipeline, seed)
            self._exits.callback(customers.end)
            self._shop = Shop(demo, customers)
        print(f"traffic seed {self._shop.customers.summary.seed}")
        return self._shop

    def close(self) -> None:
        """End it and show its logs."""
        self._shop = None
        self._exits.close()


def _show_logs(directory: Path) -> None:
    for log in sorted((directory / "logs").glob("*.log")):
        print(f"--- end of {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:]))


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    made = Shops(lambda: tmp_path_factory.mktemp("demo"))
    yield made
    made.close()


@pytest.fixture
def shop(shops: Shops, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A pipeline under traffic; its database is PostgreSQL, or the source that a test's parameter names."""
    try:
        yield shops.get(SOURCES[getattr(request, "param", POSTGRESQL.name)])
    finally:
        # Without `--long` no other test has it, and it would go on under traffic beside all that follow.
        if has_failed(request.node) or not request.config.getoption("long"):
            shops.close()
