"""Tells the topic what the database has for keys that a signal names: a row that is there is read, the delete of one that is not
is announced.

Both are told by one statement, and sent as part of an incremental snapshot: a key that the stream changes between the low and
the high watermark is left to the stream (see `incremental`), so nothing is deleted that was inserted meanwhile. Every record has
the header `tidings.repair` with the signal's id, by which readers tell it from other rows that were read again.
"""

from collections.abc import Mapping, Sequence

from tidings_capture.cdc.cells import Cell, Cells
from tidings_capture.cdc.database import LookedUp
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental.chunks import ChunkTable
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_connect.data.records import Record
from tidings_envelope.headers.repair import HEADER


def named_columns(key: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
    """A key of a signal, which has the columns of the table's.

    Raises:
        LookupError: it has others.
    """
    if set(names) != set(key):
        raise LookupError(
            f"a key of the signal has the columns {', '.join(sorted(key))}, and the table's has {', '.join(names)}"
        )
    return key


class GivenKeys(ChunkTable):
    """See `ChunkSource`. A chunk's end is the number of keys that have been looked up."""

    _keys: Sequence[Key] = ()
    _mark = b""

    def find(self, collection: Collection) -> str | None:
        """See `ChunkTable.find`.

        Raises:
            LookupError: a key has other columns than the table's.
        """
        status = super().find(collection)
        if status is None:
            self._keys = [self._ordered(key) for key in collection.keys]
            self._mark = (collection.correlation_id or "").encode()
        return status

    def largest_key(self) -> Key | None:
        """The keys are known; nothing is asked."""
        return []

    def rows(self, after: Key | None, maximum: Key | None, limit: int) -> list[Cells]:  # noqa: ARG002
        """What the database has for the next keys; a row that is not there is a `GoneCells`."""
        start = int(after[0] or 0) if after else 0
        keys = self._keys[start : start + limit]
        self.end = [str(start + len(keys))] if keys else None
        if not keys:
            return []
        found = self._database.look_up(self.route.table, self._columns, keys)
        return [one.cells if one.is_there else GoneCells(self._cells_of(one)) for one in found]

    def window_key(self, cells: Cells, context: EventContext) -> bytes | None:
        """See `ChunkTable.window_key`."""
        if isinstance(cells, GoneCells):
            return self.route.plan.read_deleted(cells, context)[0][0]
        return super().window_key(cells, context)

    def records(self, cells: Cells, context: EventContext) -> list[Record]:
        """The row, or its delete, with the mark."""
        plan = self.route.plan
        is_gone = isinstance(cells, GoneCells)
        made = plan.read_deleted(cells, context) if is_gone else plan.read_incremental(cells, context)
        return [(key, value, [*(headers or ()), (HEADER, self._mark)]) for key, value, headers in made]

    def _ordered(self, key: Mapping[str, str]) -> Key:
        names = [column.name for column in self._columns]
        checked = named_columns(key, names)
        return [checked[name] for name in names]

    def _cells_of(self, one: LookedUp) -> Cells:
        """A row of which only the key is known."""
        places = {column.name: place for place, column in enumerate(self.route.table.columns)}
        cells: Cells = [None] * len(places)
        for column, cell in zip(self._columns, one.cells, strict=True):
            cells[places[column.name]] = cell
        return cells


class GoneCells(list[Cell]):
    """The key's cells of a row that the table does not have; everything else is None."""
