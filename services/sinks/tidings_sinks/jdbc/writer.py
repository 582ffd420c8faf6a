"""Writes prepared changes; those that the database refuses are found, one by one, and the others are written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tidings_sinks.errors import DataProblemError
from tidings_sinks.jdbc.changes import Op
from tidings_sinks.jdbc.columns import TableBatch
from tidings_sinks.jdbc.database import Database, Write
from tidings_sinks.jdbc.tables import Prepared
from tidings_sinks.jdbc.waves import Wave, parts, runs, waves

_T = TypeVar("_T")
Refused = list[tuple[Prepared, DataProblemError]]


class Writer:
    """Writes within a transaction that is open.

    Args:
        batch: how many rows a statement takes at most.
        reduces: see `waves`.
        in_order: whether changes are written in their order, whatever their tables: for constraints between these.
    """

    def __init__(self, database: Database, batch: int, *, reduces: bool, in_order: bool = False) -> None:
        self._database, self._batch, self._reduces, self._in_order = database, batch, reduces, in_order

    def write(self, changes: Sequence[Prepared]) -> None:
        """Write all of them.

        Raises:
            DataProblemError: one of them is refused; the transaction is of no use any more.
        """
        for table, some in runs(changes) if self._in_order else parts(changes):
            if some[0].op is Op.TRUNCATE:
                if some[0].empties:
                    self._database.truncate(table)
            else:
                for wave in waves(some, reduces=self._reduces):
                    self._wave(wave)

    def write_columns(self, batches: Iterable[TableBatch]) -> None:
        """The same of what was made of a batch column by column."""
        for each in batches:
            for keys in _chunks(each.deletes, self._batch):
                self._database.delete(each.table, each.keys, keys)
            if each.form is not None:
                for start in range(0, len(each.columns[0]), self._batch):
                    some = [column[start : start + self._batch] for column in each.columns]
                    self._database.write_columns(each.form, some)

    def write_what_can_be(self, changes: Sequence[Prepared]) -> Refused:
        """Write all that are not refused, in the order of their records; gives the others."""
        if not changes:
            return []
        self._database.savepoint()
        try:
            self.write(changes)
        except DataProblemError as error:
            self._database.back_to_savepoint()
            if len(changes) == 1:
                return [(changes[0], error)]
            middle = len(changes) // 2
            return self.write_what_can_be(changes[:middle]) + self.write_what_can_be(changes[middle:])
        self._database.release()
        return []

    def _wave(self, wave: Wave) -> None:
        for some in _chunks(wave.deletes, self._batch):
            shape = some[0].shape
            assert shape is not None
            self._database.delete(some[0].table, shape.keys, [change.key for change in some])
        by_form: dict[Write, list[Prepared]] = {}
        form: Write | None = None
        rows: list[Prepared] = []
        for change in wave.writes:
            if (
                change.write is not form or form is None
            ):  # a form's hash is that of all its columns: taken when it changes
                assert change.write is not None
                form = change.write
                rows = by_form.setdefault(form, [])
            rows.append(change)
        for form, changes in by_form.items():
            for some in _chunks(changes, self._batch):
                self._database.write(form, [change.values for change in some])


def _chunks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
