"""The task: a batch of records is one transaction, and the offsets after it are in it. See `tidings_sinks.positions`."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidings_connect.data.subscription import Consumed
from tidings_connect.task.sink import (
    RetriableError,
    SinkContext,
    SinkRecord,
    TopicColumns,
    TopicPartition,
    last_of_partitions,
)
from tidings_service import get_logger
from tidings_sinks.errors import BusyError, DataProblemError, LostError, RowError, TargetError
from tidings_sinks.jdbc.changes import Changes
from tidings_sinks.jdbc.columns import TableBatch, by_columns, by_topic_columns
from tidings_sinks.jdbc.database import Database, MovedError
from tidings_sinks.jdbc.open_database import open_database
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.jdbc.tables import Prepared, Tables
from tidings_sinks.jdbc.writer import Writer
from tidings_sinks.positioned_task import Offsets, PositionedSinkTask

_MOVED_ATTEMPTS: Final = 3

_log = get_logger(__name__)
Bad = list[tuple[SinkRecord, Exception]]


class JdbcSinkTask(PositionedSinkTask):
    """A `SinkTask`."""

    most_records = 2_000  # a transaction costs as much as some hundred rows
    takes_columns = True

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        super().__init__(context, settings.group)
        self._settings = settings
        self._changes = Changes(settings)
        self._open: Database | None = None
        self._tables: Tables | None = None

    @property
    def reads(self) -> frozenset[str] | None:
        """See `SinkTask.reads`."""
        return self._changes.reads

    # Attempts

    def _later(self, act: Callable[[], Offsets]) -> Offsets:
        attempt = moved = 0
        while True:
            try:
                return act()
            except LostError as error:
                self._forget()
                raise RetriableError(str(error)) from None
            except BusyError as error:
                attempt += 1
                if attempt > self._settings.retries:
                    raise RetriableError(str(error)) from None
                _log.warning("the target is busy and is asked again", reason=str(error))
                time.sleep(self._settings.retry_seconds)
            except MovedError as error:
                moved += 1
                self._tables = None
                if moved >= _MOVED_ATTEMPTS:
                    raise TargetError(str(error), hint="compare the table with the topic's records") from None

    def _forget(self) -> None:
        found, self._open, self._tables = self._open, None, None
        if found is not None:
            found.close()

    @property
    def _store(self) -> Database:
        return self._database

    @property
    def _database(self) -> Database:
        if self._open is None:
            self._open = self._connect()
            self._open.make_positions()
            try:
                self._positions.look(self._open)
            except TargetError:
                self._forget()
                raise
        return self._open

    def _connect(self) -> Database:
        return open_database(self._settings)

    def _make_tables(self, database: Database) -> Tables:
        return Tables(database, self._settings)

    # Positions

    def _moved_only(self, offsets: Offsets) -> Offsets:
        database = self._database
        self._context.settle()
        database.begin()
        try:
            self._positions.move(database, offsets)
            self._commit(database, offsets)
        except BaseException:
            database.rollback()
            raise
        return offsets

    @contextmanager
    def _transaction(self, database: Database, offsets: Offsets) -> Iterator[None]:
        """Of what is written within it, and of where partitions go on after it; the dead letters among it are stored before it
        is committed."""
        database.begin()
        try:
            self._positions.move(database, offsets)
            yield
            self._context.settle()
            self._commit(database, offsets)
        except BaseException:
            database.rollback()
            raise

    def _commit(self, database: Database, offsets: Offsets) -> None:
        self._positions.committing(offsets)
        database.commit()
        self._positions.committed(offsets)
        self._positions.finished()

    # A batch

    def put_columns(self, batch: Sequence[TopicColumns]) -> bool:
        """See `SinkTask.put_columns`."""
        return self._taken_later(lambda: self._put_topics(batch))

    def _taken_later(self, put: Callable[[], bool]) -> bool:
        """`_later` of what says whether it has taken what it was given."""
        taken = False

        def act() -> Offsets:
            nonlocal taken
            taken = put()
            return {}

        self._later(act)
        return taken

    def _put_topics(self, batch: Sequence[TopicColumns]) -> bool:
        database = self._database
        if self._positions.repeats:
            return False  # a part of it may be written
        settings = self._settings
        tables = self._tables_of(database)
        found = by_topic_columns(batch, self._changes, tables, settings, reduces=settings.reduces)
        if found is None:
            return False
        offsets = ends_of(topic.records for topic in batch)
        if not self._written_by_columns(database, self._writer(database), found, offsets):
            return False
        for topic in batch:
            self._deprecations.look_at_headers(topic.topic, topic.headers)
        return True

    def _writer(self, database: Database) -> Writer:
        return Writer(database, self._settings.batch, reduces=self._settings.reduces)

    def _put(self, batch: Sequence[SinkRecord]) -> Offsets:
        database = self._database
        batch = self._positions.unwritten(batch)
        offsets = {record.original: record.offset + 1 for record in batch}
        if not offsets:
            self._positions.finished()
            return offsets
        writer = self._writer(database)
        if not self._put_by_columns(database, writer, batch, offsets):
            self._put_by_records(database, writer, batch, offsets)
        return offsets

    def _put_by_columns(
        self, database: Database, writer: Writer, batch: Sequence[SinkRecord], offsets: Offsets
    ) -> bool:
        """Write a plain batch, which takes a part of the time; whether it was one, and nothing of it was refused."""
        tables, settings = self._tables_of(database), self._settings
        found = by_columns(batch, self._changes, tables, settings, reduces=settings.reduces)
        if found is None or not self._written_by_columns(database, writer, found, offsets):
            return False
        self._deprecations.look_at_all(batch)
        return True

    def _written_by_columns(
        self, database: Database, writer: Writer, batches: Sequence[TableBatch], offsets: Offsets
    ) -> bool:
        try:
            with self._transaction(database, offsets):
                writer.write_columns(batches)
        except DataProblemError:
            return False
        return True

    def _put_by_records(
        self, database: Database, writer: Writer, batch: Sequence[SinkRecord], offsets: Offsets
    ) -> None:
        """Write any batch; the records of which are reported that cannot be written."""
        bad: Bad = []
        prepared = self._prepared(database, batch, bad)
        with self._transaction(database, offsets):
            try:
                writer.write(prepared)
            except DataProblemError:
                database.rollback()
                database.begin()
                self._positions.move(database, offsets)
                refused = writer.write_what_can_be(prepared)
                bad += [(change.change.record, RowError(str(error))) for change, error in refused]
            for record, error in bad:
                self._context.report(record, error)

    def _prepared(self, database: Database, batch: Sequence[SinkRecord], bad: Bad) -> list[Prepared]:
        tables = self._tables_of(database)
        found = []
        for record in batch:
            try:
                change = self._changes.read(record)
                if change is not None:
                    found.append(tables.prepare(change))
            except RowError as error:
                bad.append((record, error))
            self._deprecations.look(record)
        return found

    def _tables_of(self, database: Database) -> Tables:
        if self._tables is None:
            self._tables = self._make_tables(database)
        return self._tables


def ends_of(read: Iterable[Sequence[Consumed]]) -> dict[TopicPartition, int]:
    """Where partitions go on after records, those of each topic together."""
    return {at: record.offset + 1 for some in read for at, record in last_of_partitions(some).items()}
