"""WAL metrics: the last look at each server, under postgres_exporter's names (0.20) where it has one, else under ours.

Labels are postgres_exporter's and `server`, for it runs beside one server and capture watches several.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidings_capture.postgres.wal.forecast import (
    ServerWal,
    SlotWal,
    safe_ratio,
    seconds_to_full_disk,
    seconds_to_limit,
)

_Value = Callable[[SlotWal, ServerWal], float | None]

_SLOT_GAUGES: Final[tuple[tuple[str, str, _Value], ...]] = (
    ("pg_replication_slots_pg_wal_lsn_diff", "WAL the slot retains, bytes.", lambda slot, _: slot.retained_bytes),
    ("pg_replication_slots_safe_wal_size_bytes", "WAL that may be written before the slot is lost.",
     lambda slot, _: slot.safe_bytes),
    ("pg_replication_slots_slot_is_active", "Whether a consumer is connected.", lambda slot, _: float(slot.active)),
    ("pg_replication_slots_active", "Whether a consumer is connected.", lambda slot, _: float(slot.active)),
    ("pg_replication_slots_slot_current_wal_lsn", "The server's WAL position, bytes.", lambda _, server: server.wal_bytes),
    ("pg_replication_slots_slot_confirmed_flush_lsn", "Up to where the consumer has confirmed, bytes.",
     lambda slot, _: slot.confirmed_lsn),
)  # fmt: skip
_OWN_GAUGES: Final[tuple[tuple[str, str, _Value], ...]] = (
    ("tidings_wal_slot_unacknowledged_bytes", "WAL the consumer has not confirmed.",
     lambda slot, _: slot.unacknowledged_bytes),
    ("tidings_wal_slot_growth_bytes_per_second", "Growth of what the slot retains.", lambda slot, _: slot.growth),
    ("tidings_wal_slot_safe_ratio", "What is left of max_slot_wal_keep_size, 1 to 0.", safe_ratio),
    ("tidings_wal_slot_seconds_to_limit", "Seconds until the slot is invalidated, as it grows now.", seconds_to_limit),
    ("tidings_wal_slot_seconds_to_full_disk", "Seconds until the slot has filled pg_wal's volume, as it grows now.",
     seconds_to_full_disk),
    ("tidings_wal_slot_inactive_seconds", "How long no consumer has been connected; 0 while one is.",
     lambda slot, _: slot.inactive_seconds or 0.0),
    ("tidings_wal_slot_catalog_xmin_age", "Transactions since the oldest one kept from VACUUM for the slot.",
     lambda slot, _: slot.catalog_xmin_age),
)  # fmt: skip
_DECODED: Final = (
    ("tidings_wal_slot_decoded_bytes", "Changes decoded for the slot."),
    (
        "tidings_wal_slot_spilled_bytes",
        "Changes of big transactions that the server wrote to its disk first.",
    ),
    ("tidings_wal_slot_streamed_bytes", "Changes of transactions in progress that were streamed."),
)


def families(servers: list[ServerWal]) -> Iterator[Metric]:
    """All families of WAL, of these servers."""
    yield from _of_slots(servers)
    yield from _of_servers(servers)


def _of_slots(servers: list[ServerWal]) -> Iterator[Metric]:
    labels = ["slot_name", "slot_type", "database", "plugin", "server"]
    pairs = [(slot, server) for server in servers for slot in server.slots]
    for name, text, value in _SLOT_GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=labels)
        for slot, server in pairs:
            if (found := value(slot, server)) is not None:
                gauge.add_metric([slot.name, slot.kind, slot.database, slot.plugin, server.server], found)
        yield gauge
    status = GaugeMetricFamily(
        "pg_replication_slots_wal_status", "1 for the slot's wal_status.", labels=[*labels, "wal_status"]
    )
    for slot, server in pairs:
        own = [slot.name, slot.kind, slot.database, slot.plugin, server.server]
        status.add_metric([*own, slot.wal_status or ""], 1.0)
    yield status
    for name, text, value in _OWN_GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=["slot_name", "server"])
        for slot, server in pairs:
            if (found := value(slot, server)) is not None:
                gauge.add_metric([slot.name, server.server], found)
        yield gauge
    for place, (name, text) in enumerate(_DECODED):
        counter = CounterMetricFamily(name, text, labels=["slot_name", "server"])
        for slot, server in pairs:
            if slot.decoded is not None:
                counter.add_metric([slot.name, server.server], slot.decoded[place])
        yield counter


def _of_servers(servers: list[ServerWal]) -> Iterator[Metric]:
    rate = GaugeMetricFamily("tidings_wal_rate_bytes_per_second", "WAL the server writes.", labels=["server"])
    limit = GaugeMetricFamily(
        "tidings_wal_keep_limit_bytes", "max_slot_wal_keep_size; -1: unlimited.", labels=["server"]
    )
    size = GaugeMetricFamily("pg_wal_size_bytes", "Size of pg_wal.", labels=["server"])
    volume = GaugeMetricFamily(
        "tidings_wal_volume_bytes", "Room for pg_wal, as tidings.wal.volume.bytes says.", labels=["server"]
    )
    for server in servers:
        rate.add_metric([server.server], server.rate)
        limit.add_metric([server.server], server.keep_limit_bytes)
        if server.size_bytes is not None:
            size.add_metric([server.server], server.size_bytes)
        if server.volume_bytes is not None:
            volume.add_metric([server.server], server.volume_bytes)
    yield from (rate, limit, size, volume)
