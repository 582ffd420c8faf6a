"""A running demo without its minute: everything up, traffic as long as a test wants it."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tidings_shop.database import ShopDatabase
from tidings_shop.demo.figures import Figures
from tidings_shop.demo.pipeline import Options, Pipeline
from tidings_shop.demo.run import Demo
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic

RATE = 40.0


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


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"traffic seed {seed}")
    running = Demo(Options(tmp_path, rate=RATE, seed=seed), Figures(), threading.Event())
    with contextlib.closing(running):
        yield running
    for log in sorted((tmp_path / "logs").glob("*.log")):
        print(f"--- end of {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:]))


@pytest.fixture
def start_customers() -> Callable[[Demo], Customers]:
    return lambda demo: Customers(demo.pipeline, demo._options.seed)
