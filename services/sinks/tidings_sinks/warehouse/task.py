"""The task: records wait until there are enough of them, or for long enough; then they are merged in one transaction of the
warehouse, with the offsets after them. Batches that come as columns wait as such: no object is made of a record.

The warehouse's file is open only while a batch is merged, so that readers and other tasks have their turns in between.
Whichever task merges takes the file's lock first and looks whether its partitions are still its own (`epoch`).
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tidings_connect.task.sink import (
    RetriableError,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicColumns,
    TopicPartition,
)
from tidings_connect.task.sink.passes import Passes
from tidings_service import get_logger
from tidings_sinks.errors import BusyError, DataProblemError, RowError, TargetError
from tidings_sinks.jdbc.columns import by_columns, by_kept_columns, has_columns
from tidings_sinks.jdbc.database import Database
from tidings_sinks.jdbc.tables import Tables
from tidings_sinks.jdbc.task import Bad, JdbcSinkTask, ends_of
from tidings_sinks.warehouse.duck import DuckDatabase
from tidings_sinks.warehouse.lock import locked
from tidings_sinks.warehouse.newest import newest
from tidings_sinks.warehouse.settings import WarehouseSettings
from tidings_sinks.warehouse.snapshot import copy_warehouse
from tidings_sinks.warehouse.tables import WarehouseTables
from tidings_sinks.warehouse.waiting import Part, Waiting, parts_of
from tidings_sinks.warehouse.writing import write, write_by_columns

_MOST_RECORDS: Final = 2_000
"""Are decoded at once with the least work for each."""

_log = get_logger(__name__)


class WarehouseTask(SinkTask):
    """A `SinkTask`."""

    keeps_records = True

    def __init__(self, settings: WarehouseSettings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._merges = _Merges(settings, context)
        self.most_records = min(_MOST_RECORDS, settings.records)  # type: ignore[misc]  # of a task, not of all
        self.takes_columns = has_columns(settings.rows)  # type: ignore[misc]
        self._passes = Passes()
        """Merges of records, behind one whose columns were not plain after all."""
        self._waiting = Waiting(context.read_again)
        self._since = 0.0
        """When the first of them came; `time.monotonic`."""
        self._again_at = 0.0
        """After a flush that failed."""
        self._merged = False
        """Whether there is something merged that the group does not know to be durable."""
        self._changed = settings.snapshot is not None
        """Whether the snapshot lacks what is merged; not known at the start."""
        self._copied_at = float("-inf")

    @property
    def reads(self) -> frozenset[str] | None:
        """See `SinkTask.reads`."""
        return self._merges.reads

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """See `SinkTask.open`."""
        with self._turn():
            return self._merges.open(partitions)

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        if self._is_full():
            self._merge()
        self._begin_to_wait()
        self._waiting.add(batch)
        self._merge_if_full()

    def put_columns(self, batch: Sequence[TopicColumns]) -> bool:
        """See `SinkTask.put_columns`."""
        count = sum(len(topic.records) for topic in batch)
        if self._passes.left or self._waiting.has_records or count > self._settings.records:
            return False
        parts = parts_of(batch)
        if parts is None:
            return False
        if (
            self._is_full()
            or self._waiting.count + count > self._settings.records
            or not self._waiting.fits(parts)
        ):
            self._merge()
        self._begin_to_wait()
        self._waiting.add_columns(parts)
        self._merge_if_full()
        return True

    def _begin_to_wait(self) -> None:
        if not self._waiting.count:
            self._since = time.monotonic()

    def _merge_if_full(self) -> None:
        if self._is_full():
            try:
                self._merge()
            except RetriableError as error:
                # The batch is taken: its records must not come again.
                _log.warning(
                    "a batch cannot be merged now", connector=self._context.connector, reason=str(error)
                )

    def wants_flush(self) -> bool:
        """See `SinkTask.wants_flush`."""
        now = time.monotonic()
        if now < self._again_at:
            return False
        late = self._waiting.count > 0 and now - self._since >= self._settings.flush_seconds
        return late or self._merged or self._is_copy_due(now)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        self._again_at = time.monotonic() + 1
        self._merge()
        if self._merges.is_behind(offsets):
            with self._turn():
                self._merges.flush(offsets)
        if self._is_copy_due(time.monotonic()):
            self._copy()
        self._again_at, self._merged = 0.0, False
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._waiting.forget(partitions)
        self._merges.close(partitions)

    def stop(self) -> None:
        """See `SinkTask.stop`. Readers of the snapshot see what the task has merged."""
        self._merges.stop()
        if self._settings.snapshot is not None and self._changed and self._settings.file.exists():
            try:
                self._copy()
            except (RetriableError, TargetError) as error:
                _log.warning(
                    "the snapshot lacks the last batches",
                    connector=self._context.connector,
                    reason=str(error),
                )

    def _is_full(self) -> bool:
        settings, count = self._settings, self._waiting.count
        return count >= settings.records or (count > 0 and self._context.kept_bytes() >= settings.flush_bytes)

    def _merge(self) -> None:
        if not self._waiting.count:
            return
        with self._turn():
            self._passes.passed()
            if self._waiting.parts:
                if self._merges.put_kept(self._waiting.parts):
                    self._waiting.all_merged()
                    self._merged = self._changed = True
                    self._passes.done()
                else:
                    self._passes.in_vain()
            while records := self._waiting.records():
                some = records[: self._settings.records]
                self._merges.put(some)
                self._waiting.merged(len(some))
                self._merged = self._changed = True

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with locked(self._settings.file):
            try:
                yield
            finally:
                self._merges.stop()

    # The snapshot

    def _is_copy_due(self, now: float) -> bool:
        settings = self._settings
        return (
            settings.snapshot is not None
            and self._changed
            and now - self._copied_at >= settings.snapshot_seconds
        )

    def _copy(self) -> None:
        assert self._settings.snapshot is not None
        try:
            with locked(self._settings.file):
                copy_warehouse(self._settings.file, self._settings.snapshot)
        except BusyError as error:
            raise RetriableError(str(error)) from None
        self._changed, self._copied_at = False, time.monotonic()


class _Merges(JdbcSinkTask):
    """What is done while the file is open. `stop` closes it."""

    def __init__(self, settings: WarehouseSettings, context: SinkContext) -> None:
        super().__init__(settings.rows, context)
        self._warehouse = settings

    def is_behind(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether the warehouse's positions are before these."""
        return bool(self._positions.behind(offsets))

    def _connect(self) -> Database:
        return DuckDatabase(self._warehouse)

    def _make_tables(self, database: Database) -> Tables:
        assert isinstance(database, DuckDatabase)
        return WarehouseTables(database, self._settings)

    def _put(self, batch: Sequence[SinkRecord]) -> Mapping[TopicPartition, int]:
        database = self._database
        new = self._positions.unwritten(batch)
        if new and not self._merged_by_columns(database, new):
            self._merge_or_part(database, new)
        self._positions.finished()
        return {}

    def put_kept(self, parts: Sequence[Part]) -> bool:
        """Merge what has waited as columns; whether it was taken, else it is to be put as records."""
        return self._taken_later(lambda: self._merged_kept(self._database, parts))

    def _merged_kept(self, database: Database, parts: Sequence[Part]) -> bool:
        if self._positions.repeats:
            return False  # a part of it may be merged
        assert isinstance(database, DuckDatabase)
        tables, settings = self._tables_of(database), self._settings
        columns = [part.columns for part in parts]
        found = by_kept_columns(columns, self._changes, tables, settings, reduces=True)
        if found is None:
            return False
        offsets = ends_of(part.read for part in parts)
        try:
            self._merge(database, offsets, lambda: write_by_columns(database, found), [])
        except DataProblemError:
            return False
        self._positions.finished()
        for part in parts:
            self._deprecations.look_at_headers(part.topic, part.headers)
        return True

    def _merged_by_columns(self, database: Database, batch: Sequence[SinkRecord]) -> bool:
        """Merge a plain batch, which takes a part of the time; whether it was one, and nothing of it was refused."""
        assert isinstance(database, DuckDatabase)
        tables = self._tables_of(database)
        found = by_columns(batch, self._changes, tables, self._settings, reduces=True)
        if found is None:
            return False
        try:
            self._merge(database, _ends(batch), lambda: write_by_columns(database, found), [])
        except DataProblemError:
            return False
        self._deprecations.look_at_all(batch)
        return True

    def _merge_or_part(self, database: Database, batch: Sequence[SinkRecord]) -> None:
        """Merge records; where one of them is refused, by halves, each with its positions, until it is alone."""
        bad: Bad = []
        prepared = self._prepared(database, batch, bad)
        try:
            self._merge(database, _ends(batch), lambda: write(database, newest(prepared)), bad)
        except DataProblemError as error:
            if len(batch) == 1:
                self._merge(database, _ends(batch), lambda: None, [(batch[0], RowError(str(error)))])
                return
            middle = len(batch) // 2
            self._merge_or_part(database, batch[:middle])
            self._merge_or_part(database, batch[middle:])

    def _merge(
        self,
        database: Database,
        offsets: Mapping[TopicPartition, int],
        write_all: Callable[[], None],
        bad: Bad,
    ) -> None:
        database.begin()
        try:
            self._positions.move(database, offsets)
            write_all()
            for record, error in bad:
                self._context.report(record, error)
            self._context.settle()
            self._positions.committing(offsets)
            database.commit()
            self._positions.committed(offsets)
        except BaseException:
            database.rollback()
            raise


def _ends(batch: Sequence[SinkRecord]) -> dict[TopicPartition, int]:
    """Where partitions go on after records."""
    return {record.original: record.offset + 1 for record in batch}
