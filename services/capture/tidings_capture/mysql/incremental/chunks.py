"""The table that an incremental snapshot is reading: what it is now, its largest key, its next rows, and their records."""

import time
from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from tidings_capture.cdc.database import TableId
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.encoding.records import Place
from tidings_capture.mysql.encoding.selected import Read, reader
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.incremental.chunk_query import chunk_query, maximum_query
from tidings_capture.mysql.incremental.errors import asking
from tidings_capture.mysql.incremental.session import ChunkSession
from tidings_capture.mysql.schemas.catalog import Column, Table, table
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.snapshots.rows import TableWriter, write_records
from tidings_capture.mysql.streaming.observers import KeyWatch, Observers
from tidings_connect.task.output import Output
from tidings_service import Retry, get_logger

_log = get_logger(__name__)


class MariaDbChunks:
    """See `cdc.database.ChunkSource`."""

    def __init__(
        self, config: MariaDbConfig, session: ChunkSession, output: Output, observers: Observers
    ) -> None:
        self._config = config
        self._session = session
        self._output = output
        self._observers = observers
        self._table: Table | None = None
        self._writer: TableWriter | None = None
        self._as_of: int | None = None
        """What its rows say of their place, where they show no transaction."""
        self._place = Place()
        self._reads: list[Read] = []
        self._columns: Sequence[Column] = ()
        self._condition = ""
        self._encoded: dict[bytes, Hashable] = {}
        self.end: Key | None = None
        self.total = 0
        """Nobody is told: see `SignalOptions.brief`."""

    @property
    def table_id(self) -> TableId | None:
        """See `ChunkSource`."""
        return None if self._table is None else (self._table.database, self._table.name)

    def leave(self) -> None:
        """See `ChunkSource`."""
        self._table = self._writer = None

    def find(self, collection: Collection) -> str | None:
        """See `ChunkSource`.

        Raises:
            MariaDbError: also where a column is of a type that is not read.
        """
        found = self._current(collection)
        if found is None:
            _log.warning("no such captured table", connector=self._config.prefix, table=collection.name)
            return "UNKNOWN_SCHEMA"
        if self._table != found or self._writer is None:
            try:
                self._reads = [reader(column) for column in found.columns]
                self._writer = TableWriter(found, self._config, self._place, self._output.direct, self._as_of)
            except UnsupportedError as error:
                raise MariaDbError(f"{found.qualified}: {error}", retry=Retry.MANUAL) from error
            self._table = found
        self._condition = collection.condition
        self._columns = self._chunk_columns(found, collection.surrogate_key)
        if not self._columns:
            _log.warning("the table has no key", connector=self._config.prefix, table=collection.name)
            return "NO_PRIMARY_KEY"
        return None

    def largest_key(self) -> Key | None:
        """See `ChunkSource`."""
        assert self._table is not None
        rows = self._ask(maximum_query(self._table, self._columns, self._condition))
        return _texts(rows[0]) if rows else None

    def keyed_rows(
        self, after: Key | None, maximum: Key | None, limit: int
    ) -> list[tuple[Hashable | None, Cells]]:
        """See `ChunkSource`."""
        assert self._table is not None
        width = len(self._table.columns)
        rows = self._ask(chunk_query(self._table, self._columns, self._condition, after, maximum, limit))
        self.end = _texts(rows[-1][width:]) if rows else None
        return self._keyed(map(self._cells, rows))

    def watch(self, window: MutableMapping[Hashable, Cells]) -> KeyWatch | None:
        """See `ChunkSource`."""
        table = self.table_id
        return None if table is None else self._observers.watch(table, window, self._encoded)

    def send(self, rows: Iterable[Cells], context: Place) -> int:
        """See `ChunkSource`."""
        writer = self._follow(context)
        records = [record for cells in rows for record in writer.write(cells, "incremental")]
        write_records(self._output, records)
        return len(records)

    def _follow(self, context: Place) -> TableWriter:
        """What writes the next records: they stand behind an event of the stream, or before the first of all."""
        assert self._table is not None
        assert self._writer is not None
        has_place = context.gtid is not None or self._config.flavour.numbers_commits
        if (as_of := None if has_place else 0) != self._as_of:
            self._as_of = as_of
            self._writer = TableWriter(self._table, self._config, self._place, self._output.direct, as_of)
        own = self._place
        own.nanos, own.snapshot = time.time_ns(), "incremental"
        own.server_id, own.gtid, own.file, own.position, own.commit = (
            context.server_id,
            context.gtid,
            context.file,
            context.position,
            context.commit,
        )
        self._writer.tick()
        return self._writer

    def _cells(self, row: Sequence[Any]) -> Cells:
        """Of what the server sends for all columns, and perhaps more."""
        return tuple(None if v is None else r(v) for v, r in zip(row, self._reads, strict=False))

    def _keyed(self, rows: Iterable[Cells]) -> list[tuple[Hashable | None, Cells]]:
        """Rows with their keys, which are remembered as changes will have them."""
        assert self._writer is not None
        writer = self._writer
        found: list[tuple[Hashable | None, Cells]] = []
        self._encoded.clear()
        for cells in rows:
            key = writer.plan.key_values(cells)
            found.append((key, cells))
            if key is not None and (encoded := writer.key(cells)) is not None:
                self._encoded[encoded] = key
        return found

    def _current(self, collection: Collection) -> Table | None:
        for database, name in collection.tables:
            if self._config.captures(database, name):
                with asking(f"the columns of {collection.name}"):
                    found = table(self._session.get(), database, name)
                if found is not None:
                    return replace(found, created=None)  # which may differ although nothing else does
        return None

    def _chunk_columns(self, found: Table, surrogate_key: str) -> Sequence[Column]:
        names = [column.name for column in found.columns]
        if surrogate_key and surrogate_key not in names:
            raise LookupError(f"surrogate-key {surrogate_key} is not a column of {found.qualified}")
        keyed: Sequence[str] = (
            (surrogate_key,)
            if surrogate_key
            else self._config.keys.key(found.database, found.name, names) or found.primary or found.unique
        )
        return [column for name in keyed for column in found.columns if column.name == name]

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        """A condition may call a function that writes: it is read in a transaction that cannot."""
        session = self._session.get()
        with asking("the rows of a chunk"):
            session.rows("START TRANSACTION READ ONLY")
            try:
                return session.rows(query)
            finally:
                session.rows("COMMIT")


def _texts(values: Sequence[Any]) -> Key:
    return [
        None if value is None else value if isinstance(value, str) else bytes(value).decode()
        for value in values
    ]
