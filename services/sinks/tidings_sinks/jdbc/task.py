"""The task: a batch of records is one transaction, and the offsets after it are in it.

A partition belongs to the task that claimed it last: every transaction says first where its partitions go on, and only with
the epoch of that claim. So a task that does not know yet that its partitions are another's writes nothing, and a task that
begins reads where its predecessor's last transaction ended.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_service import Retry, get_logger
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.jdbc.changes import Changes
from tidings_sinks.jdbc.database import BusyError, Database, DataProblemError, LostError, MovedError
from tidings_sinks.jdbc.open_database import open_database
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.jdbc.tables import Prepared, Tables
from tidings_sinks.jdbc.writer import Writer

_MOVED_ATTEMPTS: Final = 3

_log = get_logger(__name__)
_Bad = list[tuple[SinkRecord, Exception]]


class JdbcSinkTask(SinkTask):
    """A `SinkTask`."""

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._changes = Changes(settings)
        self._open: Database | None = None
        self._tables: Tables | None = None
        self._epochs: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int | None] = {}
        """Where each partition goes on, by the last answer of the database."""
        self._tried: dict[TopicPartition, int] = {}
        """Where the partitions would go on after a COMMIT whose answer has not come."""
        self._done: dict[TopicPartition, int] = {}
        """Up to where the records of the next batch are written already: that COMMIT was done."""
        self._deprecations = Deprecations()

    # What the loop asks for

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.open`."""
        return self._later(lambda: self._claimed(partitions))

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._later(lambda: self._put(batch))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`. What was put is durable; what was left out since is not yet behind the positions."""
        behind = {at: offset for at, offset in offsets.items() if offset > (self._next.get(at) or 0)}
        if behind:
            self._later(lambda: self._moved_only(behind))
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        for at in partitions:
            self._epochs.pop(at, None)
            self._next.pop(at, None)
            self._tried.pop(at, None)
            self._done.pop(at, None)

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        self._forget()

    # Attempts

    def _later(self, act: Callable[[], Mapping[TopicPartition, int]]) -> Mapping[TopicPartition, int]:
        """Do something; again, as often as the options say, while the database is busy."""
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
    def _database(self) -> Database:
        if self._open is None:
            self._open = open_database(self._settings)
            self._open.make_positions()
            self._look_where_they_are(self._open)
        return self._open

    # Positions

    def _claimed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        database = self._database
        found = {}
        for at in sorted(partitions):
            claim = database.claim(self._settings.group, at)
            self._epochs[at], self._next[at] = claim.epoch, claim.offset
            if claim.offset is not None:
                found[at] = claim.offset
        return found

    def _look_where_they_are(self, database: Database) -> None:
        """After a connection was lost: whether its last transaction counts, and whether the database is what it was."""
        for at, epoch in self._epochs.items():
            found = database.position(self._settings.group, at)
            if found is not None and found.epoch > epoch:
                raise _fenced(at)
            if (
                found is None
                or found.epoch < epoch
                or found.offset not in (self._next[at], self._tried.get(at))
            ):
                self._forget()
                raise TargetError(
                    f"the database's position of {at.topic}, partition {at.partition} is not where this task left it",
                    hint="it was altered, or the database was restored or failed over: the task begins where it stands now",
                    retry=Retry.TIMED,
                )
            if found.offset is not None and found.offset != self._next[at]:
                self._done[at] = found.offset
            self._next[at] = found.offset

    def _move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Say where partitions go on, within a transaction."""
        moves = [(at, self._epochs[at], offset) for at, offset in sorted(offsets.items())]
        if self._database.move(self._settings.group, moves) != len(moves):
            raise _fenced(next(iter(offsets)))

    def _moved_only(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        database = self._database
        self._context.settle()
        database.begin()
        try:
            self._move(offsets)
            self._commit(database, offsets)
        except BaseException:
            database.rollback()
            raise
        return offsets

    def _commit(self, database: Database, offsets: Mapping[TopicPartition, int]) -> None:
        self._tried.update(offsets)
        database.commit()
        self._next.update(offsets)
        self._tried, self._done = {}, {}

    # A batch

    def _put(self, batch: Sequence[SinkRecord]) -> Mapping[TopicPartition, int]:
        database = self._database
        batch = self._without_what_counts_already(batch)
        bad: _Bad = []
        prepared = self._prepared(database, batch, bad)
        offsets = {record.original: record.offset + 1 for record in batch}
        if not offsets:
            return offsets
        writer = Writer(database, self._settings.batch, reduces=self._settings.reduces)
        database.begin()
        try:
            self._move(offsets)
            try:
                writer.write(prepared)
            except DataProblemError:
                database.rollback()
                database.begin()
                self._move(offsets)
                refused = writer.write_what_can_be(prepared)
                bad += [(change.change.record, RowError(str(error))) for change, error in refused]
            for record, error in bad:
                self._context.report(record, error)
            self._context.settle()
            self._commit(database, offsets)
        except BaseException:
            database.rollback()
            raise
        return offsets

    def _without_what_counts_already(self, batch: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        """Without the records whose COMMIT was answered by nobody, and was done."""
        done = self._done
        return (
            [record for record in batch if record.offset >= done.get(record.original, 0)] if done else batch
        )

    def _prepared(self, database: Database, batch: Sequence[SinkRecord], bad: _Bad) -> list[Prepared]:
        if self._tables is None:
            self._tables = Tables(database, self._settings)
        found = []
        for record in batch:
            try:
                change = self._changes.read(record)
                if change is not None:
                    found.append(self._tables.prepare(change))
            except RowError as error:
                bad.append((record, error))
            self._deprecations.look(record)
        return found


def _fenced(at: TopicPartition) -> RetriableError:
    return RetriableError(f"another task has taken {at.topic}, partition {at.partition}: nothing was written")
