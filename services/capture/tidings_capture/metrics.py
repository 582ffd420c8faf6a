"""Connector metrics: read from the supervisor at every scrape, under Kafka Connect's, Debezium's and our names."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.connector_run import FAILED, RUNNING, UNASSIGNED, ConnectorRun
from tidings_capture.stores import PAUSED, STOPPED

_STATES = (RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED)


class ConnectorCollector(Collector):
    """What ``/metrics`` says about connectors and tasks."""

    def __init__(self, runs: Callable[[], Iterable[ConnectorRun]]) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        """All families; counters survive a task's restarts, not the worker's."""
        runs = list(self._runs())
        yield from _states(runs)
        yield from _counters(runs)
        yield from _streaming(runs)


def _states(runs: list[ConnectorRun]) -> Iterator[Metric]:
    connector = GaugeMetricFamily(
        "kafka_connect_connector_status",
        "1 for the connector's current state.",
        labels=["connector", "status"],
    )
    failed = GaugeMetricFamily(
        "kafka_connect_worker_connector_failed_task_count",
        "Failed tasks of the connector.",
        labels=["connector"],
    )
    task = GaugeMetricFamily(
        "tidings_capture_task_state", "1 for the task's current state.", labels=["connector", "task", "state"]
    )
    for run in runs:
        for state in _STATES:
            connector.add_metric([run.name, state.lower()], float(run.connector_state == state))
            if run.has_task:
                task.add_metric([run.name, "0", state], float(run.task_state == state))
        failed.add_metric([run.name], float(run.task_state == FAILED))
    yield from (connector, failed, task)


def _counters(runs: list[ConnectorRun]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "tidings_capture_records", "Records produced, by topic.", labels=["connector", "topic"]
    )
    transactions = CounterMetricFamily(
        "tidings_capture_transactions", "Transactions streamed.", labels=["connector"]
    )
    restarts = CounterMetricFamily(
        "tidings_capture_task_restarts", "Restarts of the task after an error.", labels=["connector"]
    )
    errors = CounterMetricFamily(
        "tidings_capture_errors", "Errors that ended the task's process.", labels=["connector", "code"]
    )
    task = ["connector", "task"]
    # Gauges, because that is what Kafka Connect's JMX exporters make of them: their names have no suffix.
    seen = GaugeMetricFamily(
        "kafka_connect_task_error_metrics_total_record_errors",
        "Errors of single records since the task's process started.",
        labels=task,
    )
    skipped = GaugeMetricFamily(
        "kafka_connect_task_error_metrics_total_records_skipped",
        "Records left out by errors.tolerance=all since the task's process started.",
        labels=task,
    )
    letters = GaugeMetricFamily(
        "kafka_connect_task_error_metrics_deadletterqueue_produce_requests",
        "Dead letters since the task's process started.",
        labels=task,
    )
    commits = GaugeMetricFamily(
        "tidings_capture_kafka_transactions",
        "Kafka transactions committed since the task's process started (exactly once).",
        labels=["connector"],
    )
    for run in runs:
        report = run.report
        if run.has_task:
            seen.add_metric([run.name, "0"], report.record_errors)
            skipped.add_metric([run.name, "0"], report.records_skipped)
            letters.add_metric([run.name, "0"], report.dead_letters)
            commits.add_metric([run.name], report.kafka_transactions)
        counters = run.counters()
        for topic, count in sorted(counters.records.items()):
            records.add_metric([run.name, topic], count)
        transactions.add_metric([run.name], counters.transactions)
        restarts.add_metric([run.name], run.restarts)
        for code, count in sorted(run.errors.items()):
            errors.add_metric([run.name, code], count)
    yield from (records, transactions, restarts, errors, seen, skipped, letters, commits)


def _streaming(runs: list[ConnectorRun]) -> Iterator[Metric]:
    labels = ["plugin", "name", "task", "context"]
    behind = GaugeMetricFamily(
        "debezium_metrics_MilliSecondsBehindSource", "Age of the last change; 0 when idle.", labels=labels
    )
    seen = GaugeMetricFamily(
        "debezium_metrics_TotalNumberOfEventsSeen", "Messages read from the server.", labels=labels
    )
    connected = GaugeMetricFamily(
        "debezium_metrics_Connected", "Whether the task streams from the server.", labels=labels
    )
    lag = GaugeMetricFamily(
        "tidings_capture_lag_seconds", "Age of the last change; 0 when idle.", labels=["connector"]
    )
    queued = GaugeMetricFamily(
        "tidings_capture_outstanding_records", "Records Kafka has not acknowledged.", labels=["connector"]
    )
    rows = GaugeMetricFamily(
        "tidings_capture_snapshot_rows", "Rows the running or last snapshot has read.", labels=["connector"]
    )
    left = GaugeMetricFamily(
        "tidings_capture_snapshot_tables_left", "Tables the snapshot has yet to read.", labels=["connector"]
    )
    by_table = ["connector", "table"]
    table_rows = GaugeMetricFamily(
        "tidings_capture_snapshot_table_rows", "Rows the snapshot has read of the table.", labels=by_table
    )
    estimated = GaugeMetricFamily(
        "tidings_capture_snapshot_table_estimated_rows",
        "Rows the server's statistics estimate for a table of the snapshot.",
        labels=by_table,
    )
    for run in runs:
        key, report = ["postgres", run.name, "0", "streaming"], run.report
        behind.add_metric(key, report.lag_seconds * 1000)
        seen.add_metric(key, run.counters().events)
        connected.add_metric(key, float(report.connected))
        lag.add_metric([run.name], report.lag_seconds)
        queued.add_metric([run.name], report.outstanding)
        rows.add_metric([run.name], report.snapshot_rows)
        tables = report.snapshot_tables
        left.add_metric([run.name], sum(table.state != "done" for table in tables.values()))
        for name, table in tables.items():
            table_rows.add_metric([run.name, name], table.rows)
            if table.estimated is not None:
                estimated.add_metric([run.name, name], table.estimated)
    yield from (behind, seen, connected, lag, queued, rows, left, table_rows, estimated)
