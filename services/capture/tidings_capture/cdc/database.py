"""What change data capture asks of a database, beside the stream of its changes.

A connector gives an object for each of these protocols; snapshots in chunks, the search for rows that are gone, and signals are
then the same for every database.
"""

from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_capture.cdc.route import Route
from tidings_capture.cdc.tables import Column, Table

TableId = tuple[str, str]
"""Schema and name; of a database whose tables have no schemas, database and name."""
R = TypeVar("R")
"""A row that was read."""


class LookedUp(NamedTuple):
    """What a table has for a key."""

    is_there: bool
    cells: Cells
    """Of the row; of one that is not there, those of the key's columns, as the stream would write them."""


class Database(Protocol):
    """Reads tables as they are now. Every method raises `DatabaseError`."""

    def captured(self) -> list[TableId]:
        """The tables that the filters choose."""
        ...

    def captures(self, schema: str, name: str) -> bool:
        """Whether the filters choose a table."""
        ...

    def table(self, schema: str, name: str) -> Table | None:
        """A table, with the columns that the stream has; None when there is no such table."""
        ...

    def largest_key(self, table: Table, columns: Sequence[Column], condition: str) -> Key | None:
        """The largest key by these columns; None where there is no row.

        Args:
            condition: SQL of somebody else's that the rows must fulfil, or nothing. It must not be able to write.
        """
        ...

    def count(self, table: Table, condition: str) -> int:
        """How many rows there are; takes as long as it takes."""
        ...

    def chunk(
        self,
        table: Table,
        columns: Sequence[Column],
        condition: str,
        after: Key | None,
        maximum: Key | None,
        limit: int,
    ) -> list[Cells]:
        """The next rows by key, at most `limit`."""
        ...

    def gone(self, table: Table, columns: Sequence[Column], keys: Sequence[Key]) -> list[int]:
        """The numbers of the keys that no row of the table has."""
        ...

    def look_up(self, table: Table, columns: Sequence[Column], keys: Sequence[Key]) -> list[LookedUp]:
        """What the table has for each of these keys, as of one moment."""
        ...


class ChangeStream(Protocol):
    """The stream of changes, as incremental snapshots see it."""

    @property
    def context(self) -> Any:
        """Of the event that was converted last, as `ChunkSource.send` takes it."""
        ...

    @property
    def recent_transactions(self) -> Any:
        """The last transactions of the stream, as `Watermarks.wait_for_visibility` takes them."""
        ...

    def has_reached(self, mark: Any) -> bool:
        """Whether everything before a mark of `Watermarks.close` has been converted."""
        ...


class Watermarks(Protocol):
    """Sets the low and the high watermark around the reading of a chunk (see `incremental`)."""

    def open(self, chunk_id: str, collection: Collection) -> None:
        """The low watermark, before a chunk of a table is read."""
        ...

    def close(self) -> Any:
        """The high watermark: what the stream must have reached; None where a row of the signal table shows it."""
        ...

    def wait_for_visibility(self, streamed: Any) -> bool:
        """Wait until a reader sees all these transactions, which the stream has shown; False: it would take too long, and is
        to be asked again."""
        ...


class Watch(Protocol):
    """Takes the keys that the stream changes out of a window."""

    def stop(self) -> None:
        """From here on they stay."""
        ...


class ChunkSource(Protocol[R]):
    """Reads one table after the other by key, and writes the rows that it has read."""

    end: Key | None
    """Where the next chunk goes on; None: there is no more."""
    total: int
    """The rows there were to read when the table's snapshot began; only counted when somebody is told."""

    @property
    def table_id(self) -> TableId | None:
        """The table as it was found last; None before the first is."""
        ...

    def find(self, collection: Collection) -> str | None:
        """Look at a table; why it cannot be read, in Debezium's words.

        Raises:
            LookupError: the surrogate key is not a column.
        """
        ...

    def leave(self) -> None:
        """The next table is another one."""
        ...

    def largest_key(self) -> Key | None:
        """The largest key; None where there is no row."""
        ...

    def keyed_rows(
        self, after: Key | None, maximum: Key | None, limit: int
    ) -> list[tuple[Hashable | None, R]]:
        """The next rows by key, each with the key that its record will have; None: its record has no key."""
        ...

    def watch(self, window: MutableMapping[Hashable, R]) -> Watch | None:
        """From here on a change takes its key out of a window; None: the stream has not announced the table."""
        ...

    def send(self, rows: Iterable[R], context: Any) -> int:
        """Write rows behind the event that a context is about; how many there were."""
        ...


class GoneRows(ChunkSource[R], Protocol[R]):
    """Gives the rows that are gone."""

    def gathered(self, collection: Collection) -> bool:
        """Whether rows can be asked for; begins to gather what is needed when it is asked first.

        Raises:
            ConnectError: it cannot be had now.
        """
        ...


class TableRoutes(Protocol):
    """The routes of a task's tables."""

    def of_table(self, table: Table) -> Route | None:
        """The stream's route of a table; None when the stream has not announced it."""
        ...

    def detached(self, table: Table) -> Route:
        """A route that the stream does not use: its next rows may be of an older version of the table."""
        ...

    def count(self, topic: str, records: int) -> None:
        """Records that were made without a route of the stream's."""
        ...
