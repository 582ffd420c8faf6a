"""What a database is to the engine, whichever it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from tidings_connect.data.subscription import TopicPartition
from tidings_connect.errors import ConnectError
from tidings_envelope.schema import ConnectSchema
from tidings_sinks.jdbc.kinds import Kind
from tidings_sinks.positions import Claim

Encode = Callable[[Any], Any]
Row = Sequence[Any]


class MovedError(ConnectError):
    """A table or a column that was there is there no more."""

    code = "target"


class TableName(NamedTuple):
    """Names as they stand in the database."""

    schema: str | None
    """None: where the database looks first."""
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that is there."""

    name: str
    type: str
    """The database's word, without length and precision."""
    generated: bool = False
    """Whether the database computes it."""


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column that is to be made."""

    name: str
    kind: Kind
    required: bool
    default: Any = None
    """Encoded; None: there is none."""
    schema: ConnectSchema | None = None
    """Of its values, for a database that has types for what a `Kind` does not tell apart."""


class Mode(Enum):
    """What a statement does with rows."""

    INSERT = auto()
    UPSERT = auto()
    UPDATE = auto()
    PATCH = auto()
    """Rows that lack columns: those that are there keep them; others are new."""


class Write(NamedTuple):
    """The form of a statement: all but its rows."""

    table: TableName
    columns: tuple[Column, ...]
    """The columns of the key first."""
    keys: int
    """How many columns the key has."""
    mode: Mode


class Database(Protocol):
    """One connection. Statements run in a transaction that `begin` opens.

    Raises (everything):
        LostError, BusyError: later.
        DataProblemError: one of the rows is refused.
        MovedError: the tables are not what they were.
        TargetError: it will not do it.
    """

    def close(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """Does nothing where no transaction is open."""
        ...

    def savepoint(self) -> None: ...

    def release(self) -> None: ...

    def back_to_savepoint(self) -> None: ...

    def name(self, parts: Sequence[str], *, quotes: bool) -> TableName:
        """The table that is meant by one or two names."""
        ...

    def column_name(self, field: str, known: Mapping[str, Column], *, quotes: bool) -> str:
        """The column that is meant by a field."""
        ...

    def columns(self, table: TableName) -> Mapping[str, Column]:
        """The columns of a table, by name; empty where there is none."""
        ...

    def lock_schema(self, table: TableName) -> None:
        """Until the transaction ends nobody else changes the columns of the table."""
        ...

    def create(self, table: TableName, columns: Sequence[NewColumn], keys: int) -> None: ...

    def add_columns(self, table: TableName, columns: Sequence[NewColumn]) -> None: ...

    def encoder(self, kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:
        """From a value that was read to one that a statement takes; None where it is the same.

        Args:
            column: the type of its column; None: of one that this kind makes.
        """
        ...

    def untyped_encoder(self, column: str) -> Encode:
        """The same for values without schemas."""
        ...

    def write(self, form: Write, rows: Sequence[Row]) -> None: ...

    def write_columns(self, form: Write, columns: Sequence[Sequence[Any]]) -> None:
        """`write` of rows whose values are given by column."""
        ...

    def delete(self, table: TableName, keys: tuple[Column, ...], rows: Sequence[Row]) -> None: ...

    def truncate(self, table: TableName) -> None: ...

    def make_positions(self) -> None:
        """Make the table of positions unless it is there."""
        ...

    def claim(self, group: str, at: TopicPartition) -> Claim:
        """Take a partition: from now on only the holder of the answer's epoch may write."""
        ...

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        """Where a partition goes on."""
        ...

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        """Say where partitions go on.

        Args:
            moves: partition, epoch, offset.

        Returns:
            How many of them are held with that epoch.
        """
        ...

    def alter(self, group: str, at: TopicPartition, offset: int | None) -> None:
        """Say where a partition goes on, whoever has it; None: where its group does."""
        ...

    def forget(self, group: str) -> None:
        """All partitions go on where the group does."""
        ...
