"""What is told of a batch's steps, and of a backlog."""

from __future__ import annotations

import datetime as dt
import io
from typing import TYPE_CHECKING

import pytest
from lakelab.rows import order
from prometheus_client import REGISTRY
from rich.console import Console
from structlog.testing import capture_logs

from tidings_lakehouse import phases, progress_bar
from tidings_lakehouse.job import Job
from tidings_lakehouse.phases import Phases
from tidings_lakehouse.progress_bar import Backlog

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(phases, "time", clock)
    monkeypatch.setattr(progress_bar, "time", clock)
    return clock


def test_steps_come_one_after_the_other_and_tables_beside(clock: Clock) -> None:
    measured = Phases("test")
    for _ in range(2):  # the second batch has nothing of the first
        measured.begin()
        clock.now += 2
        measured.end("read")
        for number in range(7):
            with measured.of_table(f"t{number}"):
                clock.now += number
        measured.end("tables")
        clock.now += 1
        measured.end("read")
    told = measured.told()
    assert told["phases"] == {"read": 3.0, "tables": 21.0}
    assert list(told["phases"]) == ["read", "tables"]
    assert told["slowest"] == {"t6": 6.0, "t5": 5.0, "t4": 4.0, "t3": 3.0, "t2": 2.0}
    labels = {"stream": "test", "phase": "tables"}
    assert REGISTRY.get_sample_value("tidings_lakehouse_phase_seconds_total", labels) == 42.0


def test_a_backlog_is_told_of_in_lines_where_there_is_no_terminal(clock: Clock) -> None:
    backlog = Backlog(None)
    with capture_logs() as logs:
        backlog.left(9_999)  # a job that keeps up
        clock.now += 100
        backlog.left(40_000)
        clock.now += 10
        backlog.left(35_000)
        clock.now += 20
        backlog.left(30_000)
        clock.now += 10
        backlog.left(50_000)  # more has come
        clock.now += 40
        backlog.left(0)
        backlog.left(0)
    told = [(one["event"], one["left"], one["percent"], one["seconds_left"]) for one in logs]
    assert told == [
        ("reading a backlog", 30_000, 25.0, 90),
        ("the backlog is read", 0, 100.0, None),
    ]


def test_a_backlog_is_a_bar_on_a_terminal(clock: Clock) -> None:
    text = io.StringIO()
    backlog = Backlog(Console(file=text, force_terminal=True, width=100))
    backlog.left(20_000)
    backlog.left(5_000)
    backlog.left(0)
    assert "20000/20000" in text.getvalue()


@pytest.mark.spark
@pytest.mark.stack
def test_a_slow_batch_says_where_its_time_went(lake: Lake, orders: TableTopic) -> None:
    lake.settings = lake.settings.model_copy(update={"lakehouse_slow_batch_seconds": 0.000_001})
    orders.change("c", order(1), 100, 110)
    orders.topics.flush()
    with capture_logs() as logs:
        lake.drain()
    (slow,) = [one for one in logs if one["event"] == "slow batch"]
    assert list(slow["phases"]) == [
        "read", "markers", "decode", "statistics", "tables", "quarantine", "watermark", "counts"
    ]  # fmt: skip
    assert sum(slow["phases"].values()) == pytest.approx(slow["seconds"], rel=0.05, abs=0.05)
    assert slow["slowest"].keys() == {orders.table, f"{orders.table}_log"}
    assert slow["phases"]["tables"] >= max(slow["slowest"].values()) - 0.01


def test_seconds_behind_commit_are_told_while_records_wait() -> None:
    hour_ago = dt.datetime.now() - dt.timedelta(hours=1)  # noqa: DTZ005 - as Spark gives times

    def told(topic: str) -> float | None:
        return REGISTRY.get_sample_value("tidings_lakehouse_commit_lag_seconds", {"topic": topic})

    Job._tell_commit_lag("behind", 3, hour_ago)
    assert told("behind") == pytest.approx(3600, abs=60)
    Job._tell_commit_lag("behind", 0, hour_ago)
    assert told("behind") == 0
    Job._tell_commit_lag("unknown", 3, None)
    assert told("unknown") is None
