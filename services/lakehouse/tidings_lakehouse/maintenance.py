"""Keeps tables readable: small files into few, deleted rows out, old snapshots away.

It runs between batches of the stream that writes the table, in the same process, because a MERGE and a concurrent
compaction of one table conflict (apache/iceberg#12187). Every step is a commit of its own: a crash between them leaves
a table that is as correct as before.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings_lakehouse.commits import Commits
from tidings_lakehouse.topics import CATALOG, WATERMARK
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.maintenance")
# Files that deletes have hit are rewritten, too, so that no delete file outlives them.
_REWRITE_FILES = (
    f"CALL {CATALOG}.system.rewrite_data_files(table => '{{table}}', options => map("
    "'min-input-files', '4', 'delete-file-threshold', '1', 'remove-dangling-deletes', 'true', "
    "'max-concurrent-file-group-rewrites', '1'))"
)
_REWRITE_MANIFESTS = f"CALL {CATALOG}.system.rewrite_manifests(table => '{{table}}', use_caching => false)"
_EXPIRE = (
    f"CALL {CATALOG}.system.expire_snapshots(table => '{{table}}', older_than => TIMESTAMP '{{now}}', "
    "retain_last => {keep}, max_concurrent_deletes => 1)"
)


class Maintenance:
    """Counts a stream's commits and compacts a table when there have been many."""

    def __init__(self, session: SparkSession, guard: Commits, *, commits: int, keep_snapshots: int) -> None:
        self._session = session
        self._guard = guard
        self._commits = commits
        self._keep = keep_snapshots
        self._since: Counter[str] = Counter()

    def after(self, tables: Iterable[str]) -> list[str]:
        """Note that a batch has committed to these tables; gives those that have been compacted now.

        At most one a batch, so that no batch waits long.
        """
        self._since.update(tables)
        due = [(count, table) for table, count in self._since.items() if 0 < self._commits <= count]
        if not due:
            return []
        _, table = max(due)
        self.compact(table)
        self._since[table] = 0
        return [table]

    def compact(self, table: str) -> None:
        """Compact one table now."""
        # Both streams replace their part of the watermark, whose files are never small ones that add up.
        steps = (_EXPIRE,) if table == WATERMARK else (_REWRITE_FILES, _REWRITE_MANIFESTS, _EXPIRE)
        for step in steps:
            if step is _EXPIRE:
                self._guard.check(table)  # while the snapshots since the last look are there
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
            self._session.sql(step.format(table=table, now=now, keep=self._keep))
        _LOG.info("table compacted", table=table)
