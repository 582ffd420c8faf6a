"""A backlog is read by a short run, which may be killed, and the stream goes on where that one ended."""

from __future__ import annotations

import io
import json
import threading
from typing import TYPE_CHECKING

import pytest
from lakelab.lake import CrashError
from lakelab.rows import order
from rich.console import Console

from tidings_lakehouse.errors import LakehouseError
from tidings_lakehouse.progress_bar import Backlog

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic

pytestmark = [pytest.mark.spark, pytest.mark.stack]

BACKLOG, LATER = 10, 3
BATCH = 4


class Points:
    """Counts how often the job passes its named points."""

    def __init__(self) -> None:
        self._passed: dict[str, int] = {}

    def passed(self, point: str) -> int:
        """The point is passed; how often it has been."""
        self._passed[point] = self._passed.get(point, 0) + 1
        return self._passed[point]


def test_a_backfill_hands_over_to_the_stream_at_the_exact_offsets(
    lake: Lake, orders: TableTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backfill writes what was there when it began, although it was killed, and the stream what came later, each once."""
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_max_records": BATCH, "lakehouse_trigger_seconds": 0.0}
    )
    _produce(orders, 0, BACKLOG)
    log = f"{orders.table}_log"
    first, second, stream, shown = Points(), Points(), threading.Event(), io.StringIO()

    def kill_in_the_second_batch(point: str) -> None:
        if first.passed(point) == 2 and point == f"log:{log}":
            raise CrashError

    with pytest.raises((LakehouseError, CrashError)):
        lake.drain(kill_in_the_second_batch)
    assert _counts(lake, log) == (2 * BATCH, 2 * BATCH)
    assert _counts(lake, orders.table, "id") == (BATCH, BATCH)

    def let_more_come(point: str) -> None:
        if second.passed(point) == 2 and point == "survey":  # the first time is the batch that was killed
            _produce(orders, BACKLOG, LATER)

    monkeypatch.setattr("tidings_lakehouse.progress_bar._WORTH_TELLING", 1)
    monkeypatch.setattr(
        Backlog, "of_process", lambda **_: Backlog(Console(file=shown, force_terminal=True, width=80))
    )
    lake.drain(let_more_come)
    assert _counts(lake, log) == (BACKLOG, BACKLOG)
    assert f"0/{BACKLOG}" in shown.getvalue()

    job = lake.job(lambda point: stream.set() if point == "batch:technical" else None)
    try:
        job.start()
        job.wait(stream)
    finally:
        job.stop()
    assert _counts(lake, log) == (BACKLOG + LATER, BACKLOG + LATER)
    assert _counts(lake, orders.table, "id") == (BACKLOG + LATER, BACKLOG + LATER)
    written = lake.rows(
        f"select summary['tidings.offsets'] from {log}.snapshots where summary['added-records'] is not null"
        " order by committed_at"
    )
    assert [json.loads(one)[orders.topic]["0"] for (one,) in written] == [[0, 3], [4, 7], [8, 9], [10, 12]]


def _produce(orders: TableTopic, begin: int, count: int) -> None:
    for number in range(begin, begin + count):
        orders.change("c", order(number), 10 + begin, 20 + number)
    orders.topics.flush()


def _counts(lake: Lake, table: str, column: str = "offset") -> tuple[int, int]:
    """Rows of a table, and different values that a column has."""
    [counts] = lake.rows(f"select count(*), count(distinct {column}) from {table}")
    return int(counts[0]), int(counts[1])
