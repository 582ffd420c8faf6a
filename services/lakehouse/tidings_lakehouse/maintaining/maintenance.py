"""Keeps tables readable beside the streams: small files into few, deleted rows out, old snapshots and lost files away.

It has a thread and a pool of Spark's tasks of its own, so no batch waits for it. Every step is a commit that changes no row. A
write that had begun before such a commit is prepared again on what the commit has left (`Commits.write`); a compaction that a
write has overtaken is done again while the table's writes wait, in groups of files of which each is committed by itself. Between
two looks at a table the small files of its last batches are put together (`joining`).
"""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidings_lakehouse.catalogs.conf import FILE_IO
from tidings_lakehouse.maintaining.joining import Joining
from tidings_lakehouse.maintaining.retention import Retention
from tidings_lakehouse.metrics import MAINTAINED, MAINTENANCE_FAILING
from tidings_lakehouse.retention_rules import RetentionRule
from tidings_lakehouse.spark.session import use_in_thread
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.layouts import is_sorted_otherwise, is_to_be_spread
from tidings_lakehouse.tables.table_counts import table_size
from tidings_lakehouse.tables.troubles import in_a_line
from tidings_lakehouse.topics import CATALOG, WATERMARK
from tidings_service import TidingsError, get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.maintaining.maintenance")
_MIB = 1 << 20
_SMALL_TABLE_BYTES = 32 * _MIB
"""A table up to this size is rewritten as soon as a row of a file is deleted; of a larger one, files that have lost many."""
_FILES = {
    "min-input-files": 4,
    "target-file-size-bytes": 128 * _MIB,
    # A file that is no smaller is left alone, so what a compaction costs does not grow with the table.
    "min-file-size-bytes": 16 * _MIB,
    "max-file-group-size-bytes": 256 * _MIB,
    "delete-ratio-threshold": 0.2,
    "remove-dangling-deletes": "true",
    "max-concurrent-file-group-rewrites": 1,
    "partial-progress.enabled": "true",
}
_DELETE_FILES = {"min-input-files": 4, "max-concurrent-file-group-rewrites": 1}
_MANY_DELETE_FILES = 16
_OVERTAKEN = ("Cannot commit", "partial-progress", "could not be found in the latest snapshot")
"""In what Iceberg says when a write has replaced files, or put manifests together, that a procedure has read."""
_LOOKED_AFTER = "tidings.looked.after"
"""Property of a table: how many commits it had when it was looked after last."""
_ORPHANS_AT = "tidings.orphans.removed"
"""Property of a table: when files that no snapshot names were removed last; ISO 8601."""
_ORPHANS_EVERY = dt.timedelta(days=1)
_ORPHANS_AGE = dt.timedelta(days=3)
"""A file that is younger may be one that is just being written."""
_LOOK_SECONDS = 1.0
_TRIM_SECONDS = 3600.0
_STOP_SECONDS = 30.0


class Maintenance:
    """Counts the commits to tables and looks after a table when there have been many."""

    def __init__(
        self,
        session: SparkSession,
        guard: Commits,
        *,
        commits: int,
        join_commits: int = 0,
        keep_snapshots: int,
        keep_seconds: float,
        retention: Sequence[RetentionRule] = (),
    ) -> None:
        """
        Args:
            commits: after how many commits a table is looked after; 0: never.
            join_commits: after how many its small files are put together, where `commits` is not 0; 0: never.
            keep_snapshots: that are kept at least.
            keep_seconds: snapshots that are not older are kept, too.
            retention: which tables let old rows go; looked at each hour.
        """
        self._session = session.newSession()
        guard.mark(self._session)
        self._guard = guard
        self._commits = commits
        self._joining = Joining(session, guard, join_commits)
        self._keep = keep_snapshots
        self._keep_for = dt.timedelta(seconds=keep_seconds)
        self._retention = Retention(self._session, guard, retention)
        self._trimmed_at: float | None = None
        self._since: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._group = f"tidings-maintenance-{uuid.uuid4().hex}"
        self._thread: threading.Thread | None = None

    def after(self, tables: Iterable[str]) -> None:
        """Note that a batch has committed to these tables."""
        if not self._commits:
            return
        for table in tables:
            with self._lock:
                known = self._since.get(table)
            # A job that has begun anew goes on with the count of the one before it.
            count = self._since_last(table) if known is None else known + 1
            with self._lock:
                self._since[table] = count
            if table != WATERMARK:  # see `compact`
                self._joining.after(table, count if known is None else 1)

    def _since_last(self, table: str) -> int:
        """Commits to a table since it was looked after last, by whichever job."""
        # The branch of a table's first write begins with an empty snapshot.
        return self._guard.sequence(table) - int(self._guard.property(table, _LOOKED_AFTER) or 1)

    def due(self) -> list[str]:
        """Tables that it is time to look after, the one with the most commits first."""
        with self._lock:
            found = [(count, table) for table, count in self._since.items() if 0 < self._commits <= count]
        return [table for _, table in sorted(found, reverse=True)]

    def start(self) -> None:
        """Look after tables as they become due, until stopped."""
        self._thread = threading.Thread(target=self._run, name="tidings-maintenance", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give up what is under way, which leaves every table as it is, and end the thread."""
        self._stopping.set()
        if self._thread is not None and self._thread.is_alive():
            self._session.sparkContext.cancelJobGroup(self._group)
            self._thread.join(_STOP_SECONDS)

    def run_due(self) -> None:
        """Look after all tables that are due, once old rows have gone; then put small files together where it is time."""
        self._trim_all()
        for table in self.due():
            if self._stopping.is_set():
                return
            self._attempt(table, self.compact)
        if (joined := self._joining.due()) is not None and not self._stopping.is_set():
            self._join(joined)

    def _join(self, table: str) -> None:
        """Put a table's small files together; that its upkeep fails, or does not, is another matter."""
        try:
            joined = self._joining.join(table)
        except (PySparkException, Py4JError, TidingsError) as error:
            if self._stopping.is_set():
                return
            self._tell_failed(table, error)
        else:
            if joined:
                MAINTAINED.labels(table, "joined").inc()

    def _trim_all(self) -> None:
        now = time.monotonic()
        if self._trimmed_at is not None and now - self._trimmed_at < _TRIM_SECONDS:
            return
        self._trimmed_at = now
        for table in self._retention.due():
            if self._stopping.is_set():
                return
            self._attempt(table, self._trim)

    def _trim(self, table: str) -> None:
        if self._retention.trim(table) and self._commits:
            with self._lock:
                self._since[table] = (
                    self._commits
                )  # so that its former snapshots expire, also when nobody writes to it

    def _run(self) -> None:
        context = self._session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "maintenance")
        context.setJobGroup(self._group, "maintenance of tables", interruptOnCancel=True)
        while not self._stopping.wait(_LOOK_SECONDS):
            self.run_due()

    def _attempt(self, table: str, action: Callable[[str], None]) -> None:
        try:
            action(table)
        except (PySparkException, Py4JError, TidingsError) as error:
            if self._stopping.is_set():
                return
            # The table is as good as before, and what is really wrong with it its next write will tell.
            self._tell_failed(table, error)
            MAINTENANCE_FAILING.labels(table).set(1)
            with self._lock:
                self._since[table] = self._commits // 2
        else:
            MAINTAINED.labels(table, "done").inc()
            MAINTENANCE_FAILING.labels(table).set(0)

    @staticmethod
    def _tell_failed(table: str, error: Exception) -> None:
        MAINTAINED.labels(table, "failed").inc()
        _LOG.warning(
            "a table could not be looked after; it is tried again later",
            table=table,
            error=in_a_line(error),
        )

    def compact(self, table: str) -> None:
        """Look after one table now."""
        use_in_thread(self._session)  # Iceberg's actions ask for it
        # Both streams replace their part of the watermark, whose files are never small ones that add up.
        if table != WATERMARK:
            if not self._rewrite_files(table):
                with self._guard.alone(table):
                    self._rewrite_files(table)
            if table_size(self._session, table).delete_files > _MANY_DELETE_FILES:
                self._call_to_end(
                    "rewrite_position_delete_files", table, f"options => {_options(_DELETE_FILES)}"
                )
            self._call_to_end("rewrite_manifests", table, "use_caching => false")
        self._guard.check(table)  # while the snapshots since the last look are there
        older_than = dt.datetime.now(dt.UTC) - self._keep_for
        if (begun := self._guard.begun_at(table)) is not None:
            older_than = min(older_than, dt.datetime.fromtimestamp(begun / 1000, dt.UTC))
        self._call(
            "expire_snapshots",
            table,
            f"older_than => {_timestamp(older_than)}, retain_last => {self._keep}, max_concurrent_deletes => 1",
        )
        self._remove_orphans(table)
        self._guard.set_properties(table, {_LOOKED_AFTER: str(self._guard.sequence(table))})
        with self._lock:
            self._since[table] = 0
        self._joining.looked_after(table)
        _LOG.info("table compacted", table=table)

    def _rewrite_files(self, table: str) -> bool:
        """Gives whether everything that was to be rewritten has been; what a write has overtaken has not."""
        options = dict(_FILES)
        # Files that deletes have hit are rewritten, too, so that no delete file outlives them.
        if table_size(self._session, table).bytes <= _SMALL_TABLE_BYTES:
            options["delete-file-threshold"] = 1
        strategy = self._guard.looked_at(table, lambda held: self._by_layout(table, held, options))
        try:
            found = self._call("rewrite_data_files", table, f"{strategy}options => {_options(options)}")
        except (PySparkException, Py4JError) as error:
            if not _is_overtaken(error):
                raise
            return False
        return not found["failed_data_files_count"]

    def _by_layout(self, table: str, held: Any, options: dict[str, Any]) -> str:
        """How files are rewritten where somebody has laid the table out; all of them when some are of a former layout."""
        if is_to_be_spread(self._session, table, held):
            options["rewrite-all"] = "true"
        return "strategy => 'sort', " if is_sorted_otherwise(held) else ""

    def _remove_orphans(self, table: str) -> None:
        now = dt.datetime.now(dt.UTC)
        last = self._guard.property(table, _ORPHANS_AT)
        if last and now - dt.datetime.fromisoformat(last) < _ORPHANS_EVERY:
            return
        if last:  # a table that is new has none
            # An object store is listed by its own file IO: Hadoop, which lists otherwise, knows none.
            listing = ", prefix_listing => true" if self._session.conf.get(FILE_IO, None) else ""
            self._call(
                "remove_orphan_files", table, f"older_than => {_timestamp(now - _ORPHANS_AGE)}{listing}"
            )
        self._guard.set_properties(table, {_ORPHANS_AT: now.isoformat(timespec="seconds")})

    def _call_to_end(self, procedure: str, table: str, arguments: str) -> None:
        """Call a procedure; again while the table's writes wait, where one of them has overtaken it."""
        try:
            self._call(procedure, table, arguments)
        except (PySparkException, Py4JError) as error:
            if not _is_overtaken(error):
                raise
            with self._guard.alone(table):
                self._call(procedure, table, arguments)

    def _call(self, procedure: str, table: str, arguments: str) -> Any:
        rows = self._session.sql(
            f"CALL {CATALOG}.system.{procedure}(table => '{table}', {arguments})"
        ).collect()
        return rows[0] if rows else None


def _is_overtaken(error: Exception) -> bool:
    """Whether a write has come between, so that nothing is done and nothing is wrong."""
    return any(mark in str(error) for mark in _OVERTAKEN)


def _options(values: dict[str, Any]) -> str:
    return "map(" + ", ".join(f"'{key}', '{value}'" for key, value in values.items()) + ")"


def _timestamp(moment: dt.datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}'"
