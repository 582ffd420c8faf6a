"""Metrics of connectors and tasks: read from the herder at every scrape, under Kafka Connect's and our names.

Kafka Connect's are those that the JMX exporter makes of its MBeans: so charts and alerts that a team has go on working.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_connect.herder.local_connector import FAILED, RUNNING, UNASSIGNED, ConnectorRun
from tidings_connect.herder.series_bounds import SeriesBounds
from tidings_connect.storage.records import PAUSED, STOPPED

_STATES = (RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED)


class ConnectorCollector(Collector):
    """What ``/metrics`` says about connectors and tasks."""

    def __init__(self, runs: Callable[[], Iterable[ConnectorRun]], bounds: SeriesBounds) -> None:
        """
        Args:
            bounds: how many series by topic each connector may have; forgets connectors that are gone.
        """
        self._runs = runs
        self._bounds = bounds

    def collect(self) -> Iterator[Metric]:
        """All families; counters survive a task's restarts, not the worker's."""
        runs = list(self._runs())
        yield from _states(runs)
        self._bounds.keep({run.name for run in runs})
        yield from _counters(runs, self._bounds)
        yield from _tasks(runs)


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


def _counters(runs: list[ConnectorRun], bounds: SeriesBounds) -> Iterator[Metric]:
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
        for topic, count in sorted(bounds.fold(run.name, "topic", counters.records).items()):
            records.add_metric([run.name, topic], count)
        transactions.add_metric([run.name], counters.transactions)
        restarts.add_metric([run.name], run.restarts)
        for code, count in sorted(run.errors.items()):
            errors.add_metric([run.name, code], count)
    yield from (records, transactions, restarts, errors, seen, skipped, letters, commits)


def _tasks(runs: list[ConnectorRun]) -> Iterator[Metric]:
    """Kafka Connect's counts of tasks and of source records."""
    connectors = GaugeMetricFamily("kafka_connect_worker_connector_count", "Connectors of the worker.")
    connectors.add_metric([], len(runs))
    tasks = GaugeMetricFamily("kafka_connect_worker_task_count", "Tasks of the worker.")
    tasks.add_metric([], sum(run.has_task for run in runs))
    yield from (connectors, tasks)
    for name, state in (
        ("running", RUNNING),
        ("paused", PAUSED),
        ("unassigned", UNASSIGNED),
        ("total", None),
    ):
        gauge = GaugeMetricFamily(
            f"kafka_connect_worker_connector_{name}_task_count",
            f"The connector's {name} tasks.",
            labels=["connector"],
        )
        for run in runs:
            gauge.add_metric([run.name], float(run.has_task and state in {None, run.task_state}))
        yield gauge
    labels = ["connector", "task"]
    status = GaugeMetricFamily(
        "kafka_connect_connector_task_status", "1 for the task's current state.", labels=[*labels, "status"]
    )
    written = CounterMetricFamily(
        "kafka_connect_source_task_source_record_write", "Records produced.", labels=labels
    )
    active = GaugeMetricFamily(
        "kafka_connect_source_task_source_record_active_count",
        "Records Kafka has not acknowledged.",
        labels=labels,
    )
    for run in runs:
        if run.has_task:
            for each in _STATES:
                status.add_metric([run.name, "0", each.lower()], float(run.task_state == each))
            written.add_metric([run.name, "0"], sum(run.counters().records.values()))
            active.add_metric([run.name, "0"], run.report.outstanding)
    yield from (status, written, active)
