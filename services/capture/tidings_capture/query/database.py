"""What a query source asks of a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from tidings_capture.query.columns import Column


@dataclass(frozen=True, slots=True)
class TableId:
    """A table's name; where a database has no catalogs or schemas, they are empty."""

    catalog: str
    schema: str
    name: str

    def __str__(self) -> str:
        return ".".join(filter(None, (self.catalog, self.schema, self.name)))


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a database knows of a table."""

    columns: Sequence[Column]
    """Only name and whether they may be null count."""
    key: Sequence[str]
    """The primary key's columns, in order."""
    counted: Sequence[str]
    """The columns that the database counts up itself."""
    ordered: frozenset[str] = frozenset()
    """Of the key's columns those that the database orders as Python orders what it reads: numbers, and texts by their
    bytes."""


class Result(Protocol):
    """A result that is read bit by bit."""

    @property
    def columns(self) -> Sequence[Column]:
        """Its columns, without what is known of a table only."""
        ...

    def fetch(self, rows: int) -> Sequence[Sequence[Any]]:
        """The next rows, at most so many; none: there are no more."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Database(Protocol):
    """A connection.

    Raises:
        QueryError: from every method.
    """

    @property
    def tick(self) -> timedelta:
        """The smallest step of the timestamps that it compares."""
        ...

    def now(self) -> datetime:
        """The database's clock, with its zone."""
        ...

    def tables(self, kinds: frozenset[str]) -> Sequence[TableId]:
        """All tables but the system's."""
        ...

    def facts(self, table: TableId) -> TableFacts:
        """What is known of a table."""
        ...

    def quoted(self, name: str) -> str:
        """An identifier, for a statement."""
        ...

    def named(self, table: TableId) -> str:
        """A table, for a statement."""
        ...

    def moment(self, columns: Sequence[str]) -> str:
        """The expression for a row's timestamp, from columns that are quoted."""
        ...

    def parameter(self, moment: datetime, *, zoned: bool) -> Any:
        """A moment, as `moment` is compared with it.

        Args:
            zoned: whether the column has a time zone.
        """
        ...

    def late(self) -> str:
        """A condition on a row: a transaction that still runs may commit a row before it."""
        ...

    def oldest(self) -> datetime | None:
        """When the oldest transaction began that runs; None: there is none, or it may not be seen."""
        ...

    def open(self, select: str, rest: str, parameters: Sequence[Any], seconds: float | None = None) -> Result:
        """Run a statement; one result is open at a time.

        Args:
            rest: what stands behind the SELECT, with %s for parameters.
            seconds: how long it may take; None: as long as it likes.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
