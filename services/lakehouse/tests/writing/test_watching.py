"""What is seen of a job from outside while a batch of it takes long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from lakelab.rows import order
from prometheus_client import REGISTRY

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_the_lag_grows_in_the_midst_of_a_batch(
    lake: Lake, orders: TableTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who alerts on it learns of a job that has stood still for minutes."""
    monkeypatch.setattr("tidings_lakehouse.job._LAG_SECONDS", 0.0)
    monkeypatch.setattr("tidings_lakehouse.job._REST_SECONDS", 0.0)
    standing, onwards = threading.Event(), threading.Event()

    def stand_still(point: str) -> None:
        if point == f"log:{orders.table}_log" and not standing.is_set():
            standing.set()
            onwards.wait(120)

    orders.change("c", order(1), 10, 20)
    orders.topics.flush()
    with lake.running(stand_still):
        try:
            assert standing.wait(60)
            for number in range(2, 5):
                orders.change("c", order(number), 10, 20 + number)
            orders.topics.flush()
            deadline = time.monotonic() + 20
            while _lag(orders.topic) < 3:
                assert time.monotonic() < deadline, f"the lag is {_lag(orders.topic)}"
                time.sleep(0.1)
        finally:
            onwards.set()


def _lag(topic: str) -> float:
    return REGISTRY.get_sample_value("tidings_lakehouse_lag_records", {"topic": topic}) or 0.0
