"""WAL under watch: what every replication slot of a server retains, ours or not, and when it becomes too much.

A retired consumer's slot fills the primary's disk without a word; PostgreSQL shows it only to who asks. One query every
ten seconds per distinct server that a connector names. Slot metrics bear postgres_exporter's names (0.20), the
forecasts ours. `pg_wal`'s size needs ``pg_monitor``; without that right it is left out, once with a log line.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.errors import PostgresError
from tidings_capture.postgres import Endpoint, Session
from tidings_service import get_logger

INTERVAL_SECONDS: Final = 10.0
_RATE_SECONDS: Final = 300.0
"""The rate is an average over about this long: a forecast from one checkpoint's burst frightens people."""
_NO_PRIVILEGE: Final = "42501"

_SLOTS: Final = """
WITH here AS (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END AS lsn)
SELECT s.slot_name, s.slot_type, coalesce(s.database, ''), coalesce(s.plugin, ''), s.active,
       pg_wal_lsn_diff(here.lsn, s.restart_lsn)::float8,
       pg_wal_lsn_diff(here.lsn, coalesce(s.confirmed_flush_lsn, s.restart_lsn))::float8,
       s.safe_wal_size::float8, s.wal_status,
       pg_wal_lsn_diff(here.lsn, '0/0')::float8
  FROM here LEFT JOIN pg_replication_slots s ON true
"""
_KEEP_LIMIT: Final = """
SELECT CASE WHEN setting::bigint < 0 THEN -1 ELSE setting::bigint * 1048576 END::float8
  FROM pg_settings WHERE name = 'max_slot_wal_keep_size'
"""
_WAL_SIZE: Final = "SELECT sum(size)::float8 FROM pg_ls_waldir()"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SlotWal:
    """One slot; sizes in bytes."""

    name: str
    kind: str
    database: str
    plugin: str
    active: bool
    retained_bytes: float | None
    unacknowledged_bytes: float | None
    safe_bytes: float | None
    wal_status: str | None


@dataclass(frozen=True, slots=True)
class ServerWal:
    """One server, as of the last look."""

    server: str
    slots: tuple[SlotWal, ...] = ()
    wal_bytes: float = 0.0
    """The server's WAL position as a number of bytes."""
    rate: float = 0.0
    """Bytes per second."""
    size_bytes: float | None = None
    keep_limit_bytes: float = -1.0
    """``max_slot_wal_keep_size``; -1: unlimited."""
    up: bool = False


def wal_rate(samples: list[tuple[float, float]]) -> float:
    """Bytes per second from (time in seconds, position in bytes), oldest first. Pure."""
    if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
        return 0.0
    return max(0.0, (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0]))


def seconds_to_limit(slot: SlotWal, server: ServerWal) -> float:
    """When the slot is invalidated if WAL grows on and the slot does not move; infinite without a limit. Pure."""
    if slot.wal_status == "lost":
        return 0.0
    if server.keep_limit_bytes < 0 or slot.safe_bytes is None or server.rate <= 0:
        return float("inf")
    return max(0.0, slot.safe_bytes / server.rate)


class _Watch:
    """Looks at one server; keeps its connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: Session | None = None
        self._samples: list[tuple[float, float]] = []
        self._may_list_wal = True
        self.state = ServerWal(f"{endpoint.host}:{endpoint.port}")

    def look(self) -> None:
        """Ask the server; one that does not answer is reported as down."""
        try:
            if self._session is None:
                self._session = Session(self._endpoint)
            self.state = self._read(self._session)
        except PostgresError as error:
            if self.state.up or not self._samples:
                _log.warning("WAL metrics are not available", server=self.state.server, reason=str(error))
            self.state = replace(self.state, up=False)
            self.close()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _read(self, session: Session) -> ServerWal:
        rows = session.rows(_SLOTS)
        now, position = time.monotonic(), float(rows[0][9] or 0.0)
        self._samples.append((now, position))
        self._samples = [sample for sample in self._samples if sample[0] > now - _RATE_SECONDS]
        return ServerWal(
            server=self.state.server,
            slots=tuple(SlotWal(*row[:9]) for row in rows if row[0] is not None),
            wal_bytes=position,
            rate=wal_rate(self._samples),
            size_bytes=self._size(session),
            keep_limit_bytes=float(session.value(_KEEP_LIMIT)),
            up=True,
        )

    def _size(self, session: Session) -> float | None:
        if not self._may_list_wal:
            return None
        try:
            return float(session.value(_WAL_SIZE))
        except PostgresError as error:
            if error.sqlstate != _NO_PRIVILEGE:
                raise
            self._may_list_wal = False
            _log.warning(
                "pg_wal's size is not available",
                server=self.state.server,
                reason="database.user lacks pg_monitor",
                hint=f"GRANT pg_monitor TO {self._endpoint.user}",
            )
            return None


class WalMonitor(Collector):
    """Watches the servers of all connectors; a collector for ``/metrics``.

    Args:
        endpoints: the databases of the connectors there are; asked before every look.
    """

    def __init__(self, endpoints: Callable[[], Iterable[Endpoint]]) -> None:
        self._endpoints = endpoints
        self._watches: dict[tuple[str, int], _Watch] = {}

    async def run(self) -> None:
        """Look at every server, again and again, until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the servers."""
        for watch in self._watches.values():
            watch.close()

    async def look(self) -> None:
        """Look at every server once."""
        wanted = {(endpoint.host, endpoint.port): endpoint for endpoint in self._endpoints()}
        for key in self._watches.keys() - wanted.keys():
            self._watches.pop(key).close()
        for key, endpoint in wanted.items():
            watch = self._watches.setdefault(key, _Watch(endpoint))
            await asyncio.to_thread(watch.look)

    def collect(self) -> Iterator[Metric]:
        """All families, from the last look."""
        return _families([watch.state for watch in self._watches.values() if watch.state.up])


def _families(servers: list[ServerWal]) -> Iterator[Metric]:
    slot_labels = ["slot_name", "slot_type", "database", "plugin", "server"]
    retained = GaugeMetricFamily(
        "pg_replication_slots_pg_wal_lsn_diff", "WAL the slot retains, bytes.", labels=slot_labels
    )
    safe = GaugeMetricFamily(
        "pg_replication_slots_safe_wal_size_bytes",
        "WAL that may be written before the slot is lost.",
        labels=slot_labels,
    )
    status = GaugeMetricFamily(
        "pg_replication_slots_wal_status", "1 for the slot's wal_status.", labels=[*slot_labels, "wal_status"]
    )
    active = GaugeMetricFamily(
        "pg_replication_slots_slot_is_active", "Whether a consumer is connected.", labels=slot_labels
    )
    open_bytes = GaugeMetricFamily(
        "tidings_wal_slot_unacknowledged_bytes",
        "WAL the consumer has not confirmed.",
        labels=["slot_name", "server"],
    )
    left = GaugeMetricFamily(
        "tidings_wal_slot_seconds_to_limit",
        "Seconds until the slot is invalidated at the present rate.",
        labels=["slot_name", "server"],
    )
    rate = GaugeMetricFamily("tidings_wal_rate_bytes_per_second", "WAL the server writes.", labels=["server"])
    limit = GaugeMetricFamily(
        "tidings_wal_keep_limit_bytes", "max_slot_wal_keep_size; -1: unlimited.", labels=["server"]
    )
    size = GaugeMetricFamily("pg_wal_size_bytes", "Size of pg_wal.", labels=["server"])
    for server in servers:
        rate.add_metric([server.server], server.rate)
        limit.add_metric([server.server], server.keep_limit_bytes)
        if server.size_bytes is not None:
            size.add_metric([server.server], server.size_bytes)
        for slot in server.slots:
            labels = [slot.name, slot.kind, slot.database, slot.plugin, server.server]
            active.add_metric(labels, float(slot.active))
            status.add_metric([*labels, slot.wal_status or ""], 1.0)
            if slot.retained_bytes is not None:
                retained.add_metric(labels, slot.retained_bytes)
            if slot.safe_bytes is not None:
                safe.add_metric(labels, slot.safe_bytes)
            if slot.unacknowledged_bytes is not None:
                open_bytes.add_metric([slot.name, server.server], slot.unacknowledged_bytes)
            left.add_metric([slot.name, server.server], seconds_to_limit(slot, server))
    yield from (retained, safe, status, active, open_bytes, left, rate, limit, size)
