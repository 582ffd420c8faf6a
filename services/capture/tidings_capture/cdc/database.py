"""What change data capture asks of a database, beside the stream of its changes.

A connector gives an object for each of these protocols; snapshots in chunks, the search for rows that are gone, and signals are
then the same for every database.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental_state import Collection, Key
from tidings_capture.cdc.route import Route
from tidings_capture.cdc.tables import Column, Table

TableId = tuple[str, str]
"""Schema and name."""


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


class ChangeStream(Protocol):
    """The stream of changes, as incremental snapshots see it."""

    @property
    def context(self) -> EventContext:
        """Of the event that was converted last."""
        ...

    @property
    def recent_transactions(self) -> Iterable[int]:
        """The ids of the last transactions of the stream."""
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

    def wait_for_visibility(self, streamed: Iterable[int]) -> None:
        """Wait until a reader sees all these transactions, which the stream has shown."""
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
