"""Fills the figures, from the services' /metrics and from the database, twice a second, in a thread."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from tidings_stack.pipeline import pages
from tidings_stack.pipeline.figures import Figures, LatestEvent
from tidings_stack.pipeline.pages import Samples

_PERIOD_SECONDS = 0.5
_NO_TABLES = frozenset({"transaction", "schema-changes"})

T = TypeVar("T")


class Feed:
    """Reads all figures again and again.

    Args:
        urls: base addresses of the services, by name: capture, sequencer, translator, lakehouse.
        look: asks the database for the bytes of its log that it keeps, and of those that are not confirmed, which a server
            without slots is not told (then capture's metrics say so); None while nobody knows.
        prefix: of the tables' topics, such as ``shop.public.``.
    """

    def __init__(
        self,
        figures: Figures,
        urls: Mapping[str, str],
        *,
        look: Callable[[], tuple[int, int | None] | None],
        prefix: str,
    ) -> None:
        self._figures = figures
        self._urls = dict(urls)
        self._look = look
        self._prefix = prefix
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.readings = 0
        """How often all figures have been read."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            samples = {name: pages.read_metrics(url) or Samples() for name, url in self._urls.items()}
            with self._figures.lock:
                take_metrics(self._figures, samples, prefix=self._prefix, at=time.monotonic())
            seen = self._look()
            if seen is None:
                continue
            with self._figures.lock:
                self._figures.retained_log_bytes, unconfirmed = seen
                if unconfirmed is not None:
                    self._figures.capture_lag.bytes = unconfirmed
            self.readings += 1


def take_metrics(figures: Figures, samples: Mapping[str, Samples], *, prefix: str, at: float) -> None:
    """Put one reading of all services' metrics into the figures; what nobody says stays as it was."""
    capture, sequencer = samples["capture"], samples["sequencer"]
    translator, lakehouse = samples["translator"], samples["lakehouse"]
    technical = {
        _table(topic.removeprefix(prefix)): count
        for topic, count in capture.by("tidings_capture_records_total", "topic").items()
        if topic.startswith(prefix) and topic.removeprefix(prefix) not in _NO_TABLES
    }
    if technical:
        shown = figures.tables or technical
        figures.technical_by_table = Counter({table: technical.get(table, 0) for table in shown})
        figures.technical.sample(sum(technical.values()), at)
    figures.capture_lag.seconds = _or(
        capture.highest("tidings_capture_lag_seconds"), figures.capture_lag.seconds
    )
    behind = capture.count("tidings_binlog_behind_bytes")
    figures.capture_lag.bytes = _or(behind, figures.capture_lag.bytes)
    for lag, service, stage in (
        (figures.sequencer_lag, sequencer, "sequencer"),
        (figures.translator_lag, translator, "translator"),
    ):
        lag.records = _or(service.count("tidings_consumer_lag_records", stage=stage), lag.records)
    letters = [service.count("tidings_dead_letters_total") for service in (sequencer, translator)]
    figures.dead_letters = max(figures.dead_letters, sum(count or 0 for count in letters))
    in_lake = lakehouse.by("tidings_lakehouse_rows_total", "table")
    if in_lake:
        figures.lake_by_table = in_lake
        figures.lake.sample(in_lake.total(), at)
    lag = figures.lakehouse_lag
    lag.records = _or(lakehouse.count("tidings_lakehouse_lag_records"), lag.records)
    lag.seconds = _or(lakehouse.lowest("tidings_lakehouse_freshness_seconds"), lag.seconds)
    # Who makes the traffic counts what it commits; elsewhere capture does.
    committed = figures.committed.total() or capture.count("tidings_capture_transactions_total") or 0
    figures.transactions.sample(committed, at)
    figures.business.sample(figures.business_by_version.total(), at)


def take_events(
    figures: Figures, counts: Counter[tuple[str, int]], events: list[LatestEvent], latency: float | None
) -> None:
    """Put what the subscriber has read into the figures."""
    with figures.lock:
        figures.business_by_version = Counter(counts)
        figures.latest.extend(events)
        figures.latency_seconds = latency


def _or(value: T | None, otherwise: T | None) -> T | None:
    return otherwise if value is None else value


def _table(name: str) -> str:
    """``schema.table`` as the lake's tables are called."""
    return name.removeprefix("public.").replace(".", "_")
