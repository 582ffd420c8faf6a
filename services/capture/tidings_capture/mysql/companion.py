"""What runs in the worker beside connectors of MariaDB and MySQL: watches how far each is from losing changes (`binlog_distance`)."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.cdc.forecast import rate_of, recent, seconds_until
from tidings_capture.mysql.binlog_distance import BinaryLogs, Distance, binary_logs, distance
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.settings.config import read_config
from tidings_connect.connector import Host, RunningTask
from tidings_connect.errors import ConnectError
from tidings_connect.threads import Threads
from tidings_service import get_logger

INTERVAL_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 30.0
"""How long a look at a server may take."""
_SERVERS: Final = 8
"""How many are looked at at a time."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    server: str
    distance: Distance
    logs: BinaryLogs
    limit_seconds: float | None
    """Until the server removes the connector's file for want of room, as the log behind it grows now; None without a limit."""


_GAUGES: Final[tuple[tuple[str, str, Callable[[_Look], float | None]], ...]] = (
    ("tidings_binlog_behind_bytes", "Binary log behind the connector's stored position.", lambda look: look.distance.behind_bytes),
    ("tidings_binlog_behind_files", "Files of the binary log behind the one that is read.", lambda look: look.distance.behind_files),
    ("tidings_binlog_older_files", "Files that the server still keeps before the one that is read.",
     lambda look: look.distance.older_files),
    ("tidings_binlog_missing", "1 where the server does not have the file that is to be read.",
     lambda look: float(look.distance.missing)),
    ("tidings_binlog_seconds_to_purge", "Seconds until the server may remove the file that is read.",
     lambda look: look.distance.purge_seconds),
    ("tidings_binlog_safe_bytes", "What may be written before max_binlog_total_size removes the file that is read.",
     lambda look: look.distance.safe_bytes),
    ("tidings_binlog_expire_seconds", "How long the server keeps files of the binary log; no value: without end.",
     lambda look: look.logs.expire_seconds),
    ("tidings_binlog_seconds_to_limit",
     "Seconds until max_binlog_total_size removes the file that is read, as the log grows now; no value: without a limit.",
     lambda look: look.limit_seconds),
)  # fmt: skip


class BinlogCompanion(Collector):
    """Watches the binary logs of a worker's connectors of MariaDB and MySQL; a collector for ``/metrics``.

    Args:
        flavour_of: which database a configuration reads; None for one that reads no binary log.
    """

    name = "binary logs"

    def __init__(
        self,
        host: Host,
        flavour_of: Callable[[Mapping[str, str]], Flavour | None],
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._host = host
        self._flavour_of = flavour_of
        self._interval = interval_seconds
        self._threads = Threads("binary logs", _SERVERS)
        self._looks: dict[str, _Look] = {}
        self._positions: dict[str, Mapping[str, Any]] = {}
        self._kept: dict[str, list[tuple[float, float]]] = {}
        """By connector: how many bytes from its file on the server has kept, of late."""
        self._busy: set[str] = set()
        """Connectors whose server is being asked: one that hangs is not asked again meanwhile."""
        self.collectors = (self,)

    async def run(self) -> None:
        """Look at every connector's server again and again, until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self._interval)
        finally:
            self._threads.shutdown()

    async def look(self) -> None:
        """Look at the server of each connector once."""
        runs = [
            run for run in list(self._host.local_runs.values()) if self._flavour_of(run.config) is not None
        ]
        names = {run.name for run in runs}
        self._looks = {name: look for name, look in self._looks.items() if name in names}
        self._positions = {name: at for name, at in self._positions.items() if name in names}
        self._kept = {name: kept for name, kept in self._kept.items() if name in names}
        await asyncio.gather(*(self._look_at(run) for run in runs if run.name not in self._busy))

    async def _look_at(self, run: RunningTask) -> None:
        self._positions[run.name] = run.report.position or self._positions.get(run.name, {})
        self._busy.add(run.name)
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                server, logs = await self._threads.run(self._ask, run)
        except (ConnectError, TimeoutError, ValueError) as error:
            self._looks.pop(run.name, None)
            _log.warning("a connector's binary log is not watched", connector=run.name, reason=str(error))
            return
        finally:
            self._busy.discard(run.name)
        found = distance(logs, self._positions[run.name], time.time())
        if found is not None:
            self._looks[run.name] = _Look(server, found, logs, self._until_limit(run.name, found, logs))

    def _until_limit(self, name: str, found: Distance, logs: BinaryLogs) -> float | None:
        """A connector that keeps up is in no danger, however fast its server writes: what grows is the log from its file on."""
        if found.safe_bytes is None or logs.limit_bytes is None:
            self._kept.pop(name, None)
            return None
        now = time.monotonic()
        kept = [*recent(self._kept.get(name, ()), now), (now, logs.limit_bytes - found.safe_bytes)]
        self._kept[name] = kept
        return seconds_until(found.safe_bytes, rate_of(kept))

    def _ask(self, run: RunningTask) -> tuple[str, BinaryLogs]:
        flavour = self._flavour_of(run.config)
        assert flavour is not None
        endpoint = read_config(self._host.resolved(run.config), flavour).endpoint
        session = Session(endpoint)
        try:
            return str(endpoint), binary_logs(session)
        finally:
            session.close()

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        looks = dict(self._looks)
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=["connector", "server"])
            for connector, look in looks.items():
                if (found := value(look)) is not None:
                    gauge.add_metric([connector, look.server], found)
            yield gauge
