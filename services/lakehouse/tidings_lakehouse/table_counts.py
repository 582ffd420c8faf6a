"""How many rows each table has, from Iceberg's own metadata: no Spark job runs for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidings_lakehouse.metrics import TABLE_ROWS
from tidings_lakehouse.topics import BUSINESS, CATALOG, QUARANTINE, SYSTEM, TECHNICAL
from tidings_lakehouse.troubles import trouble_of_topic
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.table_counts")


class TableCounts:
    """The newest counts, kept for the pages and metrics; may be read from any thread."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}

    def refresh_all(self) -> None:
        """Count every table there is."""
        self.refresh(table_names(self._session))

    def refresh(self, tables: Iterable[str]) -> None:
        """Count tables that have changed."""
        for name in {*tables, QUARANTINE}:
            try:
                rows = row_count(self._session, name)
            except Py4JJavaError as error:
                if trouble_of_topic(error) is None:
                    raise
                _LOG.warning("a table cannot be read, so its rows are not counted", table=name)
                continue
            TABLE_ROWS.labels(name).set(rows)
            with self._lock:
                self._rows[name] = rows

    def snapshot(self) -> dict[str, int]:
        """Rows by table."""
        with self._lock:
            return dict(sorted(self._rows.items()))


def table_names(session: SparkSession) -> list[str]:
    """Every table of the lakehouse."""
    namespaces = {row[0] for row in session.sql("SHOW NAMESPACES").collect()}
    return [
        f"{namespace}.{row['tableName']}"
        for namespace in sorted(namespaces & {TECHNICAL, BUSINESS, SYSTEM})
        for row in session.sql(f"SHOW TABLES IN {namespace}").collect()
    ]


def row_count(session: SparkSession, name: str) -> int:
    """Rows in a table: those of its data files less those that its delete files mark."""
    # Iceberg's Java classes are only reachable through private attributes.
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    spark = session._jsparkSession  # noqa: SLF001
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, f"{CATALOG}.{name}")
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return 0
    summary = snapshot.summary()
    return (
        int(summary.get("total-records") or 0)
        - int(summary.get("total-position-deletes") or 0)
        - int(summary.get("total-equality-deletes") or 0)
    )
