"""What a sink task tells of itself: how far it is behind, for how long its system has been busy, and the metrics of it."""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from sink_loop_parts import (
    TOPIC,
    System,
    produce,
    sink_report,
    start,
)

from tidings_connect.herder.local_task import Counters
from tidings_connect.herder.sink_metrics import sink_metrics
from tidings_connect.series_bounds import SeriesBounds
from tidings_connect.task.channel import Report, SinkCounts, SinkReport
from tidings_connect.testing.memory_worker import MemoryWorker


def test_a_report_says_how_far_a_sink_is_behind_and_for_how_long_its_system_has_been_busy(
    worker: MemoryWorker, system: System
) -> None:
    system.busy.set()
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: len(system.tried) >= 3, "further attempts")
    produce(worker, 4, 7, partition=1)
    worker.wait_for(lambda: sink_report(worker).lags == {"numbers:0": 3, "numbers:1": 4}, "both lags")
    behind = sink_report(worker)
    assert behind.retrying_seconds > 0
    assert behind.paused == 2
    assert behind.counts.retries >= 2
    assert behind.counts.puts == behind.counts.commits == 0
    assert abs(time.time() - 1_700_000_000 - behind.lag_seconds) < 60, "as old as the oldest record"
    system.busy.clear()
    worker.wait_for(lambda: sink_report(worker).lags == {"numbers:0": 0, "numbers:1": 0}, "abreast")
    worker.wait_for(lambda: sink_report(worker).counts.commits > 0, "the commit")
    abreast = sink_report(worker)
    assert (abreast.retrying_seconds, abreast.lag_seconds, abreast.paused) == (0, 0, 0)
    assert abreast.counts.puts >= 1
    assert 0 < abreast.put_average_seconds <= abreast.put_longest_seconds <= abreast.counts.put_seconds


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        ({"source": {"ts_us": 1_600_000_000_000_000, "ts_ms": 1}}, []),
        ({"source": {"ts_ms": 1_600_000_000_000}}, []),
        ({"__source_ts_ms": 1_600_000_000_000}, []),
        ({}, [("ce_time", b"2020-09-13T12:26:40Z")]),
    ],
    ids=["envelope", "envelope in milliseconds", "flat", "event"],
)
def test_the_lag_since_the_commit_is_that_of_the_oldest_change_that_is_not_durable(
    worker: MemoryWorker, system: System, value: dict[str, Any], headers: list[tuple[str, bytes]]
) -> None:
    """Of a slow system: first it takes nothing, then it takes records and does not make them durable."""
    system.busy.set()
    system.busy_flushes = 1_000_000
    encoded = json.dumps({"number": 1, **value}).encode()
    worker.kafka.inputs.produce(
        TOPIC, None, encoded, partition=0, headers=headers
    )  # Kafka's time is 1,700,000,000 s
    start(worker)

    def is_old() -> bool:
        return abs(time.time() - 1_600_000_000 - sink_report(worker).commit_lag_seconds) < 5

    worker.wait_for(is_old, "the lag while nothing is taken")
    system.busy.clear()
    worker.wait_for(lambda: system.numbers == [1], "the record")
    worker.wait_for(lambda: sink_report(worker).lag_seconds == 0, "all put")
    worker.wait_for(is_old, "the lag while it is not durable")
    system.busy_flushes = 0
    worker.wait_for(lambda: sink_report(worker).commit_lag_seconds == 0, "all durable")


def test_a_record_without_a_commit_s_time_counts_from_its_own(worker: MemoryWorker, system: System) -> None:
    system.busy.set()
    produce(worker, 1, 1)
    start(worker)
    worker.wait_for(
        lambda: abs(time.time() - 1_700_000_000 - sink_report(worker).commit_lag_seconds) < 5, "the lag"
    )


def test_a_flush_that_fails_counts_as_a_commit_that_failed_and_as_busy(
    worker: MemoryWorker, system: System
) -> None:
    system.busy_flushes = 1000
    produce(worker, 1, 3)
    start(worker)
    worker.wait_for(lambda: sink_report(worker).counts.commit_failures > 2, "failures")
    assert sink_report(worker).retrying_seconds > 0
    assert sink_report(worker).counts.commits == 0
    system.busy_flushes = 0
    worker.wait_for(lambda: sink_report(worker).counts.commits == 1, "the commit")
    assert sink_report(worker).retrying_seconds == 0


def test_the_metrics_of_a_sink_go_by_task_and_partition(
    counting: None,
) -> None:
    run = SimpleNamespace(
        name="s", task=1, has_task=True, config={"connector.class": "List"},
        report=Report(
            "streaming", outstanding=5, partitions=3,
            sink=SinkReport(
                SinkCounts(3, 0.5, 3, 1, 7), 0.1, 0.3, {"a:0": 4, "a.b:1": 2, "c:0": 1}, 40.0, 3, 12.0, 50.0
            ),
        ),
        counters=lambda: Counters({"a": 8}, read=9, sink=SinkCounts(6, 1.0, 5, 2, 9)),
    )  # fmt: skip
    idle = SimpleNamespace(name="s", task=2, has_task=False, config=run.config)
    found = {
        (sample.name, *list(sample.labels.values())[2:]): sample.value
        for family in sink_metrics([run, idle], SeriesBounds(2))  # type: ignore[list-item]  # all that is asked for
        for sample in family.samples
    }
    assert found[("tidings_sink_lag_records", "a", "0")] == 4
    assert found[("tidings_sink_lag_records", "a.b", "1")] == 2
    assert found[("tidings_sink_lag_records", "other", "other")] == 1
    assert found[("tidings_sink_offset_commits_total", "ok")] == 5
    assert found[("tidings_sink_offset_commits_total", "failed")] == 2
    assert {name[0]: value for name, value in found.items() if len(name) == 1} == {
        "kafka_connect_sink_task_sink_record_read_total": 9,
        "kafka_connect_sink_task_sink_record_send_total": 8,
        "kafka_connect_sink_task_sink_record_active_count": 5,
        "kafka_connect_sink_task_partition_count": 3,
        "kafka_connect_sink_task_sink_record_lag_max": 4,
        "kafka_connect_sink_task_put_batch_avg_time_ms": 100,
        "kafka_connect_sink_task_put_batch_max_time_ms": 300,
        "kafka_connect_sink_task_offset_commit_completion_total": 5,
        "kafka_connect_connector_task_offset_commit_success_percentage": 0.75,
        "kafka_connect_connector_task_offset_commit_failure_percentage": 0.25,
        "kafka_connect_task_error_metrics_total_retries": 7,
        "tidings_sink_lag_seconds": 40,
        "tidings_sink_commit_lag_seconds": 50,
        "tidings_sink_retrying_seconds": 12,
        "tidings_sink_paused_partitions": 3,
        "tidings_sink_puts_total": 6,
        "tidings_sink_put_seconds_total": 1,
        "tidings_sink_retries_total": 9,
    }
