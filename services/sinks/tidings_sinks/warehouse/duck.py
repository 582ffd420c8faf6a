"""DuckDB: the only module of the sinks that imports it.

A file of DuckDB belongs to the one process that has it open for writing, so that a connection here lasts for one batch only:
see `task`. What it needs is in the installation; no extension is loaded from a network. DuckDB has neither savepoints nor
anything left of a transaction that met an error: who finds out which row was refused begins again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa

from tidings_envelope.fault_points import reached
from tidings_sinks.errors import BusyError, DataProblemError, TargetError
from tidings_sinks.jdbc.database import Column, Encode, Mode, MovedError, NewColumn, Row, TableName, Write
from tidings_sinks.jdbc.json_text import json_text
from tidings_sinks.jdbc.kinds import Base, Kind
from tidings_sinks.position_rows import PositionRows
from tidings_sinks.warehouse.settings import WarehouseSettings
from tidings_sinks.warehouse.staging import Staging
from tidings_sinks.warehouse.values import StagedColumn, duck_type, quoted, staged
from tidings_sinks.warehouse.widening import wider

OLDEST: Final = (1, 4)
"""Of DuckDB: the first version with MERGE."""
_MAIN: Final = "main"
_T = TypeVar("_T")


class IndexedError(TargetError):
    """A column cannot be changed, because an index or a constraint has it."""


class DuckDatabase(PositionRows):
    """A `Database`. Whoever makes one holds the warehouse's lock.

    Args:
        reads_only: whether nothing is to be written: other processes may read at the same time.

    Raises:
        BusyError: another process has the file open.
        TargetError: it cannot be opened, or is none of DuckDB's.
    """

    def __init__(self, settings: WarehouseSettings, *, reads_only: bool = False) -> None:
        if tuple(int(part) for part in duckdb.__version__.split(".")[:2]) < OLDEST:
            raise TargetError(
                f"DuckDB {duckdb.__version__} is too old: {'.'.join(map(str, OLDEST))} is needed"
            )
        self._staging = Staging(settings.staging)
        self._positions = quoted(settings.rows.positions)
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": settings.memory,
            "threads": settings.threads,
        }
        self._connection = _asked(
            lambda: duckdb.connect(str(settings.file), read_only=reads_only, config=config)
        )
        try:
            self._execute("SET TimeZone = 'UTC'")
            if not reads_only:
                self._staging.begin()
        except BaseException:
            self._connection.close()
            raise

    @property
    def version(self) -> str:
        """DuckDB's."""
        return str(duckdb.__version__)

    def close(self) -> None:
        """Let other processes have the file; nothing stays in the log beside it."""
        self._staging.clear()
        self._connection.close()

    def release_file(self) -> None:
        """Let other processes have the file, and their staged files stay: of one that was opened for reading."""
        self._connection.close()

    def begin(self) -> None:
        self._execute("BEGIN")

    def commit(self) -> None:
        reached("warehouse.merged")
        self._execute("COMMIT")
        reached("warehouse.committed")

    def rollback(self) -> None:
        with suppress(duckdb.TransactionException):  # none is open
            self._connection.execute("ROLLBACK")

    def savepoint(self) -> None:
        raise NotImplementedError("DuckDB has no savepoints")

    def release(self) -> None:
        raise NotImplementedError("DuckDB has no savepoints")

    def back_to_savepoint(self) -> None:
        raise NotImplementedError("DuckDB has no savepoints")

    # Tables

    def name(self, parts: Sequence[str], *, quotes: bool) -> TableName:  # noqa: ARG002 - its names have no case
        return TableName(*parts) if len(parts) > 1 else TableName(_MAIN, parts[0])

    def column_name(self, field: str, known: Mapping[str, Column], *, quotes: bool) -> str:  # noqa: ARG002
        return (
            field
            if field in known
            else next((name for name in known if name.lower() == field.lower()), field)
        )

    def columns(self, table: TableName) -> Mapping[str, Column]:
        found = self._rows(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) ORDER BY column_index",
            (table.schema, table.name),
        )
        return {name: Column(name, kind) for name, kind in found}

    def lock_schema(self, table: TableName) -> None:
        """The process is the only one that writes."""

    def create(self, table: TableName, columns: Sequence[NewColumn], keys: int) -> None:
        """No index is made of the key: the merge sees to it that a row is there once, and an index costs every batch more."""
        if table.schema != _MAIN:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(str(table.schema))}")
        parts = [
            _definition(column, required=column.required or place < keys)
            for place, column in enumerate(columns)
        ]
        self._execute(f"CREATE TABLE {_table(table)} ({', '.join(parts)})")

    def add_columns(self, table: TableName, columns: Sequence[NewColumn]) -> None:
        for place, column in enumerate(columns):
            if place:  # DuckDB 1.5 refuses to commit a second column with a default
                self._execute("COMMIT")
                self._execute("BEGIN")
            # NOT NULL cannot be said of a column that is added.
            definition = _definition(column, required=False)
            self._execute(f"ALTER TABLE {_table(table)} ADD COLUMN {definition}")

    def wider(self, column: str, wanted: str) -> str | None:
        """The type that a column must have for values of another type as well; None where it has, or none would do."""
        if column == wanted or column in ("VARCHAR", "JSON"):
            return None
        return wider(duckdb.sqltype(column), duckdb.sqltype(wanted))

    def widen(self, table: TableName, types: Mapping[str, str]) -> None:
        """Give columns other types. One that has an index keeps its own: a value that does not fit it is refused."""
        for name, kind in types.items():
            try:
                self._execute(f"ALTER TABLE {_table(table)} ALTER COLUMN {quoted(name)} SET DATA TYPE {kind}")
            except IndexedError:
                continue

    def encoder(self, kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:  # noqa: ARG002
        """Of defaults: DuckDB reads them as text."""
        return json_text if kind.base in (Base.ARRAY, Base.STRUCTURE) else None

    def untyped_encoder(self, column: str) -> Encode:
        raise NotImplementedError("values are staged by their own types")

    # Rows

    def write(self, form: Write, rows: Sequence[Row]) -> None:
        self.write_columns(form, zip(*rows, strict=True))

    def write_columns(self, form: Write, values: Iterable[Sequence[Any]]) -> None:
        """The same, with the values of each column."""
        with _Staged(self._staging, form.columns, values) as source:
            self._check_exact(form.columns, source)
            self._execute(_statement(form, source))

    def _check_exact(self, columns: Sequence[Column], source: str) -> None:
        """DuckDB rounds a number that has more digits than its column, and says nothing."""
        for place, column in enumerate(columns):
            if not _may_round(column):
                continue
            cast = f"TRY_CAST(TRY_CAST(c{place} AS {column.type}) AS {duck_type(_arrow(column))})"
            statement = f"SELECT 1 FROM {source} WHERE c{place} IS NOT NULL AND {cast} IS DISTINCT FROM c{place} LIMIT 1"  # noqa: S608 - quoted
            if self._rows(statement, ()):
                raise DataProblemError(f"a value does not fit column {column.name} exactly")

    def delete(self, table: TableName, keys: tuple[Column, ...], rows: Sequence[Row]) -> None:
        with _Staged(self._staging, keys, zip(*rows, strict=True)) as source:
            self._execute(f"DELETE FROM {_table(table)} AS t USING {source} AS s WHERE {_same(keys)}")  # noqa: S608 - quoted

    def truncate(self, table: TableName) -> None:
        self._execute(f"DELETE FROM {_table(table)}")  # noqa: S608 - quoted

    # Positions

    def make_positions(self) -> None:
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._positions} (consumer_group VARCHAR, topic VARCHAR, partition INTEGER,"
            " next_offset BIGINT, epoch BIGINT NOT NULL, changed TIMESTAMPTZ DEFAULT current_timestamp,"
            " PRIMARY KEY (consumer_group, topic, partition))"
        )

    def _execute(self, statement: str, given: Sequence[object] = ()) -> None:
        _asked(lambda: self._connection.execute(statement, list(given) or None))

    def _rows(self, statement: str, given: Sequence[object]) -> list[tuple[Any, ...]]:
        return _asked(lambda: self._connection.execute(statement, list(given)).fetchall())


class _Staged:
    """Rows in a file, while a statement reads it."""

    def __init__(self, staging: Staging, columns: Sequence[Column], values: Iterable[Sequence[Any]]) -> None:
        names = [column.name for column in columns]
        self._file = staging.write(names, [_arrow(column) for column in columns], values)

    def __enter__(self) -> str:
        reached("warehouse.staged")
        path = str(self._file).replace("'", "''")
        return f"read_parquet('{path}')"

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)


def _arrow(column: Column) -> pa.DataType:
    assert isinstance(column, StagedColumn)
    return column.arrow


def _may_round(column: Column) -> bool:
    arrow = _arrow(column)
    exact = pa.types.is_floating(arrow) or pa.types.is_decimal(arrow) or pa.types.is_timestamp(arrow)
    return exact and column.type not in {duck_type(arrow), "VARCHAR", "JSON"}


def _asked(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except duckdb.Error as error:
        raise _translated(error) from None


def _translated(error: duckdb.Error) -> Exception:  # noqa: PLR0911 - a table
    """DuckDB's words hold values where they are about a row: those are left out."""
    words = str(error).partition("\n")[0]
    kind = type(error).__name__
    if isinstance(error, duckdb.IOException):
        if "Could not set lock" in words:
            return BusyError("another process has the warehouse's file open")
        return TargetError(f"DuckDB cannot use the warehouse's file: {words}", hint="see the message")
    if isinstance(error, duckdb.ConstraintException):
        named = words.removeprefix("Constraint Error: ") if "NOT NULL" in words else "a constraint"
        return DataProblemError(f"DuckDB refused a row: {named}")
    if isinstance(
        error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException
    ):
        return DataProblemError(f"a value does not fit its column ({kind})")
    if isinstance(error, duckdb.TransactionException):
        return BusyError(f"DuckDB: {words}")
    if isinstance(error, duckdb.CatalogException):
        return MovedError(f"DuckDB: {words}")
    if isinstance(error, duckdb.OutOfMemoryException):
        return TargetError(
            "DuckDB has too little memory for a batch",
            hint="raise tidings.duckdb.memory.limit, or lower batch.size",
        )
    if isinstance(error, duckdb.BinderException | duckdb.DependencyException) and (
        "type of a column" in words or "depend" in words
    ):
        return IndexedError(f"DuckDB: {words}")
    return TargetError(f"DuckDB refused a statement ({kind}): {words}")


def _table(name: TableName) -> str:
    return f"{quoted(str(name.schema))}.{quoted(name.name)}"


def _definition(column: NewColumn, *, required: bool) -> str:
    kind = staged(column.schema, column.kind).column
    text = f"{quoted(column.name)} {kind}"
    if isinstance(column.default, bytes):
        text += f" DEFAULT from_hex('{column.default.hex()}')"
    elif column.default is not None:
        literal = str(column.default).replace("'", "''")
        text += f" DEFAULT CAST('{literal}' AS {kind})"
    return text + (" NOT NULL" if required else "")


def _same(keys: Sequence[Column]) -> str:
    return " AND ".join(f"t.{quoted(column.name)} = s.c{place}" for place, column in enumerate(keys))


def _statement(form: Write, source: str) -> str:
    names = [quoted(column.name) for column in form.columns]
    values = [f"s.c{place}" for place in range(len(names))]
    columns, selected = ", ".join(names), ", ".join(values)
    if form.mode is Mode.INSERT:
        return f"INSERT INTO {_table(form.table)} ({columns}) SELECT {selected} FROM {source} AS s"  # noqa: S608 - quoted
    changes = ", ".join(
        f"{name} = {value}" for name, value in list(zip(names, values, strict=True))[form.keys :]
    )
    merge = f"MERGE INTO {_table(form.table)} AS t USING {source} AS s ON {_same(form.columns[: form.keys])}"
    if changes:
        merge += f" WHEN MATCHED THEN UPDATE SET {changes}"
    if form.mode is not Mode.UPDATE:
        merge += f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({selected})"  # noqa: S608 - quoted
    elif not changes:
        return "SELECT 1"
    return merge
