"""Metrics of connectors and tasks: read from the herder at every scrape, under Kafka Connect's and our names.

Kafka Connect's are those that the JMX exporter makes of its MBeans: so charts and alerts that a team has go on working.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_connect.config.plugins import kind_of
from tidings_connect.herder.local_task import FAILED, RUNNING, UNASSIGNED, LocalTask
from tidings_connect.herder.sink_metrics import sink_metrics
from tidings_connect.series_bounds import SeriesBounds
from tidings_connect.storage.records import PAUSED, STOPPED

_STATES = (RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED)


class ConnectorCollector(Collector):
    """What ``/metrics`` says about connectors and tasks."""

    def __init__(self, runs: Callable[[], Iterable[LocalTask]], bounds: SeriesBounds) -> None:
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
        yield _lag(runs)
        yield from _tasks(runs)
        yield from sink_metrics(runs, self._bounds)


def _states(runs: list[LocalTask]) -> Iterator[Metric]:
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
            if not run.task:
                connector.add_metric([run.name, state.lower()], float(run.connector_state == state))
            if run.has_task:
                task.add_metric([run.name, str(run.task), state], float(run.task_state == state))
    for name, tasks in _by_connector(runs).items():
        failed.add_metric([name], sum(run.task_state == FAILED for run in tasks))
    yield from (connector, failed, task)


def _by_connector(runs: Iterable[LocalTask]) -> dict[str, list[LocalTask]]:
    """The tasks of each connector here."""
    found: dict[str, list[LocalTask]] = {}
    for run in runs:
        found.setdefault(run.name, []).append(run)
    return found


def _sums(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in counts:
        for name, count in each.items():
            found[name] += count
    return found


def _lag(runs: list[LocalTask]) -> Metric:
    lag = GaugeMetricFamily(
        "tidings_capture_lag_seconds", "Age of the last change; 0 when idle.", labels=["connector"]
    )
    for run in runs:
        if run.report.lag_seconds is not None:
            lag.add_metric([run.name], run.report.lag_seconds)
    return lag


def _counters(runs: list[LocalTask], bounds: SeriesBounds) -> Iterator[Metric]:
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
    findings = CounterMetricFamily(
        "tidings_capture_findings",
        "What a source's task found that its way of reading had missed, or may miss.",
        labels=["connector", "kind"],
    )
    for name, of_connector in _by_connector(runs).items():
        having = [run for run in of_connector if run.has_task]
        for run in having:
            key = [name, str(run.task)]
            seen.add_metric(key, run.report.record_errors)
            skipped.add_metric(key, run.report.records_skipped)
            letters.add_metric(key, run.report.dead_letters)
        if having:
            commits.add_metric([name], sum(run.report.kafka_transactions for run in having))
        counters = [run.counters() for run in of_connector]
        by_topic = _sums(each.records for each in counters)
        for topic, count in sorted(bounds.fold(name, "topic", by_topic).items()):
            records.add_metric([name, topic], count)
        transactions.add_metric([name], sum(each.transactions for each in counters))
        restarts.add_metric([name], sum(run.restarts for run in of_connector))
        for kind, count in sorted(_sums(each.findings for each in counters).items()):
            findings.add_metric([name, kind], count)
        for code, count in sorted(_sums(run.errors for run in of_connector).items()):
            errors.add_metric([name, code], count)
    yield from (records, transactions, restarts, errors, findings, seen, skipped, letters, commits)


def _tasks(runs: list[LocalTask]) -> Iterator[Metric]:
    """Kafka Connect's counts of tasks and of source records."""
    connectors = GaugeMetricFamily("kafka_connect_worker_connector_count", "Connectors of the worker.")
    connectors.add_metric([], sum(not run.task for run in runs))
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
        for connector, of_connector in _by_connector(runs).items():
            count = sum(run.has_task and state in {None, run.task_state} for run in of_connector)
            gauge.add_metric([connector], count)
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
            key = [run.name, str(run.task)]
            for each in _STATES:
                status.add_metric([*key, each.lower()], float(run.task_state == each))
            if kind_of(run.config) == "sink":
                continue
            written.add_metric(key, sum(run.counters().records.values()))
            active.add_metric(key, run.report.outstanding)
    yield from (status, written, active)
