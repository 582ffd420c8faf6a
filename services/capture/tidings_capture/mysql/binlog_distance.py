"""How far a connector is from losing changes: what of the binary log lies behind its position, and when the server may remove it.

A server removes a file that has not been written for ``binlog_expire_logs_seconds``, and the oldest ones beyond
``max_binlog_total_size``, whoever still needs them; never the one that it writes. When a file was written last it does not tell: it
is not before what was read of it, so that what is said here is the earliest moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidings_capture.cdc.forecast import NEVER
from tidings_capture.mysql.client import Session

__all__ = ("NEVER", "BinaryLogs", "Distance", "binary_logs", "distance")

_VARIABLES: Final = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days', 'max_binlog_total_size')
"""
_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class BinaryLogs:
    """The files of a server, and when it removes them."""

    sizes: Mapping[str, int]
    """In bytes, by name; the oldest first."""
    expire_seconds: float | None = None
    """None: never."""
    limit_bytes: int | None = None
    """Of all files together; None: no limit."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Where a connector is."""

    behind_bytes: float
    behind_files: float
    """Files that follow the one that is read."""
    older_files: float
    """Files that are still kept before it: 0, and the next one to be removed is the connector's."""
    missing: bool
    """Whether the server has the file no more, or is another one."""
    purge_seconds: float
    """Until the server may remove the file; infinite for the one that it writes, and where it removes none."""
    safe_bytes: float | None
    """What may be written before the file is removed for want of room; None without a limit."""


def binary_logs(session: Session) -> BinaryLogs:
    """Look at a server.

    Raises:
        MariaDbError: it cannot be asked; the user may lack the right BINLOG MONITOR.
    """
    sizes = {row[0]: int(row[1]) for row in session.rows("SHOW BINARY LOGS")}
    values = dict(session.rows(_VARIABLES))
    expire = float(values.get("binlog_expire_logs_seconds") or 0)
    expire = expire or float(values.get("expire_logs_days") or 0) * _DAY_SECONDS
    return BinaryLogs(sizes, expire or None, int(values.get("max_binlog_total_size") or 0) or None)


def distance(logs: BinaryLogs, position: Mapping[str, Any], now: float) -> Distance | None:
    """How far a stored position is from its end.

    Args:
        position: see `offset`; None is returned for one without a file.
        now: seconds since the Unix epoch.
    """
    file, offset, written = position.get("file"), position.get("pos", 0), position.get("ts_sec", 0)
    if not file:
        return None
    names = list(logs.sizes)
    if file not in logs.sizes:
        behind = float(sum(logs.sizes.values()))
        return Distance(behind, float(len(names)), 0.0, True, 0.0, None)
    place = names.index(file)
    behind = float(sum(logs.sizes[name] for name in names[place:]) - offset)
    purge = NEVER
    if logs.expire_seconds is not None and place < len(names) - 1:
        purge = max(0.0, logs.expire_seconds - (now - written))
    safe = None
    if logs.limit_bytes is not None:
        safe = max(0.0, float(logs.limit_bytes - sum(logs.sizes[name] for name in names[place:])))
    return Distance(max(0.0, behind), float(len(names) - 1 - place), float(place), False, purge, safe)
