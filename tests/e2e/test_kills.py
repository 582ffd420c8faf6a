"""Every service is killed in the middle of traffic, and nothing is lost, repeated or half told.

The truth it holds: after SIGKILL of capture (its worker, and its task alone), the sequencer, the translator and the
lakehouse under traffic, a subscriber that reads committed records finds every business event id once, as many events as
PostgreSQL has facts, and the lake equals the database row by row. So do read models in PostgreSQL, which sinks on capture's
worker write from the events. Kills are keyed off progress that is read back.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.e2e.read_models import start_read_models

from tidings_shop.demo.pipeline import LAKEHOUSE

if TYPE_CHECKING:
    from conftest import Shop

PROGRESS_SECONDS = 400.0
"""The lakehouse's first batch makes every table; on two busy cores that takes a while."""
EVENTS_BETWEEN_KILLS = 80

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(2400)]


def child_processes(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


@pytest.mark.long
def test_nothing_is_lost_or_repeated_when_services_are_killed(shop: "Shop") -> None:
    demo, customers = shop.demo, shop.customers
    pipeline, figures = demo.pipeline, demo._figures

    def grown(read: Callable[[], int], by: int, what: str) -> None:
        start = read()

        def enough() -> bool:
            nonlocal start
            start = min(start, read())  # a restarted service counts from zero
            return read() >= start + by

        pipeline.until(enough, PROGRESS_SECONDS, what)
        customers.check()

    def events() -> int:
        return figures.business.total

    def kill(name: str) -> None:
        pipeline.services[name].kill()
        pipeline.services[name].start()

    def kill_task() -> None:
        worker = pipeline.services["capture"].pid
        assert worker is not None
        # A worker that was killed gets its connector back when its group has noticed that the former one is gone.
        pipeline.until(lambda: bool(child_processes(worker)), PROGRESS_SECONDS, "the worker's child process")
        for task in child_processes(worker):
            os.kill(task, signal.SIGKILL)

    grown(events, EVENTS_BETWEEN_KILLS, "the first business events")
    models = start_read_models(pipeline)
    grown(models.placed, 10, "orders in a read model")
    pipeline.until(pipeline.services[LAKEHOUSE].is_ready, PROGRESS_SECONDS, "the lakehouse")
    grown(lambda: figures.lake.total, 50, "rows in the lake")
    kill(LAKEHOUSE)  # its Spark takes longest to be back: meanwhile the others are killed
    for kill_one in (
        lambda: kill("capture"),
        lambda: kill("sequencer"),
        lambda: kill("translator"),
        kill_task,
        lambda: [kill(name) for name in ("capture", "sequencer", "translator")],
        lambda: kill("translator"),
    ):
        kill_one()
        grown(events, EVENTS_BETWEEN_KILLS, "business events after a kill")
    pipeline.until(pipeline.services[LAKEHOUSE].is_ready, PROGRESS_SECONDS, "the lakehouse after its kill")
    grown(lambda: figures.lake.total, 50, "rows in the lake after its kill")

    summary = customers.end()
    verdict = demo._compare(summary, demo._drain(summary))
    assert summary.facts["OrderPlaced"] > 100
    assert verdict.problems() == []
    pipeline.until(
        lambda: models.placed() >= summary.facts["OrderPlaced"],
        PROGRESS_SECONDS,
        "every order in its read model",
    )
    assert models.placed() == summary.facts["OrderPlaced"]
    pipeline.until(
        lambda: models.problems(pipeline.database_url) == [],
        PROGRESS_SECONDS,
        "every price in its read model",
    )
