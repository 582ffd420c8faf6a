"""A running pipeline is upgraded: the services of a former checkout are stopped, and today's go on where they were.

The truth it holds: connectors, offsets, states, generations and the lake's positions that a former version has stored are
read by today's, and a subscriber finds every event id once. It needs that version, installed, so it is not part of the
suite:

    git worktree add ../former <commit> && make -C ../former install
    TIDINGS_FORMER=../former .venv/bin/pytest tests/e2e/upgrade.py
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidings_shop.demo.pipeline import LAKEHOUSE, STAGES
from tidings_shop.demo.source import POSTGRESQL
from tidings_stack.pipeline import services

if TYPE_CHECKING:
    from conftest import Shops

PATIENCE_SECONDS = 400.0
EVENTS_BETWEEN = 100

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(2400)]


@pytest.fixture
def former() -> Path:
    """Where the former version's commands are."""
    checkout = os.environ.get("TIDINGS_FORMER")
    if checkout is None:
        pytest.skip("TIDINGS_FORMER names no checkout of a former version")
    return Path(checkout).resolve() / ".venv" / "bin"


def test_a_running_pipeline_is_upgraded(
    former: Path, shops: "Shops", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "installed", lambda command: str(former / command))
    shop = shops.get(POSTGRESQL)
    monkeypatch.undo()
    pipeline, figures = shop.demo.pipeline, shop.demo._figures

    def grown(read: Callable[[], int], what: str) -> None:
        start = read()

        def enough() -> bool:
            nonlocal start
            start = min(start, read())  # a service that was started again counts from zero
            return read() >= start + EVENTS_BETWEEN

        pipeline.until(enough, PATIENCE_SECONDS, what)
        shop.customers.check()

    grown(lambda: figures.business.total, "events of the former version")
    grown(lambda: figures.lake.total, "rows of the former version in the lake")
    for name in (LAKEHOUSE, *STAGES):
        service = pipeline.services[name]
        assert service._command[0] == str(former / Path(service._command[0]).name)
        service.stop()
        service._command[0] = services.installed(Path(service._command[0]).name)
        service.start()
        grown(lambda: figures.business.total, f"events after the upgrade of {name}")
    pipeline.until(pipeline.services[LAKEHOUSE].is_ready, PATIENCE_SECONDS, "the lakehouse")
    grown(lambda: figures.lake.total, "rows in the lake after its upgrade")

    summary = shop.customers.end()
    verdict = shop.demo._compare(summary, shop.demo._drain(summary))
    assert summary.facts["OrderPlaced"] > 100
    assert verdict.problems() == []
