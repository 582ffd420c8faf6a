"""Metrics of change data capture: read from the herder at every scrape, under Debezium's and our names.

Debezium's are those that the JMX exporter makes of its MBeans (Debezium's example for monitoring): so charts and alerts
that a team has go on working. Where Debezium says -1, so do we.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.postgres.offsets.losses import REASONS
from tidings_capture.postgres.streaming.report import stream_report
from tidings_connect.connector import RunningTask
from tidings_connect.kafka.producer import QUEUE_RECORDS
from tidings_connect.series_bounds import SeriesBounds

_INPUT_ERRORS = ("pgoutput", "conversion")
_PLUGIN = "postgres"


class CaptureCollector(Collector):
    """What ``/metrics`` says about what connectors capture."""

    def __init__(self, runs: Callable[[], Iterable[RunningTask]], bounds: SeriesBounds) -> None:
        """
        Args:
            bounds: how many series by table each connector may have.
        """
        self._runs = runs
        self._bounds = bounds

    def collect(self) -> Iterator[Metric]:
        """All families; counters survive a task's restarts, not the worker's."""
        runs = list(self._runs())
        yield from _losses(runs)
        yield from _streaming(runs)
        yield from _snapshots(runs, self._bounds)
        yield from _own(runs, self._bounds)


def _losses(runs: list[RunningTask]) -> Iterator[Metric]:
    losses = CounterMetricFamily(
        "tidings_capture_losses",
        "Losses of changes that on.slot.loss dealt with.",
        labels=["connector", "reason"],
    )
    recovering = GaugeMetricFamily(
        "tidings_capture_recovering",
        "Whether tables are being read again after a loss.",
        labels=["connector"],
    )
    for run in runs:
        counters = run.counters()
        for reason in REASONS:  # also those that are 0: an alert sees only what grows
            losses.add_metric([run.name, reason], counters.losses.get(reason, 0))
        recovering.add_metric([run.name], float(stream_report(run.report).recovering))
    yield from (losses, recovering)


def _key(run: RunningTask, context: str) -> list[str]:
    return [_PLUGIN, run.config.get("topic.prefix", run.name), "0", context]


def _debezium(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"debezium_metrics_{name}", text, labels=["plugin", "name", "task", "context"])


def _streaming(runs: list[RunningTask]) -> Iterator[Metric]:
    behind = _debezium("MilliSecondsBehindSource", "Age of the last change; 0 when idle.")
    since = _debezium(
        "MilliSecondsSinceLastEvent", "Since the last transaction seen was committed; -1 before the first."
    )
    seen = _debezium("TotalNumberOfEventsSeen", "Messages read from the server.")
    committed = _debezium("NumberOfCommittedTransactions", "Transactions streamed.")
    erroneous = _debezium("NumberOfErroneousEvents", "Messages that could not be decoded or converted.")
    connected = _debezium("Connected", "Whether the task streams from the server.")
    capacity = _debezium("QueueTotalCapacity", "Records that may wait for Kafka.")
    remaining = _debezium("QueueRemainingCapacity", "Records that may still be queued for Kafka.")
    for run in runs:
        key, report, counters = _key(run, "streaming"), run.report, run.counters()
        behind.add_metric(key, (report.lag_seconds or 0.0) * 1000)
        age = time.time() * 1000 - report.last_commit_us / 1000 if report.last_commit_us else -1.0
        since.add_metric(key, max(age, -1.0))
        seen.add_metric(key, counters.events)
        committed.add_metric(key, counters.transactions)
        erroneous.add_metric(key, sum(run.errors.get(code, 0) for code in _INPUT_ERRORS))
        connected.add_metric(key, float(report.connected))
        capacity.add_metric(key, QUEUE_RECORDS)
        remaining.add_metric(key, max(0, QUEUE_RECORDS - report.outstanding))
    yield from (behind, since, seen, committed, erroneous, connected, capacity, remaining)


def _snapshots(runs: list[RunningTask], bounds: SeriesBounds) -> Iterator[Metric]:
    running = _debezium("SnapshotRunning", "Whether a snapshot is being taken.")
    completed = _debezium("SnapshotCompleted", "Whether the task's snapshot was taken as a whole.")
    aborted = _debezium("SnapshotAborted", "Whether the task's snapshot ended before it was whole.")
    total = _debezium("TotalTableCount", "Tables of the running or last snapshot.")
    remaining = _debezium("RemainingTableCount", "Tables the snapshot has yet to read.")
    scanned = GaugeMetricFamily(
        "debezium_metrics_RowsScanned", "Rows the snapshot has read of the table.",
        labels=["plugin", "name", "context", "table"],
    )  # fmt: skip
    for run in runs:
        key, tables = _key(run, "snapshot"), run.report.snapshot_tables
        left = sum(table.state != "done" for table in tables.values())
        now = run.report.state == "snapshot"
        running.add_metric(key, float(now))
        completed.add_metric(key, float(bool(tables) and not left and not now))
        aborted.add_metric(key, float(bool(left) and not now))
        total.add_metric(key, len(tables))
        remaining.add_metric(key, left)
        for name, rows in _table_rows(run, bounds).items():
            scanned.add_metric([key[0], key[1], key[3], name], rows)
    yield from (running, completed, aborted, total, remaining, scanned)


def _table_rows(run: RunningTask, bounds: SeriesBounds) -> dict[str, float]:
    tables = run.report.snapshot_tables
    return bounds.fold(run.name, "table", {name: table.rows for name, table in tables.items()})


def _own(runs: list[RunningTask], bounds: SeriesBounds) -> Iterator[Metric]:
    """What nobody else has a name for."""
    one, by_table = ["connector"], ["connector", "table"]
    queued = GaugeMetricFamily(
        "tidings_capture_outstanding_records", "Records Kafka has not acknowledged.", labels=one
    )
    trip = GaugeMetricFamily(
        "tidings_capture_heartbeat_round_trip_seconds",
        "How long the last heartbeat took from the database's WAL through the stream.", labels=one,
    )  # fmt: skip
    pending = GaugeMetricFamily(
        "tidings_capture_heartbeat_pending_seconds",
        "How long the heartbeat that is under way has been; 0 when none is.", labels=one,
    )  # fmt: skip
    age = GaugeMetricFamily(
        "tidings_capture_report_age_seconds",
        "How long ago the task's process last reported; none while no process runs.", labels=one,
    )  # fmt: skip
    spilled = GaugeMetricFamily(
        "tidings_capture_spilled_bytes",
        "Changes of unfinished transactions that the task has written to its disk since it began.", labels=one,
    )  # fmt: skip
    on_disk = GaugeMetricFamily(
        "tidings_capture_spool_bytes",
        "What changes of unfinished transactions take on the task's disk now.", labels=one,
    )  # fmt: skip
    rows = GaugeMetricFamily(
        "tidings_capture_snapshot_rows", "Rows the running or last snapshot has read.", labels=one
    )
    left = GaugeMetricFamily(
        "tidings_capture_snapshot_tables_left", "Tables the snapshot has yet to read.", labels=one
    )
    table_rows = GaugeMetricFamily(
        "tidings_capture_snapshot_table_rows", "Rows the snapshot has read of the table.", labels=by_table
    )
    estimated = GaugeMetricFamily(
        "tidings_capture_snapshot_table_estimated_rows",
        "Rows the server's statistics estimate for a table of the snapshot.",
        labels=by_table,
    )
    folded = GaugeMetricFamily(
        "tidings_capture_folded_series",
        "Topics and tables that are counted under the label other, because there are too many.", labels=one,
    )  # fmt: skip
    for run in runs:
        key, report, own = [run.name], run.report, stream_report(run.report)
        queued.add_metric(key, report.outstanding)
        if own.heartbeat_seconds is not None:
            trip.add_metric(key, own.heartbeat_seconds)
        pending.add_metric(key, own.heartbeat_pending_seconds)
        if (seconds := run.report_age_seconds) is not None:
            age.add_metric(key, seconds)
        spilled.add_metric(key, own.spilled_bytes)
        on_disk.add_metric(key, own.disk_bytes)
        rows.add_metric(key, report.snapshot_rows)
        tables = report.snapshot_tables
        left.add_metric(key, sum(table.state != "done" for table in tables.values()))
        for name, count in _table_rows(run, bounds).items():
            table_rows.add_metric([run.name, name], count)
            if name in tables and (guess := tables[name].estimated) is not None:
                estimated.add_metric([run.name, name], guess)
        folded.add_metric(key, bounds.folded(run.name))
    yield from (queued, trip, pending, age, spilled, on_disk, rows, left, table_rows, estimated, folded)
