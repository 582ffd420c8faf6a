"""The task that writes whole transactions of the source: nobody who reads the target sees a part of one.

Records wait in an `Assembly` until their transaction is complete. Complete ones are written in commit order, the rows of each in
the order of the source, several transactions in one of the target; with them goes the offset of the oldest record that is
still needed, for each partition, and the position of the last transaction, as that of a partition that no topic has; of
MariaDB the last number of each server as well (`tidings_sinks.transactions.kept_numbers`).
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from tidings_connect.task.sink import LeftOut, SinkContext, SinkRecord, TopicPartition
from tidings_service import Retry
from tidings_sinks.errors import DataProblemError, RowError, TargetError
from tidings_sinks.jdbc.database import Database
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.jdbc.tables import Prepared
from tidings_sinks.jdbc.task import JdbcSinkTask
from tidings_sinks.jdbc.writer import Writer
from tidings_sinks.transactions.assembly import Assembly
from tidings_sinks.transactions.kept_numbers import KeptNumbers
from tidings_sinks.transactions.options import POSITION
from tidings_sinks.transactions.rows import Held
from tidings_sinks.transactions.units import Unit

_MOST_ROWS: Final = 5_000
"""Of a transaction of the target, but for a larger one of the source; and of what is in memory of that at once."""


class SourceTransactionsTask(JdbcSinkTask):
    """A `SinkTask`."""

    durable_at_put = False
    most_records = 500
    takes_columns = False

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        super().__init__(settings, context)
        assert settings.transactions is not None
        self._topic = settings.transactions.topic
        self._of_position = TopicPartition(self._topic, POSITION)
        self._numbers = KeptNumbers(self._topic)
        self._assembly = Assembly(settings.transactions, keeps=settings.tolerates)
        self._broken = False
        """Whether partitions were taken from which others go on with what was read."""
        self._writing: tuple[Sequence[Unit], dict[TopicPartition, int]] | None = None
        """What is being written, and where partitions go on after it."""

    # What the loop asks for

    @property
    def reads(self) -> None:
        """All: an envelope says of which transaction it is, and where in it."""

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.open`. Partitions without a position begin where the loop says with their first record."""
        wanted = set(partitions)
        if any(at.topic == self._topic for at in wanted):
            wanted.add(self._of_position)
        found = dict(self._later(lambda: self._positions.claim(self._database, wanted)))
        position = found.pop(self._of_position, None)
        if self._of_position in wanted:
            numbers = self._numbers.read(
                lambda wanted: self._later(lambda: self._positions.claim(self._database, wanted))
            )
            self._assembly.begin_behind(position, numbers)
        self._assembly.open({at: found.get(at, -1) for at in partitions}, time.monotonic())
        return found

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        now = time.monotonic()
        for record in batch:
            self._assembly.take(record, self._context.consumed(record), now)
        self.work()

    def left_out(self, records: Sequence[LeftOut]) -> None:
        """See `SinkTask.left_out`."""
        now = time.monotonic()
        for left in records:
            self._assembly.left_out(left, now)

    def work(self) -> None:
        """See `SinkTask.work`."""
        if self._broken:
            raise TargetError(
                "another task has taken a part of the partitions, and whole transactions need all of them",
                hint="nothing was lost: the task begins again where the target says",
                retry=Retry.TIMED,
            )
        self._later(self._write_complete)

    def paused(self) -> Collection[TopicPartition]:
        """See `SinkTask.paused`."""
        return self._assembly.paused()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`. Only what no incomplete transaction needs counts."""
        needed = self._assembly.offsets()
        return super().flush({at: min(offset, needed.get(at, offset)) for at, offset in offsets.items()})

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        gone = set(partitions)
        if any(at.topic == self._topic for at in gone):
            gone |= {self._of_position, *self._numbers.partitions()}
        super().close(gone)
        self._broken = self._broken or not self._assembly.close(partitions)
        self._writing = None

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        super().stop()
        self._assembly.forget()

    # Writing

    def _write_complete(self) -> Mapping[TopicPartition, int]:
        """Write what is complete; gives nothing."""
        while True:
            if self._writing is None:
                complete = self._assembly.ready(time.monotonic(), self._context.reaches, _MOST_ROWS)
                if not complete:
                    return {}
                self._writing = complete, self._offsets_after(complete)
            units, offsets = self._writing
            database = self._database
            # After a lost connection: its COMMIT may have been done although nobody has answered.
            if self._positions.changed(offsets):
                self._write(database, units, offsets)
            self._assembly.done(units)
            self._writing = None
            self._positions.finished()

    def _offsets_after(self, units: Sequence[Unit]) -> dict[TopicPartition, int]:
        found = self._assembly.offsets(units)
        position = self._assembly.position_after(units)
        if position is not None:
            found[self._of_position] = position
        found |= self._numbers.kept(
            self._assembly.numbers_after(units),
            lambda wanted: self._positions.claim(self._database, wanted),
        )
        return self._positions.changed(found)

    def _write(
        self, database: Database, units: Sequence[Unit], offsets: Mapping[TopicPartition, int]
    ) -> None:
        if len(units) == 1 and (units[0].rows.is_on_disk or len(units[0].rows) > _MOST_ROWS):
            self._write_large(database, units[0], offsets)
        else:
            self._write_small(database, [held for unit in units for held in unit.rows], offsets)

    def _write_small(
        self, database: Database, rows: Sequence[Held], offsets: Mapping[TopicPartition, int]
    ) -> None:
        writer = self._writer(database)
        bad: list[tuple[Held, Exception]] = []
        prepared = self._prepared_rows(database, rows, bad)
        with self._transaction(database, offsets):
            try:
                writer.write([change for _, change in prepared])
            except DataProblemError:
                database.rollback()
                database.begin()
                self._positions.move(database, offsets)
                bad += self._what_can_be(writer, prepared)
            self._report(bad)

    def _write_large(self, database: Database, unit: Unit, offsets: Mapping[TopicPartition, int]) -> None:
        """In parts, within one transaction of the target."""
        for some in _parts(unit.rows):
            self._prepared_rows(
                database, some, []
            )  # tables and columns are made in transactions of their own
        writer = self._writer(database)
        with self._transaction(database, offsets):
            for some in _parts(unit.rows):
                bad: list[tuple[Held, Exception]] = []
                prepared = self._prepared_rows(database, some, bad)
                bad += self._what_can_be(writer, prepared)
                self._report(bad)

    def _writer(self, database: Database) -> Writer:
        return Writer(database, self._settings.batch, reduces=False, in_order=True)

    @staticmethod
    def _what_can_be(
        writer: Writer, prepared: Sequence[tuple[Held, Prepared]]
    ) -> list[tuple[Held, Exception]]:
        by_change = {id(change): held for held, change in prepared}
        refused = writer.write_what_can_be([change for _, change in prepared])
        return [(by_change[id(change)], RowError(str(error))) for change, error in refused]

    def _prepared_rows(
        self, database: Database, rows: Iterable[Held], bad: list[tuple[Held, Exception]]
    ) -> list[tuple[Held, Prepared]]:
        tables = self._tables_of(database)
        found = []
        for held in rows:
            try:
                change = self._changes.read(held.record)
                if change is not None:
                    found.append((held, tables.prepare(change)))
            except RowError as error:
                bad.append((held, error))
        return found

    def _report(self, bad: Iterable[tuple[Held, Exception]]) -> None:
        for held, error in bad:
            if held.consumed is None:
                self._context.report(held.record, error)
            else:
                self._context.report_kept(held.consumed, error)


def _parts(rows: Iterable[Held]) -> Iterable[list[Held]]:
    found = iter(rows)
    while part := list(islice(found, _MOST_ROWS)):
        yield part
