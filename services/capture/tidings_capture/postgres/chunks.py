"""The table that an incremental snapshot is reading: what it is now, its largest key, its next rows."""

from contextlib import AbstractContextManager, nullcontext

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental_state import Collection, Key
from tidings_capture.cdc.tables import Column
from tidings_capture.postgres.chunk_query import chunk_columns, chunk_query, count_query, maximum_query
from tidings_capture.postgres.copy_format import parse_copy_line
from tidings_capture.postgres.parts import TaskParts
from tidings_capture.postgres.routes import Route
from tidings_connect.data.records import Record
from tidings_service import get_logger

_log = get_logger(__name__)


class ChunkTable:
    """Reads one table after the other."""

    def __init__(self, parts: TaskParts) -> None:
        self._parts = parts
        self._route: Route | None = None
        self._columns: tuple[Column, ...] = ()
        self._condition = ""
        self.end: Key | None = None
        """Where the next chunk goes on; None: there is no more."""
        self.total = 0
        """The rows there were to read when the table's snapshot began; only counted when somebody is told."""

    @property
    def known(self) -> bool:
        return self._route is not None

    @property
    def route(self) -> Route:
        """Of the table as it was found last; not the stream's, whose next rows may be of an older version."""
        assert self._route is not None
        return self._route

    def leave(self) -> None:
        """The next table is another one."""
        self._route, self.total = None, 0

    def find(self, collection: Collection) -> str | None:
        """Look at the table; why it cannot be read, in Debezium's words.

        Raises:
            LookupError: the surrogate key is no column.
        """
        parts = self._parts
        catalog, captures = parts.catalog(False), parts.config.tables.captures
        place = next((t for t in collection.tables if captures(*t) and catalog.has_table(*t)), None)
        if place is None:
            _log.warning("no such captured table", connector=parts.config.name, table=collection.name)
            return "UNKNOWN_SCHEMA"
        schema, name = place
        table = catalog.table_by_name(schema, name, parts.config.publication)
        if self._route is None or self._route.table != table:
            self._route = parts.routes.detached(table)
        self._condition = collection.condition
        self._columns = chunk_columns(table, collection.surrogate_key)
        if not self._columns:
            _log.warning("the table has no key", connector=parts.config.name, table=collection.name)
            return "NO_PRIMARY_KEY"
        return None

    def largest_key(self) -> Key | None:
        """The largest key; None where there is no row."""
        found = self._lines(maximum_query(self.route.table, self._columns, self._condition))
        if not found:
            return None
        if self._parts.notifier.enabled:
            with self._reading():
                self.total = self._parts.session.slow_value(count_query(self.route.table, self._condition))
        return [_text(cell) for cell in parse_copy_line(found[0])]

    def rows(self, after: Key | None, maximum: Key | None, limit: int) -> list[Cells]:
        """The next rows by key."""
        query = chunk_query(self.route.table, self._columns, self._condition, after, maximum, limit)
        found = [parse_copy_line(line) for line in self._lines(query)]
        self.end = self.key_of(found[-1]) if found else None
        return found

    def window_key(self, cells: Cells, context: EventContext) -> bytes | None:
        """The key that the row's record will have."""
        ((key, _, _),) = self.route.plan.read(cells, context)
        return key

    def records(self, cells: Cells, context: EventContext) -> list[Record]:
        """What the row becomes."""
        return self.route.plan.read_incremental(cells, context)

    def key_of(self, cells: Cells) -> Key:
        """What chunks go by, of a row."""
        places = {column.name: place for place, column in enumerate(self.route.table.columns)}
        return [_text(cells[places[column.name]]) for column in self._columns]

    def _lines(self, statement: str) -> list[bytes]:
        with self._reading():
            return [line for lines in self._parts.session.copy_out(statement) for line in lines]

    def _reading(self) -> AbstractContextManager[None]:
        """A signal's filter may call a function that writes: then it is read in a transaction that cannot."""
        return self._parts.session.read_only() if self._condition else nullcontext()


def _text(cell: object) -> str | None:
    return cell.decode() if isinstance(cell, bytes) else None
