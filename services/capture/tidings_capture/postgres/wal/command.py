"""``tidings-capture wal URL``: a server's replication slots as a table, with a forecast. Needs no Kafka, changes nothing.

Exit codes: 0, 1 when the server could not be reached or refused, 2 for arguments that do not fit, 3 with ``--check`` when
a slot is lost, unreserved, or within an hour of its end.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from tidings_capture.postgres.client import read_url
from tidings_capture.postgres.wal.forecast import (
    LOST,
    ServerWal,
    SlotWal,
    growth_of,
    safe_ratio,
    seconds_to_full_disk,
    seconds_to_limit,
)
from tidings_capture.postgres.wal.server import ServerWatch
from tidings_connect.data.sizes import format_seconds, format_size, parse_size
from tidings_service import TidingsError, configure_logging, print_error

_HOUR: Final = 3600.0
_COLUMNS: Final = ("slot", "database", "plugin", "consumer", "retained", "unconfirmed", "grows/s", "safe",
                   "status", "xmin age", "spilled", "lost in", "disk full in")  # fmt: skip
_RIGHT: Final = frozenset({"retained", "unconfirmed", "grows/s", "safe", "xmin age", "spilled", "lost in", "disk full in"})  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    given = parser().parse_args(arguments)
    configure_logging(
        "capture", level="WARNING"
    )  # to standard error: the other one is for the table, or JSON
    try:
        watch = ServerWatch(read_url(given.url))
        try:
            watch.read(given.disk)
            while True:
                time.sleep(given.sample if given.watch is None else given.watch)
                server = watch.read(given.disk)
                _show(server, as_json=given.json, clear=given.watch is not None and sys.stdout.isatty())
                if given.watch is None:
                    return 3 if given.check and any(endangered(slot, server) for slot in server.slots) else 0
        finally:
            watch.close()
    except TidingsError as error:
        return print_error(error)
    except KeyboardInterrupt:
        return 0


def endangered(slot: SlotWal, server: ServerWal) -> bool:
    """Whether somebody has to act now."""
    left = min(seconds_to_limit(slot, server), seconds_to_full_disk(slot, server) or math.inf)
    full = seconds_to_full_disk(slot, server) == 0
    return slot.wal_status in {LOST, "unreserved"} or full or left < _HOUR


def table(server: ServerWal) -> list[str]:
    """The lines that are shown: the server, then a row for each slot, the one that retains most first. Pure."""
    limit = "unlimited" if server.keep_limit_bytes < 0 else format_size(server.keep_limit_bytes)
    lines = [
        f"{server.server}  PostgreSQL {server.version // 10000}.{server.version % 10000}"
        f"  WAL {format_size(server.rate)}/s  pg_wal {format_size(server.size_bytes)}"
        f"  max_slot_wal_keep_size {limit}"
        + (f"  volume {format_size(server.volume_bytes)}" if server.volume_bytes is not None else "")
    ]
    if not server.slots:
        return [*lines, "no replication slots"]
    rows = [_row(slot, server) for slot in server.slots]
    shown = [name for place, name in enumerate(_COLUMNS) if any(row[place] != "-" for row in rows)]
    places = [_COLUMNS.index(name) for name in shown]
    widths = [max(len(_COLUMNS[p]), *(len(row[p]) for row in rows)) for p in places]
    for row in (_COLUMNS, *rows):
        cells = [
            row[p].rjust(width) if _COLUMNS[p] in _RIGHT else row[p].ljust(width)
            for p, width in zip(places, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if server.keep_limit_bytes < 0:
        lines.append(
            "max_slot_wal_keep_size is unlimited: a slot that nobody consumes fills the disk"
            + ("; --disk SIZE forecasts when" if server.volume_bytes is None else "")
        )
    return lines


def _row(slot: SlotWal, server: ServerWal) -> tuple[str, ...]:
    consumer = (
        f"pid {slot.active_pid}" if slot.active else f"none for {format_seconds(slot.inactive_seconds)}"
    )
    status = f"{slot.wal_status or '-'}" + (f" ({slot.invalidation})" if slot.invalidation else "")
    ratio = safe_ratio(slot, server)
    safe = format_size(slot.safe_bytes) + ("" if ratio is None else f" {max(ratio, 0.0):.0%}")
    spilled = "-" if slot.decoded is None or not slot.decoded[1] else format_size(slot.decoded[1])
    return (
        slot.name,
        slot.database or "-",
        slot.plugin or slot.kind,
        consumer,
        format_size(slot.retained_bytes),
        format_size(slot.unacknowledged_bytes),
        format_size(growth_of(slot, server)),
        safe,
        status,
        "-" if slot.catalog_xmin_age is None else f"{slot.catalog_xmin_age:.0f}",
        spilled,
        "now" if slot.wal_status == LOST else format_seconds(seconds_to_limit(slot, server)),
        format_seconds(seconds_to_full_disk(slot, server)),
    )


def _as_json(server: ServerWal) -> dict[str, Any]:
    return {
        "server": server.server,
        "version": server.version,
        "wal_bytes_per_second": server.rate,
        "pg_wal_bytes": server.size_bytes,
        "max_slot_wal_keep_size": server.keep_limit_bytes,
        "slots": [
            {
                "slot_name": slot.name,
                "slot_type": slot.kind,
                "database": slot.database,
                "plugin": slot.plugin,
                "active": slot.active,
                "active_pid": slot.active_pid,
                "inactive_seconds": slot.inactive_seconds,
                "retained_bytes": slot.retained_bytes,
                "unacknowledged_bytes": slot.unacknowledged_bytes,
                "growth_bytes_per_second": growth_of(slot, server),
                "safe_bytes": slot.safe_bytes,
                "wal_status": slot.wal_status,
                "invalidation_reason": slot.invalidation,
                "catalog_xmin_age": slot.catalog_xmin_age,
                "seconds_to_limit": _finite(seconds_to_limit(slot, server)),
                "seconds_to_full_disk": _finite(seconds_to_full_disk(slot, server)),
            }
            for slot in server.slots
        ],
    }


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else round(seconds, 1)


def _show(server: ServerWal, *, as_json: bool, clear: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(server)), flush=True)
        return
    if clear:
        print("\x1b[2J\x1b[H", end="")
    print("\n".join(table(server)), flush=True)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}") from error


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-capture wal",
        description="Show what every replication slot of a PostgreSQL server retains, and when that becomes too much. "
        "Reads only; pg_monitor is needed for the size of pg_wal.",
    )
    parser.add_argument("url", help="postgresql://user:password@host/database")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="again and again, until Ctrl-C")
    parser.add_argument(
        "--sample", type=float, default=2.0, metavar="SECONDS",
        help="how long the rates are measured for, without --watch (default: 2)",
    )  # fmt: skip
    parser.add_argument(
        "--disk", type=_size, metavar="SIZE", help="the size of pg_wal's volume, such as 100GB"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per look")
    parser.add_argument(
        "--check", action="store_true",
        help="exit code 3 when a slot is lost, unreserved or within an hour of its end",
    )  # fmt: skip
    return parser
