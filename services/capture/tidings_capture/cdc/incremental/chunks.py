"""The table that an incremental snapshot is reading: what it is now, its largest key, its next rows."""

import time
from collections.abc import Callable, Hashable, Iterable, MutableMapping

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.database import Database, TableId, TableRoutes
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental.observers import WatchingPlan
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_capture.cdc.route import Route
from tidings_capture.cdc.tables import Column, Table
from tidings_connect.data.records import Record
from tidings_service import get_logger

_log = get_logger(__name__)


def chunk_columns(table: Table, surrogate_key: str) -> tuple[Column, ...]:
    """The columns that a table's chunks go by; none where there is no key.

    Raises:
        LookupError: the surrogate key is not a column.
    """
    if not surrogate_key:
        return table.key_columns
    found = tuple(column for column in table.columns if column.name == surrogate_key)
    if not found:
        raise LookupError(f"surrogate-key {surrogate_key} is not a column of {table.qualified_name}")
    return found


class ChunkTable:
    """A `ChunkSource` for a database whose rows go through `plan`.

    Args:
        name: the connector's, for the log.
        send: queues records for a topic.
        counts: whether somebody is told how many rows there are.
    """

    def __init__(
        self,
        database: Database,
        routes: TableRoutes,
        name: str,
        send: Callable[[str, list[Record]], None],
        *,
        counts: bool,
    ) -> None:
        self._database = database
        self._routes = routes
        self._name = name
        self._send = send
        self._counts = counts
        self._context = EventContext()
        self._route: Route | None = None
        self._columns: tuple[Column, ...] = ()
        self._condition = ""
        self.end: Key | None = None
        """Where the next chunk goes on; None: there is no more."""
        self.total = 0
        """The rows there were to read when the table's snapshot began; only counted when somebody is told."""

    @property
    def table_id(self) -> TableId | None:
        """See `ChunkSource`."""
        return None if self._route is None else (self._route.table.schema, self._route.table.name)

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
            LookupError: the surrogate key is not a column.
        """
        table = self._current(collection)
        if table is None:
            _log.warning("no such captured table", connector=self._name, table=collection.name)
            return "UNKNOWN_SCHEMA"
        if self._route is None or self._route.table != table:
            self._route = self._routes.detached(table)
        self._condition = collection.condition
        self._columns = chunk_columns(table, collection.surrogate_key)
        if not self._columns:
            _log.warning("the table has no key", connector=self._name, table=collection.name)
            return "NO_PRIMARY_KEY"
        return None

    def largest_key(self) -> Key | None:
        """The largest key; None where there is no row."""
        found = self._database.largest_key(self.route.table, self._columns, self._condition)
        if found is not None and self._counts:
            self.total = self._database.count(self.route.table, self._condition)
        return found

    def rows(self, after: Key | None, maximum: Key | None, limit: int) -> list[Cells]:
        """The next rows by key."""
        table = self.route.table
        found = self._database.chunk(table, self._columns, self._condition, after, maximum, limit)
        self.end = self.key_of(found[-1]) if found else None
        return found

    def keyed_rows(
        self, after: Key | None, maximum: Key | None, limit: int
    ) -> list[tuple[Hashable | None, Cells]]:
        """See `ChunkSource`."""
        context = self._context
        context.now_ns = time.time_ns()
        context.snapshot_row("incremental", 0, None, 0)
        return [(self.window_key(cells, context), cells) for cells in self.rows(after, maximum, limit)]

    def watch(self, window: MutableMapping[Hashable, Cells]) -> WatchingPlan | None:
        """See `ChunkSource`."""
        route = self._routes.of_table(self.route.table)
        return None if route is None else WatchingPlan(route, window)

    def send(self, rows: Iterable[Cells], context: EventContext) -> int:
        """See `ChunkSource`."""
        own, topic, count = self._context, self.route.topic, 0
        own.now_ns = time.time_ns()
        own.follow(context)
        for cells in rows:
            self._send(topic, self.records(cells, own))
            count += 1
        self._routes.count(topic, count)
        return count

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

    def _current(self, collection: Collection) -> Table | None:
        for schema, name in collection.tables:
            if self._database.captures(schema, name):
                table = self._database.table(schema, name)
                if table is not None:
                    return table
        return None


def _text(cell: object) -> str | None:
    return cell.decode() if isinstance(cell, bytes) else None
