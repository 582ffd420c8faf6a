"""Finds the snapshot of each table that is exactly the table as of a commit position, by comparing it with the log.

A snapshot holds what a batch has brought, and batches do not end where transactions do: most positions have no snapshot, and some
snapshots are no position. So nothing is taken for granted: a snapshot is exact if its rows are those that the log gives as of the
position, each by the same change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tidings_envelope.position import lsn_to_text
from tidings_lakehouse.errors import MomentError
from tidings_lakehouse.history.history_sql import DUCKDB
from tidings_lakehouse.reading.duck import DuckLake
from tidings_lakehouse.reading.moments import Moment, SourceTables

_MOST: Final = 50
"""Snapshots of a table that are looked at, the newest first; each one's keys are read."""
_PLACES = ("__commit_lsn", "__lsn")


@dataclass(frozen=True)
class _Difference:
    newer: int
    """Rows of a snapshot that are not the table's as of the position."""
    lacking: int

    @property
    def size(self) -> int:
        return self.newer + self.lacking


def exact_snapshots(lake: DuckLake, source: SourceTables, moment: Moment) -> dict[str, int]:
    """By table, the newest snapshot that is exactly as of a moment.

    Raises:
        MomentError: a table has none.
    """
    found: dict[str, int] = {}
    refused = []
    for table in moment.tables:
        snapshot, why = _exact(lake, source, moment, table)
        if snapshot is None:
            refused.append(f"{table}: {why}")
        else:
            found[table] = snapshot
    if refused:
        raise MomentError(
            f"{lsn_to_text(moment.position)} cannot be tagged, since not every table has a snapshot that is exactly as of it: "
            + "; ".join(refused),
            hint="tag the watermark when a batch has ended with it, as when the source rests, or have views: the same command with"
            " --create",
        )
    return found


def _exact(lake: DuckLake, source: SourceTables, moment: Moment, table: str) -> tuple[int | None, str]:
    snapshots = _history(lake.metadata(table))[:_MOST]
    if not snapshots:
        return None, "it has no snapshot"
    query = source.statement(table, moment, DUCKDB)
    columns = ", ".join(f'"{name}"' for name in (*source.keys(table), *_PLACES))
    lake.execute(f"CREATE OR REPLACE TEMP TABLE expected AS SELECT {columns} FROM ({query})")  # noqa: S608 - our own words
    nearest: _Difference | None = None
    for snapshot in snapshots:
        difference = _compared(lake, table, snapshot, columns)
        if not difference.size:
            return snapshot, ""
        if nearest is None or difference.size < nearest.size:
            nearest = difference
    assert nearest is not None
    return None, (
        f"the nearest of its {len(snapshots)} snapshots has {nearest.newer} rows that are not as of then and lacks {nearest.lacking}"
    )


def _compared(lake: DuckLake, table: str, snapshot: int, columns: str) -> _Difference:
    location = lake.tables[table].replace("'", "''")
    held = f"SELECT {columns} FROM iceberg_scan('{location}', snapshot_from_id = {snapshot})"  # noqa: S608
    expected = f"SELECT {columns} FROM expected"  # noqa: S608
    newer, lacking = lake.execute(
        f"SELECT (SELECT count(*) FROM ({held} EXCEPT ALL {expected})), (SELECT count(*) FROM ({expected} EXCEPT ALL {held}))"  # noqa: S608
    )[0]
    return _Difference(newer, lacking)


def _history(metadata: dict[str, Any]) -> list[int]:
    """The snapshots that readers have seen or could have, the newest first."""
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in metadata.get("snapshots", [])}
    found: list[int] = []
    snapshot: Any = metadata.get("current-snapshot-id")
    while snapshot in parents:
        found.append(int(snapshot))
        snapshot = parents[snapshot]
    return found
