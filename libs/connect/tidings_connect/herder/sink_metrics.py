"""Metrics of sinks' tasks, under Kafka Connect's names and ours; `ConnectorCollector` gives them with the others."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidings_connect.config.plugins import kind_of
from tidings_connect.herder.local_task import LocalTask
from tidings_connect.series_bounds import OTHER, SeriesBounds
from tidings_connect.task.channel import SinkCounts

_TASK = ("connector", "task")
_GAUGES = {
    "kafka_connect_sink_task_sink_record_active_count": "Records read and not yet taken by the task.",
    "kafka_connect_sink_task_partition_count": "Partitions of the task.",
    "kafka_connect_sink_task_sink_record_lag_max": "Records not put of the partition that has most of them.",
    "kafka_connect_sink_task_put_batch_avg_time_ms": "How long a put takes, of the last half minute to minute.",
    "kafka_connect_sink_task_put_batch_max_time_ms": "How long the longest put took, likewise.",
    "kafka_connect_connector_task_offset_commit_success_percentage": "Share of commits that succeeded, 0 to 1.",
    "kafka_connect_connector_task_offset_commit_failure_percentage": "Share of commits that failed, 0 to 1.",
    "kafka_connect_task_error_metrics_total_retries": "Puts and steps before them that were tried again.",
    "tidings_sink_lag_seconds": "How old the oldest record is that the task has not put; 0: it has put all.",
    "tidings_sink_commit_lag_seconds": "How long ago the oldest change was committed at its source that the system does not have "
    "durably; 0: it has all.",
    "tidings_sink_retrying_seconds": "Since when the sink's system has been busy without a break; 0 while it is not.",
    "tidings_sink_paused_partitions": "Partitions that rest because the system is busy.",
}
_COUNTERS = {
    "kafka_connect_sink_task_sink_record_read": "Records read from topics.",
    "kafka_connect_sink_task_sink_record_send": "Records given to the task.",
    "kafka_connect_sink_task_offset_commit_completion": "Commits of offsets.",
    "tidings_sink_puts": "Batches that the task has taken.",
    "tidings_sink_put_seconds": "How long all puts took.",
    "tidings_sink_retries": "Puts and steps before them that were tried again.",
}


def sink_metrics(runs: Iterable[LocalTask], bounds: SeriesBounds) -> Iterator[Metric]:
    """All families; without samples where no sink runs."""
    gauges = {name: GaugeMetricFamily(name, text, labels=_TASK) for name, text in _GAUGES.items()}
    counters = {name: CounterMetricFamily(name, text, labels=_TASK) for name, text in _COUNTERS.items()}
    lag = GaugeMetricFamily(
        "tidings_sink_lag_records",
        "Records of a partition that the task has not put.",
        labels=[*_TASK, "topic", "partition"],
    )
    commits = CounterMetricFamily(
        "tidings_sink_offset_commits",
        "Commits of offsets, ok or failed (nothing was made durable, or Kafka refused).",
        labels=[*_TASK, "outcome"],
    )
    for run in runs:
        if not run.has_task or kind_of(run.config) != "sink":
            continue
        key = [run.name, str(run.task)]
        for name, value in _gauge_values(run).items():
            gauges[name].add_metric(key, value)
        for name, value in _counter_values(run).items():
            counters[name].add_metric(key, value)
        for place, count in sorted(
            bounds.fold(run.name, f"partitions of {run.task}", run.report.sink.lags).items()
        ):
            topic, _, partition = (OTHER, "", OTHER) if place == OTHER else place.rpartition(":")
            lag.add_metric([*key, topic, partition], count)
        counts = run.counters().sink
        commits.add_metric([*key, "ok"], counts.commits)
        commits.add_metric([*key, "failed"], counts.commit_failures)
    yield from (*gauges.values(), *counters.values(), lag, commits)


def _gauge_values(run: LocalTask) -> dict[str, float]:
    report = run.report.sink
    succeeded = _share_of_successes(report.counts)
    values = (
        run.report.outstanding,
        run.report.partitions,
        max(report.lags.values(), default=0),
        report.put_average_seconds * 1000,
        report.put_longest_seconds * 1000,
        succeeded,
        1 - succeeded,
        report.counts.retries,
        report.lag_seconds,
        report.commit_lag_seconds,
        report.retrying_seconds,
        report.paused,
    )
    return dict(zip(_GAUGES, values, strict=True))


def _counter_values(run: LocalTask) -> dict[str, float]:
    counters = run.counters()
    values = (
        counters.read,
        sum(counters.records.values()),
        counters.sink.commits,
        counters.sink.puts,
        counters.sink.put_seconds,
        counters.sink.retries,
    )
    return dict(zip(_COUNTERS, values, strict=True))


def _share_of_successes(counts: SinkCounts) -> float:
    """Since the task's process started; 1 before the first commit."""
    attempts = counts.commits + counts.commit_failures
    return counts.commits / attempts if attempts else 1.0
