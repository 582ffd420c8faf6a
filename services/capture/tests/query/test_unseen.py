"""What a query source never sees: as its configuration has it, and as `/metrics` tells it."""

from collections.abc import Mapping

import pytest
from distance_case import Host, Run
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from tidings_capture.query.connector import ConfluentJdbcSource, JdbcSource
from tidings_connect.series_bounds import SeriesBounds
from tidings_connect.task.channel import Report

BASE = {
    "connector.class": JdbcSource.class_name,
    "connection.url": "jdbc:postgresql://127.0.0.1:1/none",
    "topic.prefix": "q-",
    "timestamp.column.name": "updated",
    "incrementing.column.name": "id",
}
COMPARED = {"tidings.reconciliation.interval.ms": "1000", "tidings.record.key": "primary.key"}
MODES: list[tuple[Mapping[str, str], set[str]]] = [
    ({"mode": "bulk"}, set()),
    ({"mode": "incrementing"}, {"deleted", "updated", "late"}),
    ({"mode": "timestamp"}, {"deleted", "between_polls", "late", "equal_timestamp"}),
    ({"mode": "timestamp+incrementing"}, {"deleted", "between_polls", "late"}),
    ({"mode": "timestamp+incrementing", "tidings.late.commits": "wait"}, {"deleted", "between_polls"}),
    ({"mode": "incrementing"} | COMPARED, {"between_polls"}),
    ({"mode": "timestamp"} | COMPARED, {"between_polls"}),
    (
        {"mode": "timestamp"} | COMPARED | {"tidings.reconciliation.deletes": "ignore"},
        {"between_polls", "deleted"},
    ),
]


def watched(host: Host) -> CollectorRegistry:
    """What a worker has beside its query sources."""
    registry = CollectorRegistry()
    for connector in (JdbcSource(), ConfluentJdbcSource()):
        companion = connector.companion(host, SeriesBounds(100))  # type: ignore[arg-type] - what it uses of it
        for collector in companion.collectors if companion else ():
            registry.register(collector)
    return registry


def shown(registry: CollectorRegistry) -> set[tuple[str, str]]:
    """Connector and kind of each series, as ``/metrics`` has them."""
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    assert all(line.startswith("tidings_query_unseen{") and line.endswith(" 1.0") for line in lines)
    return {(line.split('"')[1], line.split('"')[3]) for line in lines}


@pytest.mark.parametrize(("options", "unseen"), MODES)
@pytest.mark.parametrize("kind", [JdbcSource, ConfluentJdbcSource])
def test_metrics_tell_what_a_configuration_does_not_see(
    kind: type[JdbcSource], options: Mapping[str, str], unseen: set[str]
) -> None:
    config = {**BASE, **options, "connector.class": kind.class_name}
    other = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}
    report = Report(state="running")
    host = Host(
        {
            "shop": Run(config, report),
            "log": Run(other, report),
            "wrong": Run({**config, "connection.url": "nothing"}, report),
        }
    )
    assert shown(watched(host)) == {("shop", one) for one in unseen}


def test_a_configuration_that_cannot_be_read_is_told_once() -> None:
    run = Run({**BASE, "connection.url": "nothing"}, Report(state="running"))
    registry = watched(Host({"shop": run}))
    with capture_logs() as logs:
        assert [shown(registry) for _ in range(3)] == [set()] * 3
        run.config = {**BASE, "mode": "bulk"}
        shown(registry)
        run.config = {**BASE, "connection.url": "nothing"}
        shown(registry)
    assert [log["connector"] for log in logs] == ["shop", "shop"]


def test_another_configuration_is_read_anew() -> None:
    run = Run({**BASE, "mode": "incrementing"}, Report(state="running"))
    host = Host({"shop": run})
    registry = watched(host)
    assert shown(registry) == {("shop", "deleted"), ("shop", "updated"), ("shop", "late")}
    run.config = {**BASE, "mode": "bulk"}
    assert shown(registry) == set()
    run.config = {**BASE, "mode": "incrementing"} | COMPARED
    assert shown(registry) == {("shop", "between_polls")}
    del host.local_runs["shop"]
    assert shown(registry) == set()
