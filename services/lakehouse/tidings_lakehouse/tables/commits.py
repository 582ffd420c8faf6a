"""Commits that only one job can make: a second writer is found in the table's own commit, whatever the catalog.

What a job appends depends on what it knows the table to hold (`positions.py`), so two jobs on one warehouse would write
every record twice. Rows are therefore written to a branch, and one commit moves `main` to it. That commit holds only on the
metadata that it was made for (the catalog compares and sets them), and only if `main` is still what the branch began with;
and the branch begins only with a `main` to which nobody but this job has committed since it opened the table.

The same commit says in a property of the table how far it has come (`noted`), so that a start does not have to read the rows.

Compaction changes no row (operation ``replace``) and is no other writer. It runs beside the job; rows that were prepared on what
it has replaced meanwhile are prepared again.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import types as st

from tidings_lakehouse.layout_rules import Layout, LayoutRule, Partition
from tidings_lakehouse.spark.held_rows import Deleted
from tidings_lakehouse.spark.java_items import items
from tidings_lakehouse.spark.small import FileWriter
from tidings_lakehouse.tables.added import Added
from tidings_lakehouse.tables.branch import Branch, CompactedError, Note, second_writer
from tidings_lakehouse.tables.descriptions import Descriptions
from tidings_lakehouse.tables.layouts import Layouts
from tidings_lakehouse.tables.new_tables import NewTables
from tidings_lakehouse.tables.races import until_it_holds
from tidings_lakehouse.tables.snapshots import (
    PROGRESS_PROPERTY,
    REPLACE,
    ROWS,
    head_of,
    noted_in,
    progress_text,
)
from tidings_lakehouse.topics import CATALOG
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = get_logger("tidings_lakehouse.tables.commits")
_WRITER = "tidings.writer"
"""Property of a snapshot: the job that made it."""
_MARKS = "spark.sql.iceberg.snapshot-property."
"""Settings of a session: properties of the snapshots that it makes."""
_MARK = f"{_MARKS}{_WRITER}"
_TOLD = (_WRITER, "tidings.query-id", "tidings.batch-id", "tidings.offsets")
_APPLICATION = "spark.app.id"
_REPEATS = 10
"""Times that rows are prepared again because a compaction came first; it is that often in a row only if it never rests."""

R = TypeVar("R")


class Commits:
    """The commits of one job; for any of its threads."""

    def __init__(self, session: SparkSession, layouts: Sequence[LayoutRule] = ()) -> None:
        self.writer = uuid.uuid4().hex
        self._branch = Branch(self.writer, self._load)
        self._known: dict[str, int | None] = {}
        """By table, the newest snapshot that this job has made or begun with."""
        self._begun: dict[str, int] = {}
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        self._spark = session._jsparkSession  # noqa: SLF001 - the only way to Iceberg's own interface
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001
        self.layouts = Layouts(session, layouts)
        self._new = NewTables(session, self.layouts)
        self._descriptions = Descriptions(session)
        self._util = jvm.org.apache.iceberg.spark.Spark3Util
        self._schemas = jvm.org.apache.iceberg.spark.SparkSchemaUtil
        self._files = FileWriter(session)
        self.mark(session)

    def mark(self, session: SparkSession) -> None:
        """Have every snapshot that a session makes say which job made it."""
        session.conf.set(_MARK, self.writer)

    def open(self, name: str) -> st.StructType | None:
        """A table's columns, None when there is none of that name; to be called before anything that it holds is read.

        Notes which snapshot it has. Asked for by SQL, the same takes ten times as long.
        """
        try:
            table = self._load(name)
        except (AnalysisException, Py4JJavaError) as error:
            if not _is_missing(error):
                raise
            return None
        with self._lock_of(name):
            if name not in self._known:
                self._known[name] = head_of(table)
        return st.StructType.fromJson(json.loads(self._schemas.convert(table.schema()).json()))

    def create(
        self,
        name: str,
        schema: st.StructType,
        properties: Mapping[str, str],
        partitions: Sequence[Partition],
        ordered_by: Sequence[str],
        identifiers: Sequence[str],
    ) -> None:
        """Make a table; see `NewTables.create`."""
        made = self._new.create(name, schema, properties, partitions, ordered_by, identifiers)
        with self._lock_of(name):
            self._known[name] = head_of(made)

    def alter(self, name: str, action: Callable[[], R]) -> R:
        """Change a table's columns or its layout; again when another commit came between, as of a compaction.

        Iceberg tries such a change once, where it tries rows and properties again.

        Args:
            action: does what is still to be done, on the table as it is then.
        """
        with self._lock_of(name):
            return until_it_holds(name, _REPEATS, action)

    def lay_out(self, name: str, layout: Layout) -> None:
        """Have a table laid out as a setting says; see `Layouts.change`."""
        if self.alter(name, lambda: self.layouts.change(name, self._load(name), layout)):
            _LOG.info("the layout of a table has been changed; its files are as they were", table=name)

    def relax(self, name: str, optional: Collection[str], identifiers: Sequence[str]) -> None:
        """Let columns of a table be null; see `Descriptions.relax`."""
        self.alter(name, lambda: self._descriptions.relax(self._load(name), optional, identifiers))
        _LOG.info(
            "columns of a table may be null from now on, or its key is another",
            table=name,
            columns=sorted(optional),
            identifier_fields=list(identifiers),
        )

    def comment(self, name: str, told: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
        """Give a table's columns comments; see `Descriptions.comment`."""
        return self.alter(name, lambda: self._descriptions.comment(self._load(name), told, wanted))

    def property(self, name: str, key: str) -> str:
        """A property of a table, or nothing."""
        return str(self._load(name).properties().get(key) or "")

    def properties(self, name: str, keys: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Those of some properties that a table has, and its identifier fields."""
        table = self._load(name)
        have = table.properties()
        found = {key: str(value) for key in keys if (value := have.get(key)) is not None}
        return found, tuple(str(one) for one in items(table.schema().identifierFieldNames()))

    def set_properties(self, name: str, values: Mapping[str, str]) -> None:
        """Set properties of a table."""
        with self._lock_of(name):
            update = self._load(name).updateProperties()
            for key, value in values.items():
                update = update.set(key, value)
            update.commit()

    def rows_of(self, name: str) -> int:
        """Rows in a table's data files, those that delete files mark included."""
        snapshot = self._load(name).currentSnapshot()
        return 0 if snapshot is None else int(snapshot.summary().get(ROWS) or 0)

    def noted(self, name: str) -> dict[str, Any]:
        """What the last write has noted; empty when rows have come or gone since then by somebody who notes nothing.

        Compaction and the expiry of snapshots leave it true.
        """
        return noted_in(self._load(name))

    def note(self, name: str, note: Note) -> None:
        """Note something that is true of what a table holds."""
        with self._lock_of(name):
            self.check(name, table := self._load(name))
            if (head := head_of(table)) is not None:
                noted = {**noted_in(table), **note}
                self.set_properties(name, {PROGRESS_PROPERTY: progress_text(table, noted, head)})

    def write(self, name: str, action: Callable[[str], None], note: Note | None = None) -> None:
        """Write under the name that `action` is given; what has been written there becomes the table's in one commit.

        Args:
            action: is called again when a compaction came first.
            note: is put to what the table's writers have noted, in the same commit.

        Raises:
            SecondWriterError: another job has written to the table; nothing of this was.
        """
        for _ in range(_REPEATS):
            try:
                with self.staged(name, note) as staged:
                    action(staged)
            except CompactedError:
                _LOG.info("rows are prepared again, since a compaction came first", table=name)
            else:
                return
        raise second_writer(name)

    def append(
        self, name: str, rows: DataFrame, note: Note | None, behind: Callable[[], None] | None = None
    ) -> bool:
        """Append rows that are in memory: their files and what is noted in one commit, which is all that there is of it.

        Gives whether it was done: rows of some tables are for Spark to write, see `FileWriter.takes`.

        Args:
            behind: is called when the files are written, and not readable yet.

        Raises:
            SecondWriterError: another job has written to the table.
        """
        with self._lock_of(name):
            table = self._load(name)
            if not self._files.takes(table, rows):
                return False
            self.check(name, table)
            with self._keeping(name, table) as begun:
                files = self._files.write(table, rows)
                if behind is not None:
                    behind()
                self._known[name] = self._branch.publish(name, begun, note, Added(files, self._marks(rows)))
        return True

    def replace(
        self,
        name: str,
        replaced: Callable[[Any], tuple[Deleted, DataFrame]],
        note: Note | None,
        behind: Callable[[], None],
    ) -> bool:
        """Replace rows of a table by others that are in memory, in one commit; gives whether it was done, as `append` does.

        Args:
            replaced: gives, for Iceberg's table, the rows that go and those that come; is called again when a compaction came first.
            behind: as of `append`.

        Raises:
            SecondWriterError: another job has written to the table.
        """
        with self._lock_of(name):
            for _ in range(_REPEATS):
                table = self._load(name)
                # From version 3 on deletes are marked in another format.
                if table.operations().current().formatVersion() > 2:
                    return False
                self.check(name, table)
                with self._keeping(name, table) as begun:
                    deleted, rows = replaced(table)
                    if not self._files.takes(table, rows):
                        return False
                    added = Added(self._files.write(table, rows), self._marks(rows), deleted)
                    behind()
                    if not added.files and not deleted.added:
                        if note is not None:
                            self.note(name, note)
                        return True
                    try:
                        self._known[name] = self._branch.publish(name, begun, note, added)
                    except CompactedError:
                        _LOG.info("rows are prepared again, since a compaction came first", table=name)
                    else:
                        return True
        raise second_writer(name)

    def looked_at(self, name: str, look: Callable[[Any], R]) -> R:
        """What somebody sees who looks at Iceberg's table, to which nobody else has written."""
        with self._lock_of(name):
            table = self._load(name)
            self.check(name, table)
            return look(table)

    def _marks(self, rows: DataFrame) -> dict[str, str]:
        session = rows.sparkSession
        told = {key: session.conf.get(_MARKS + key, None) for key in _TOLD}
        told[_APPLICATION] = session.sparkContext.applicationId
        return {key: value for key, value in told.items() if value is not None}

    def add(self, staged: str, rows: DataFrame) -> bool:
        """Append rows that are in memory under the name that a write under way has been given; gives whether it was done."""
        table = self._load(staged.rpartition(".")[0])
        if not self._files.takes(table, rows):
            return False
        Added(self._files.write(table, rows), self._marks(rows)).put_to(table, self._branch.name)
        return True

    @contextmanager
    def staged(self, name: str, note: Note | None = None) -> Iterator[str]:
        """As `write`, once."""
        with self._lock_of(name):
            table = self._load(name)
            self.check(name, table)
            with self._keeping(name, table) as begun:
                self._branch.stage(table, table.refs(), begun)
                yield f"{name}.branch_{self._branch.name}"
                self._known[name] = self._branch.publish(name, begun, note)

    @contextmanager
    def _keeping(self, name: str, table: Any) -> Iterator[int | None]:
        """The snapshot with which a write begins, and which is kept until it ends."""
        begun = self._known[name]
        if begun is not None:
            self._begun[name] = int(table.snapshot(begun).timestampMillis())
        try:
            yield begun
        finally:
            self._begun.pop(name, None)

    def begun_at(self, name: str) -> int | None:
        """The time, in milliseconds, of the snapshot that a write under way has begun with; it has to be kept until that ends."""
        return self._begun.get(name)

    def check(self, name: str, table: Any = None) -> None:
        """See that nobody else has committed to a table since this job opened it, or last committed to it.

        Raises:
            SecondWriterError: somebody has.
        """
        with self._lock_of(name):
            table = self._load(name) if table is None else table
            known, head = self._known.setdefault(name, head_of(table)), table.currentSnapshot()
            snapshot = head
            while snapshot is not None and snapshot.snapshotId() != known:
                if snapshot.operation() != REPLACE and snapshot.summary().get(_WRITER) != self.writer:
                    raise second_writer(name)
                parent = snapshot.parentId()
                snapshot = None if parent is None else table.snapshot(parent)
            self._known[name] = None if head is None else head.snapshotId()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Have this job's writes to a table wait."""
        with self._lock_of(name):
            yield

    def sequence(self, name: str) -> int:
        """How many commits have made snapshots of a table, since ever."""
        snapshot = self._load(name).currentSnapshot()
        return 0 if snapshot is None else int(snapshot.sequenceNumber())

    def _lock_of(self, name: str) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(name, threading.RLock())

    def _load(self, name: str) -> Any:
        return self._util.loadIcebergTable(self._spark, f"{CATALOG}.{name}")


def _is_missing(error: Exception) -> bool:
    text = str(error)
    return "NoSuchTable" in text or "TABLE_OR_VIEW_NOT_FOUND" in text or "NoSuchNamespace" in text
