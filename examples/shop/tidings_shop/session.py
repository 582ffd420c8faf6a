"""What the shop asks of a connection, whichever database is behind it: statements, transactions, the shape of its tables.

Statements have ``%s`` for values. Errors are told by `Session.translated`: a database's words are repeated where they hold no
values of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from tidings_shop.transactions import Now, Ref, Value

TABLES = ("customers", "products", "orders", "order_items", "payments", "shipments")
"""In an order in which rows may be inserted."""
CONNECT_SECONDS = 10

Cell = Value
"""A value of a statement; neither a `Ref` nor a `Now`, which `ShopDatabase` has put into the statement."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as far as the shop depends on it."""

    type: str
    not_null: bool
    filled: bool
    """Whether a row may leave it out though it is not null."""


Shape = Mapping[str, Mapping[str, Column]]
"""Columns by table and name."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """Who reads the database's log for capture, as the server sees it."""

    consistent: bool
    """Every transaction that commits from now on will be streamed to it."""
    active: bool
    retained_bytes: int
    """Log that the server keeps; on PostgreSQL because of it."""
    unconfirmed_bytes: int | None
    """Log that it has not confirmed yet; None where the server is not told."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave back."""

    rows: Sequence[tuple[Any, ...]]
    changed: int
    """Rows that it wrote."""


class ConflictError(Exception):
    """The database refused a transaction because of somebody else's."""


class Session(ABC):
    """A connection in autocommit."""

    now: ClassVar[str]
    """The expression for a moment, to the microsecond."""
    name: str
    """Database, host and port, for messages."""

    @abstractmethod
    def close(self) -> None:
        """End the connection; an open transaction is rolled back by the server."""

    @abstractmethod
    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Give the client's errors our names.

        Raises:
            ConflictError: the database refused because of somebody else's transaction.
            ShopError: it is away (retry ``timed``), or refuses for another reason.
        """

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Cell] = ()) -> Result:
        """Execute one statement."""

    @abstractmethod
    def insert(self, statement: str, values: Sequence[Cell]) -> int:
        """Execute the INSERT of one row, whose `id` the server gives: that one."""

    @abstractmethod
    def transaction(self, *, rollback: bool = False) -> AbstractContextManager[None]:
        """A transaction, or a savepoint within one; rolled back after an error, and where `rollback` says so."""

    @abstractmethod
    def read(self, table: str) -> list[dict[str, object]]:
        """All rows of a table, as the lake's can be compared with (`tidings_shop.demo.checks.canonical`)."""

    @abstractmethod
    def create_database(self, name: str) -> None:
        """Create a database on the server."""

    @abstractmethod
    def create_tables(self) -> None:
        """Create the shop's tables."""

    @abstractmethod
    def present(self) -> Shape:
        """The tables of the shop's names that are there."""

    @abstractmethod
    def wanted(self) -> Shape:
        """The tables that the shop's schema makes; made for that as temporary ones, and removed."""

    @abstractmethod
    def log_reader(self, name: str) -> LogReader | None:
        """Who reads the log; None: nobody.

        Args:
            name: the replication slot, on PostgreSQL.
        """


def plain(values: Sequence[Cell]) -> list[Any]:
    """The values, none of which is a name for something else.

    Raises:
        TypeError: one is.
    """
    for value in values:
        if isinstance(value, Ref | Now):
            raise TypeError(f"{type(value).__name__} is not a value of a statement")
    return list(values)
