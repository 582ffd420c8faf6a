"""The demo's course: up, a minute of traffic, everything drained, everything compared.

It runs in a thread of its own and fills the figures; whoever owns them draws them.
"""

import concurrent.futures
import contextlib
import threading
import time
from collections import Counter

from tidings_service.errors import TidingsError
from tidings_shop.database import ShopDatabase
from tidings_shop.demo.broker import topic_of
from tidings_shop.demo.checks import Verdict
from tidings_shop.demo.gather import gather
from tidings_shop.demo.pipeline import SLOT, Options, Pipeline
from tidings_shop.demo.sentences import sentence
from tidings_shop.demo.shown import EVENTS
from tidings_shop.errors import DemoError
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic
from tidings_stack.pipeline.feed import Feed, take_events
from tidings_stack.pipeline.figures import Figures, LatestEvent, State
from tidings_stack.pipeline.screen import Stopped
from tidings_stack.pipeline.tap import EventTap

_TOPICS = "^shop\\.[a-z-]+\\.v[0-9]+$"
_READY_SECONDS = 300.0
_DRAIN_SECONDS = 600.0
_COMPARE_SECONDS = 600.0
_STABLE_SECONDS = 2.0
_STABLE_BUT_OFF_SECONDS = 20.0


class LogWatch:
    """Asks for the log that capture reads on a connection of its own, which it opens again when it is lost."""

    def __init__(self, url: str, slot: str) -> None:
        self._url, self._slot = url, slot
        self._database: ShopDatabase | None = None

    def look(self) -> tuple[int, int | None] | None:
        """Bytes retained, and unconfirmed where the server is told; None while nobody knows."""
        try:
            self._database = self._database or ShopDatabase(self._url)
            reader = self._database.log_reader(self._slot)
        except TidingsError:  # shown as an old figure; whoever needs the database reports it
            self._database = None
            return None
        return None if reader is None else (reader.retained_bytes, reader.unconfirmed_bytes)

    def close(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()


class Demo:
    """One run of the demo.

    Args:
        stop: when it is set, whatever goes on ends with `Stopped`.
    """

    def __init__(self, options: Options, figures: Figures, stop: threading.Event) -> None:
        self._options = options
        self._figures = figures
        self._stop = stop
        self._threads = contextlib.ExitStack()
        self._tap: EventTap | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="demo")
        self.pipeline = Pipeline(options, figures, self._pause)

    def close(self) -> None:
        """Stop everything."""
        self._stop.set()
        self._threads.close()
        self.pipeline.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self) -> Verdict:
        """Do everything, and compare.

        Raises:
            DemoError: when a service dies or does not get ready.
            TidingsError, StackError: when a server cannot be started or the database is lost.
            Stopped: when somebody asked for it.
        """
        self.pipeline.bring_up()
        self._watch()
        summary = self._traffic()
        remarks = self._drain(summary)
        return self._compare(summary, remarks)

    def stay(self) -> None:
        """Look after the services until somebody asks to stop.

        Raises:
            DemoError: when a service dies.
        """
        with contextlib.suppress(Stopped):
            while True:
                self.pipeline.tick()

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped
        self._figures.elapsed = self.pipeline.elapsed()
        if self._tap is not None and self._tap.error is not None:
            raise DemoError(self._tap.error)

    def _watch(self) -> None:
        stack = self.pipeline.stack
        topics = {
            topic_of(name, version): (name, version) for name, versions in EVENTS for version in versions
        }
        log = LogWatch(self.pipeline.database_url, SLOT)
        self._threads.callback(log.close)  # after the feed, which asks it
        feed = Feed(self._figures, self.pipeline.urls, look=log.look, prefix="shop.public.")
        tap = EventTap(stack.kafka.bootstrap, stack.registry.url, topics, _TOPICS, sentence, self._on_events)
        for thread in (feed, tap):
            thread.start()
            self._threads.callback(thread.close)
        self._tap = tap

    def _on_events(
        self, counts: Counter[tuple[str, int]], events: list[LatestEvent], latency: float | None
    ) -> None:
        if self._figures.first_event_seconds is None:
            self._figures.first_event_seconds = self.pipeline.elapsed()
        take_events(self._figures, counts, events, latency)

    def _traffic(self) -> TrafficSummary:
        options, figures = self._options, self._figures
        figures.phase = f"traffic, {options.rate:g} transactions a second"
        summary = TrafficSummary(options.seed)
        begin, enough = time.monotonic(), threading.Event()
        traffic = self._pool.submit(self._customers, summary, enough)
        try:
            while not traffic.done():
                figures.progress = (time.monotonic() - begin) / options.seconds
                self.pipeline.tick()
        finally:
            enough.set()
        traffic.result()
        take_traffic(figures, summary)
        return summary

    def _customers(self, summary: TrafficSummary, enough: threading.Event) -> None:
        options = self._options
        with ShopDatabase(self.pipeline.database_url) as database:
            run_traffic(
                database,
                prepare_plan(database, options.seed, rate=options.rate),
                summary,
                rate=options.rate,
                seconds=options.seconds,
                stop=enough,
                on_transaction=lambda so_far: take_traffic(self._figures, so_far),
            )

    def _drain(self, summary: TrafficSummary) -> tuple[str, ...]:
        """Wait until nobody has anything left to do; what is in the way after the deadline is the answer."""
        figures = self._figures
        figures.progress = -1
        late = [part.name for part in figures.parts if part.state is not State.READY]
        if late:
            figures.phase = f"waiting for {', '.join(late)}"
        self.pipeline.until(self.pipeline.all_ready, _READY_SECONDS, "every service to be ready")
        expected = sum(summary.facts.values()) + summary.facts["OrderPlaced"]  # which has two versions
        deadline = time.monotonic() + _DRAIN_SECONDS
        stable_since, last = time.monotonic(), (0, 0, 0)
        while True:
            with figures.lock:
                behind = figures.behind()
                totals = (figures.technical.total, figures.business_by_version.total(), figures.lake.total)
            figures.phase = f"letting the pipeline drain, {behind:,} records to go"
            if totals != last or behind or figures.unknown():
                stable_since, last = time.monotonic(), totals
            stable = time.monotonic() - stable_since
            complete = totals[1] == expected and figures.in_lake() == (totals[0], expected)
            if stable > (_STABLE_SECONDS if complete else _STABLE_BUT_OFF_SECONDS):
                return ()  # what is off then, the comparison says
            if time.monotonic() > deadline:
                unknown = ", ".join(figures.unknown())
                return (
                    f"the pipeline did not drain in {_DRAIN_SECONDS:.0f} s: {behind} records to go"
                    + (f", no figures from {unknown}" if unknown else ""),
                )
            self.pipeline.tick()

    def _compare(self, summary: TrafficSummary, remarks: tuple[str, ...]) -> Verdict:
        pipeline = self.pipeline
        self._figures.phase = "comparing the database, the topics and the lake"
        verdict = self._pool.submit(
            gather,
            summary,
            database_url=pipeline.database_url,
            bootstrap=pipeline.stack.kafka.bootstrap,
            environment=pipeline.environment(),
            directory=self._options.directory,
            remarks=remarks,
        )
        pipeline.until(verdict.done, _COMPARE_SECONDS, "the comparison")
        return verdict.result()


def take_traffic(figures: Figures, summary: TrafficSummary) -> None:
    """Put what traffic has committed so far into the figures."""
    with figures.lock:
        figures.committed = Counter(summary.committed)
        figures.rolled_back = summary.not_committed["rolled_back"]
