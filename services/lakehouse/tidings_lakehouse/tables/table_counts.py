"""How many rows each table has, from Iceberg's own metadata: no Spark job runs for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidings_lakehouse.metrics import (
    TABLE_BYTES,
    TABLE_DELETE_FILES,
    TABLE_DELETED_RATIO,
    TABLE_FILES,
    TABLE_ROWS,
)
from tidings_lakehouse.spark.java_items import each, items
from tidings_lakehouse.tables.troubles import trouble_of_topic
from tidings_lakehouse.topics import BUSINESS, CATALOG, QUARANTINE, REPLAYED, SYSTEM, TECHNICAL
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.tables.table_counts")

# Tables of up to so many data and delete files are counted by planning a scan; each file costs some calls to Java.
_FEW_FILES = 64
_FEW_SNAPSHOTS = 8


class TableCounts:
    """The newest counts, kept for the pages and metrics; may be read from any thread."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._stale: dict[str, tuple[int, int]] = {}

    def refresh_all(self) -> None:
        """Count every table there is."""
        self.refresh(table_names(self._session))

    def refresh(self, tables: Iterable[str]) -> None:
        """Count tables that have changed."""
        for name in {*tables, QUARANTINE}:
            try:
                size = table_size(self._session, name, self._stale)
            except Py4JJavaError as error:
                if trouble_of_topic(error) is None:
                    raise
                _LOG.warning("a table cannot be read, so its rows are not counted", table=name)
                continue
            TABLE_ROWS.labels(name).set(size.rows)
            TABLE_BYTES.labels(name).set(size.bytes)
            TABLE_FILES.labels(name).set(size.files)
            TABLE_DELETE_FILES.labels(name).set(size.delete_files)
            TABLE_DELETED_RATIO.labels(name).set(size.deleted_ratio)
            with self._lock:
                self._rows[name] = size.rows

    def snapshot(self) -> dict[str, int]:
        """Rows by table."""
        with self._lock:
            return dict(sorted(self._rows.items()))


def table_names(session: SparkSession) -> list[str]:
    """Every table of the lakehouse."""
    namespaces = {row[0] for row in session.sql("SHOW NAMESPACES").collect()}
    return [
        f"{namespace}.{row['tableName']}"
        for namespace in sorted(namespaces & {TECHNICAL, BUSINESS, SYSTEM, REPLAYED})
        for row in session.sql(f"SHOW TABLES IN {namespace}").collect()
    ]


@dataclass(frozen=True)
class TableSize:
    """What a table's newest snapshot has."""

    rows: int = 0
    """Those of its data files less those that its delete files mark."""
    deleted_rows: int = 0
    """Those that delete files mark.

    A delete file that a TRUNCATE left behind without its data file is counted in tables of more than 64 files, until
    maintenance removes it.
    """
    bytes: int = 0
    files: int = 0
    delete_files: int = 0

    @property
    def deleted_ratio(self) -> float:
        """The part of its data files' rows that delete files mark."""
        return self.deleted_rows / max(1, self.rows + self.deleted_rows)


def row_count(session: SparkSession, name: str) -> int:
    """Rows in a table."""
    return table_size(session, name).rows


def table_size(
    session: SparkSession, name: str, stale: dict[str, tuple[int, int]] | None = None
) -> TableSize:
    """How large a table is.

    Args:
        stale: by table, marks of data files that are gone, as of a snapshot; is kept up to date. Without it they are counted anew.
    """
    # Iceberg's Java classes are only reachable through private attributes.
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    spark = session._jsparkSession  # noqa: SLF001
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, f"{CATALOG}.{name}")
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return TableSize()
    summary = snapshot.summary()

    def total(what: str) -> int:
        return int(summary.get(f"total-{what}") or 0)

    deleted = total("position-deletes") + total("equality-deletes")
    if deleted and total("data-files") + total("delete-files") <= _FEW_FILES:
        deleted -= _stale_marks(table, snapshot, deleted, {} if stale is None else stale, name)
    return TableSize(
        total("records") - deleted, deleted, total("files-size"), total("data-files"), total("delete-files")
    )


def _deletes_of_live_files(table: Any) -> int:
    """Rows that delete files mark in data files that are still there.

    The summary's totals count a delete file also when a TRUNCATE has removed the data file that it marks: Iceberg
    drops such a delete file only once no older data file is left.
    """
    marks: dict[str, int] = {}
    for task in each(table.newScan().planFiles()):
        for file in items(task.deletes()):
            marks[file.location()] = file.recordCount()
    return sum(marks.values())


def _stale_marks(
    table: Any, snapshot: Any, deleted: int, known: dict[str, tuple[int, int]], name: str
) -> int:
    """Rows that delete files mark in data files that are gone."""
    before = known.get(name)
    if before is None or _has_lost_files(table, snapshot, before[0]):
        stale = deleted - _deletes_of_live_files(table)
    else:
        stale = before[1]
    known[name] = int(snapshot.snapshotId()), stale
    return stale


def _has_lost_files(table: Any, snapshot: Any, since: int) -> bool:
    """Whether data files may have gone after a snapshot."""
    for _ in range(_FEW_SNAPSHOTS):
        if snapshot.snapshotId() == since:
            return False
        parent = snapshot.parentId()
        snapshot = (
            None if snapshot.summary().get("deleted-data-files") or parent is None else table.snapshot(parent)
        )
        if snapshot is None:
            break
    return True
