"""Commits that only one job can make: a second writer is found in the table's own commit, whatever the catalog.

What a job appends depends on what it knows the table to hold (`positions.py`), so two jobs on one warehouse would write
every record twice. Rows are therefore written to a branch, and one commit moves `main` to it. That commit holds only on the
metadata that it was made for (the catalog compares and sets them), and only if `main` is still what the branch began with;
and the branch begins only with a `main` to which nobody but this job has committed since it opened the table.

Compaction changes no row (operation ``replace``) and is no other writer.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidings_lakehouse.errors import SecondWriterError
from tidings_lakehouse.topics import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITER = "tidings.writer"
"""Property of a snapshot: the job that made it."""
_MARK = f"spark.sql.iceberg.snapshot-property.{_WRITER}"
_BRANCH = "tidings_"
_MAIN = "main"
_REPLACE = "replace"
_REFUSALS = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
    "java.lang.IllegalArgumentException",
)
"""What Iceberg throws when `main` or the metadata are not what the branch was made from."""


class Commits:
    """The commits of one job; for any of its threads."""

    def __init__(self, session: SparkSession) -> None:
        self.writer = uuid.uuid4().hex
        self._branch = _BRANCH + self.writer[:12]
        self._known: dict[str, int | None] = {}
        """By table, the newest snapshot that this job has made or begun with."""
        self._lock = threading.RLock()
        self._spark = session._jsparkSession  # noqa: SLF001 - the only way to Iceberg's own interface
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001
        self._util = jvm.org.apache.iceberg.spark.Spark3Util
        self.mark(session)

    def mark(self, session: SparkSession) -> None:
        """Have every snapshot that a session makes say which job made it."""
        session.conf.set(_MARK, self.writer)

    def open(self, name: str) -> None:
        """Note which snapshot a table has; to be called before anything that the table holds is read."""
        with self._lock:
            if name not in self._known:
                self._known[name] = _head(self._load(name))

    def property(self, name: str, key: str) -> str:
        """A property of a table, empty when it has none of that name; a statement of Spark's takes ten times as long."""
        return str(self._load(name).properties().get(key) or "")

    @contextmanager
    def staged(self, name: str) -> Iterator[str]:
        """Give the name to write under; what has been written there becomes the table's in one commit.

        Raises:
            SecondWriterError: another job has written to the table; nothing of this was.
        """
        with self._lock:
            table = self._load(name)
            self.check(name, table)
            begun = self._known[name]
            self._stage(table, begun)
            yield f"{name}.branch_{self._branch}"
            self._known[name] = self._publish(name, begun)

    def check(self, name: str, table: Any = None) -> None:
        """See that nobody else has committed to a table since this job opened it, or last committed to it.

        Raises:
            SecondWriterError: somebody has.
        """
        with self._lock:
            table = self._load(name) if table is None else table
            known, head = self._known.setdefault(name, _head(table)), table.currentSnapshot()
            snapshot = head
            while snapshot is not None and snapshot.snapshotId() != known:
                if snapshot.operation() != _REPLACE and snapshot.summary().get(_WRITER) != self.writer:
                    raise _second(name)
                parent = snapshot.parentId()
                snapshot = None if parent is None else table.snapshot(parent)
            self._known[name] = None if head is None else head.snapshotId()

    def _stage(self, table: Any, begun: int | None) -> None:
        """Have the branch begin where `main` is; what writes that failed have left goes."""
        left = [name for name in map(str, table.refs().keySet().toArray()) if name.startswith(_BRANCH)]
        if left:
            manage = table.manageSnapshots()
            for name in left:
                manage = manage.removeBranch(name)
            manage.commit()
        manage = table.manageSnapshots()
        if begun is None:
            manage.createBranch(self._branch).commit()
        else:
            manage.createBranch(self._branch, begun).commit()

    def _publish(self, name: str, begun: int | None) -> int | None:
        table = self._load(name)
        if _head(table) != begun:
            raise _second(name)
        try:
            manage = table.manageSnapshots()
            manage.fastForwardBranch(_MAIN, self._branch).removeBranch(self._branch).commit()
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() in _REFUSALS:
                raise _second(name) from error
            raise
        return _head(table)

    def _load(self, name: str) -> Any:
        return self._util.loadIcebergTable(self._spark, f"{CATALOG}.{name}")


def _head(table: Any) -> int | None:
    snapshot = table.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def _second(name: str) -> SecondWriterError:
    return SecondWriterError(
        f"somebody else has written to {name} while this job did; nothing of this job's batch was written to it",
        hint="one job writes to a warehouse: stop the other one, or give each a warehouse of its own; if a person has "
        "changed the table, start the job again",
    )
