"""Fills the figures, from the services' /metrics and from PostgreSQL, twice a second, in a thread."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from tidings_service.errors import TidingsError
from tidings_shop.database import TABLES, ShopDatabase
from tidings_shop.demo import pages
from tidings_shop.demo.figures import Figures, LatestEvent
from tidings_shop.demo.pages import Samples
from tidings_shop.traffic import TrafficSummary

_PERIOD_SECONDS = 0.5

T = TypeVar("T")


class Feed:
    """Reads all figures again and again.

    Args:
        urls: base addresses of the services, by name: capture, sequencer, translator, lakehouse.
        database_url: for the slot; a connection of its own.
        slot: name of the replication slot.
        source: the technical topics' prefix.
    """

    def __init__(
        self, figures: Figures, urls: Mapping[str, str], *, database_url: str, slot: str, source: str = "shop"
    ) -> None:
        self._figures = figures
        self._urls = dict(urls)
        self._database_url = database_url
        self._slot = slot
        self._prefix = f"{source}.public."
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
        database: ShopDatabase | None = None
        while not self._stop.wait(_PERIOD_SECONDS):
            samples = {name: pages.read_metrics(url) or Samples() for name, url in self._urls.items()}
            with self._figures.lock:
                take_metrics(self._figures, samples, prefix=self._prefix, at=time.monotonic())
            try:
                database = database or ShopDatabase(self._database_url)
                slot = database.slot(self._slot)
            except TidingsError:  # shown as an old figure; whoever needs the database reports it
                database = None
                continue
            with self._figures.lock:
                self._figures.retained_wal_bytes = slot.retained_bytes if slot else None
                self._figures.capture_lag.bytes = slot.unconfirmed_bytes if slot else None
            self.readings += 1
        if database is not None:
            database.close()


def take_metrics(figures: Figures, samples: Mapping[str, Samples], *, prefix: str, at: float) -> None:
    """Put one reading of all services' metrics into the figures; what nobody says stays as it was."""
    capture, sequencer = samples["capture"], samples["sequencer"]
    translator, lakehouse = samples["translator"], samples["lakehouse"]
    technical = {
        topic.removeprefix(prefix): count
        for topic, count in capture.by("tidings_capture_records_total", "topic").items()
        if topic.startswith(prefix)
    }
    if technical:
        figures.technical_by_table = Counter({table: technical.get(table, 0) for table in TABLES})
        figures.technical.sample(sum(technical.values()), at)
    figures.capture_lag.seconds = _or(
        capture.highest("tidings_capture_lag_seconds"), figures.capture_lag.seconds
    )
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
    figures.transactions.sample(figures.committed.total(), at)
    figures.business.sample(figures.business_by_version.total(), at)


def take_traffic(figures: Figures, summary: TrafficSummary) -> None:
    """Put what traffic has committed so far into the figures."""
    with figures.lock:
        figures.committed = Counter(summary.committed)
        figures.rolled_back = summary.not_committed["rolled_back"]


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
