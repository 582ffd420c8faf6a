"""What runs in the worker beside PostgreSQL connectors: watches slots and WAL, and guards the servers' disks."""

from collections.abc import Sequence

from prometheus_client.registry import Collector

from tidings_capture.postgres.metrics import CaptureCollector
from tidings_capture.postgres.settings.option_table import CONNECTOR_CLASS
from tidings_capture.postgres.settings.worker_options import wal_interval_seconds
from tidings_capture.postgres.wal.guard import Guard
from tidings_capture.postgres.wal.monitor import WalMonitor
from tidings_capture.postgres.wal.slots import SlotCollector, own_slots
from tidings_connect.config.plugins import connector_of
from tidings_connect.connector import Host, RunningTask
from tidings_connect.herder.tagged_collector import TaggedCollector
from tidings_connect.series_bounds import SeriesBounds


class SlotCompanion:
    """The monitor, the guard, and the metrics of a worker's PostgreSQL connectors."""

    name = "slots"

    def __init__(self, host: Host, bounds: SeriesBounds) -> None:
        def runs() -> list[RunningTask]:
            return [run for run in list(host.local_runs.values()) if _is_ours(run)]

        wal = WalMonitor(
            lambda: own_slots(runs(), host.resolved), wal_interval_seconds(host.worker.connector_properties)
        )
        self._wal, self._guard = wal, Guard(host, wal, runs)
        tagged = TaggedCollector(
            CaptureCollector(runs, bounds), lambda: [(run.name, run.config) for run in runs()]
        )
        self.collectors: Sequence[Collector] = (
            tagged,
            SlotCollector(runs, lambda: wal.known, wal.server),
            wal,
            self._guard,
        )

    async def run(self) -> None:
        """Look at every server, and act, until cancelled."""
        await self._wal.run(self._guard.act)


def _is_ours(run: RunningTask) -> bool:
    connector = connector_of(run.config)
    return connector is not None and connector.class_name == CONNECTOR_CLASS
