"""Forecasts about WAL: how fast it grows, and when a slot's part of it becomes too much. Pure.

An inactive slot's WAL grows as fast as the server writes. An active one is judged by what it retained over the last
minutes: a busy server whose consumer keeps up is in no danger, however fast it writes.
"""

from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.forecast import NEVER, rate_of, recent, seconds_until

__all__ = (
    "LOST",
    "NEVER",
    "ServerWal",
    "SlotWal",
    "growth_of",
    "rate_of",
    "recent",
    "safe_ratio",
    "seconds_to_full_disk",
    "seconds_to_limit",
)

LOST: Final = "lost"


@dataclass(frozen=True, slots=True)
class SlotWal:
    """One slot; sizes in bytes, LSNs as numbers, ages in seconds or transactions."""

    name: str
    kind: str
    database: str
    plugin: str
    active: bool
    retained_bytes: float | None
    unacknowledged_bytes: float | None
    safe_bytes: float | None
    """What may still be written before the slot is lost; None where nothing limits it."""
    wal_status: str | None
    active_pid: int | None = None
    confirmed_lsn: float | None = None
    inactive_seconds: float | None = None
    """None while a consumer is connected."""
    catalog_xmin_age: float | None = None
    """Transactions since the oldest one whose catalog rows the slot keeps from VACUUM."""
    invalidation: str | None = None
    """Why the server gave the slot up (PostgreSQL 17+); None while it has not."""
    decoded: tuple[float, float, float] | None = None
    """``pg_stat_replication_slots``: bytes decoded, spilled to the server's disk, and streamed in progress."""
    growth: float = 0.0
    """Bytes per second by which `retained_bytes` has grown."""


@dataclass(frozen=True, slots=True)
class ServerWal:
    """One server, as of the last look."""

    server: str
    slots: tuple[SlotWal, ...] = ()
    wal_bytes: float = 0.0
    """The server's WAL position as a number of bytes."""
    rate: float = 0.0
    """Bytes of WAL written per second."""
    size_bytes: float | None = None
    """Of ``pg_wal``; None without ``pg_monitor``."""
    keep_limit_bytes: float = -1.0
    """``max_slot_wal_keep_size``; -1: unlimited."""
    volume_bytes: float | None = None
    """The room there is for ``pg_wal``; None where nobody has said so."""
    version: int = 0
    """For example 160011."""
    up: bool = False

    def slot(self, name: str) -> SlotWal | None:
        """A slot by name."""
        return next((slot for slot in self.slots if slot.name == name), None)


def growth_of(slot: SlotWal, server: ServerWal) -> float:
    """Bytes per second by which the slot's WAL grows."""
    return slot.growth if slot.active else max(slot.growth, server.rate)


def seconds_to_limit(slot: SlotWal, server: ServerWal) -> float:
    """When the server gives the slot up, if all goes on like this; infinite without a limit."""
    if slot.wal_status == LOST:
        return 0.0
    if server.keep_limit_bytes < 0 or slot.safe_bytes is None:
        return NEVER
    return seconds_until(slot.safe_bytes, growth_of(slot, server))


def seconds_to_full_disk(slot: SlotWal, server: ServerWal) -> float | None:
    """When what the slot retains fills the volume of ``pg_wal``; None where its size is not known."""
    if server.volume_bytes is None:
        return None
    if slot.wal_status == LOST or slot.retained_bytes is None:
        return NEVER
    room = server.volume_bytes - max(server.size_bytes or 0.0, slot.retained_bytes)
    if server.keep_limit_bytes >= 0 and slot.safe_bytes is not None and slot.safe_bytes < room:
        return NEVER  # the server gives the slot up before
    return seconds_until(room, growth_of(slot, server))


def safe_ratio(slot: SlotWal, server: ServerWal) -> float | None:
    """What is left of ``max_slot_wal_keep_size``, 1 to 0 (below 0 when it is passed); None without a limit."""
    if slot.wal_status == LOST:
        return 0.0
    if server.keep_limit_bytes <= 0 or slot.safe_bytes is None:
        return None
    return min(1.0, slot.safe_bytes / server.keep_limit_bytes)
