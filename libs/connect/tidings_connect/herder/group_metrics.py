"""Metrics of a worker's group, read from the supervisor at every scrape."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidings_connect.herder.herder import Herder
from tidings_connect.task_id import TaskId


class GroupCollector(Collector):
    """What one worker knows of its group; nothing before it has joined."""

    def __init__(self, supervisor: Herder) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterator[Metric]:
        """For every scrape."""
        group = self._supervisor.group
        if group is None:
            return
        unassigned = sum(group.owner(TaskId(name)) is None for name in self._supervisor.connectors)
        for name, text, value in (
            ("group_member", "Whether this worker is in its group and may run tasks.", group.holds),
            ("group_leader", "Whether this worker leads its group.", group.leads),
            ("connectors_unassigned", "Connectors of the group that no worker is to run.", unassigned),
        ):
            yield GaugeMetricFamily(f"tidings_capture_{name}", text, value=float(value))
