"""SQLite: a file, one writer at a time. What it has no type for is text: decimals with all of their digits, dates and times as
ISO 8601, arrays and structs as JSON."""

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from tidings_sinks.errors import BusyError, DataProblemError, TargetError
from tidings_sinks.jdbc.database import Column, Encode, Mode, MovedError, NewColumn, Row, TableName, Write
from tidings_sinks.jdbc.json_text import json_text
from tidings_sinks.jdbc.kinds import Base, Kind
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.position_rows import PositionRows

_BUSY_SECONDS: Final = 10.0
_OLDEST: Final = (3, 35, 0)
_TYPES: Final = {
    Base.SMALLINT: "INTEGER",
    Base.INTEGER: "INTEGER",
    Base.BIGINT: "INTEGER",
    Base.BOOLEAN: "INTEGER",
    Base.REAL: "REAL",
    Base.DOUBLE: "REAL",
    Base.BYTES: "BLOB",
}
_T = TypeVar("_T")


class SqliteDatabase(PositionRows):
    """A `Database`."""

    def __init__(self, settings: Settings) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise TargetError(
                f"SQLite {sqlite3.sqlite_version} is too old: {'.'.join(map(str, _OLDEST))} is needed"
            )
        try:
            self._connection = sqlite3.connect(
                settings.address.parameters["file"], timeout=_BUSY_SECONDS, isolation_level=None
            )
        except sqlite3.Error as error:
            raise TargetError(f"SQLite cannot open the file of connection.url: {error}") from None
        self._positions = _identifier(settings.positions)

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def savepoint(self) -> None:
        self._execute("SAVEPOINT row")

    def release(self) -> None:
        self._execute("RELEASE row")

    def back_to_savepoint(self) -> None:
        self._execute("ROLLBACK TO row")
        self._execute("RELEASE row")

    def name(self, parts: Sequence[str], *, quotes: bool) -> TableName:  # noqa: ARG002 - its names have no case
        if len(parts) > 1:
            raise TargetError(
                "the table's name has a schema, and SQLite has none",
                hint="choose a name of tables without a dot",
            )
        return TableName(None, parts[0])

    def column_name(self, field: str, known: Mapping[str, Column], *, quotes: bool) -> str:  # noqa: ARG002
        return next((name for name in known if name.lower() == field.lower()), field)

    def columns(self, table: TableName) -> Mapping[str, Column]:
        found = self._rows("SELECT name, type, hidden FROM pragma_table_xinfo(?)", (table.name,))
        return {name: Column(name, kind, hidden > 1) for name, kind, hidden in found}

    def lock_schema(self, table: TableName) -> None:
        """The transaction is the only one that writes."""

    def create(self, table: TableName, columns: Sequence[NewColumn], keys: int) -> None:
        parts = [_definition(column) for column in columns]
        if keys:
            parts.append(f"PRIMARY KEY ({', '.join(_identifier(column.name) for column in columns[:keys])})")
        self._execute(f"CREATE TABLE {_identifier(table.name)} ({', '.join(parts)})")

    def add_columns(self, table: TableName, columns: Sequence[NewColumn]) -> None:
        for column in columns:
            self._execute(f"ALTER TABLE {_identifier(table.name)} ADD COLUMN {_definition(column)}")

    def encoder(self, kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:  # noqa: ARG002
        match kind.base:
            case Base.DECIMAL:
                return str
            case Base.ARRAY | Base.STRUCTURE:
                return json_text
            case Base.REAL | Base.DOUBLE:
                return _float
            case _:
                return None

    def untyped_encoder(self, column: str) -> Encode:  # noqa: ARG002 - what SQLite does not know is text
        def encode(value: Any) -> Any:
            return json_text(value) if isinstance(value, dict | list) else value

        return encode

    def write(self, form: Write, rows: Sequence[Row]) -> None:
        for statement, order in _statements(form):
            given = rows if order is None else [[row[place] for place in order] for row in rows]
            self._many(statement, given)

    def write_columns(self, form: Write, columns: Sequence[Sequence[Any]]) -> None:
        self.write(form, list(zip(*columns, strict=True)))

    def delete(self, table: TableName, keys: tuple[Column, ...], rows: Sequence[Row]) -> None:
        self._many(f"DELETE FROM {_identifier(table.name)} WHERE {_same(keys)}", rows)  # noqa: S608 - quoted

    def truncate(self, table: TableName) -> None:
        self._execute(f"DELETE FROM {_identifier(table.name)}")  # noqa: S608 - quoted

    def make_positions(self) -> None:
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._positions} (consumer_group TEXT, topic TEXT, partition INTEGER,"
            " next_offset INTEGER, epoch INTEGER NOT NULL, changed TEXT DEFAULT CURRENT_TIMESTAMP,"
            " PRIMARY KEY (consumer_group, topic, partition))"
        )

    def _execute(self, statement: str, given: Sequence[object] = ()) -> None:
        self._asked(lambda: self._connection.execute(statement, tuple(given)))

    def _many(self, statement: str, rows: Sequence[Row]) -> None:
        self._asked(lambda: self._connection.executemany(statement, rows))

    def _rows(self, statement: str, given: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._asked(lambda: self._connection.execute(statement, tuple(given)).fetchall())

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except (OverflowError, UnicodeEncodeError) as error:
            raise DataProblemError(f"SQLite cannot hold a value ({type(error).__name__})") from None
        except sqlite3.Error as error:
            raise _translated(error) from None


def _translated(error: sqlite3.Error) -> Exception:
    words = str(error)
    if isinstance(error, sqlite3.IntegrityError):
        return DataProblemError(f"SQLite refused the row: {words}")  # names of table and column
    if "locked" in words or "busy" in words or "disk is full" in words:
        return BusyError(f"SQLite is busy: {words}")
    if words.startswith(("no such table", "no such column")) or "has no column named" in words:
        return MovedError(f"SQLite: {words}")
    if isinstance(error, sqlite3.DataError | sqlite3.InterfaceError | sqlite3.ProgrammingError):
        return DataProblemError(f"SQLite refused a value ({type(error).__name__})")
    return TargetError(f"SQLite refused a statement: {words}")


def _float(value: float) -> Any:
    return value if math.isfinite(value) else repr(value)


def _identifier(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _definition(column: NewColumn) -> str:
    text = f"{_identifier(column.name)} {_TYPES.get(column.kind.base, 'TEXT')}"
    if isinstance(column.default, bytes):
        text += f" DEFAULT x'{column.default.hex()}'"
    elif isinstance(column.default, bool | int | float):
        text += f" DEFAULT {column.default!r}"
    elif column.default is not None:
        literal = str(column.default).replace("'", "''")
        text += f" DEFAULT '{literal}'"
    return text + (" NOT NULL" if column.required else "")


def _same(keys: Sequence[Column]) -> str:
    return " AND ".join(f"{_identifier(column.name)} = ?" for column in keys)


@lru_cache(maxsize=1000)
def _statements(form: Write) -> tuple[tuple[str, tuple[int, ...] | None], ...]:
    """The SQL of a form, and which values of a row each takes; None: all, in their order."""
    table, keys = _identifier(form.table.name), form.keys
    names = [_identifier(column.name) for column in form.columns]
    marks = ", ".join("?" * len(names))
    same = _same(form.columns[:keys])
    insert = f"INSERT INTO {table} ({', '.join(names)})"
    of_key, rest = tuple(range(keys)), tuple(range(keys, len(names)))
    changes = ", ".join(f"{name} = ?" for name in names[keys:])
    update = (f"UPDATE {table} SET {changes} WHERE {same}", rest + of_key)  # noqa: S608 - quoted
    if form.mode is Mode.INSERT:
        return ((f"{insert} VALUES ({marks})", None),)
    if form.mode is Mode.UPDATE:
        return (update,) if rest else ()
    if form.mode is Mode.PATCH:
        missing = (
            f"{insert} SELECT {marks} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})",  # noqa: S608 - quoted
            (*of_key, *rest, *of_key),
        )
        return (update, missing) if rest else (missing,)
    excluded = ", ".join(f"{name} = excluded.{name}" for name in names[keys:])
    action = f"DO UPDATE SET {excluded}" if rest else "DO NOTHING"
    return ((f"{insert} VALUES ({marks}) ON CONFLICT ({', '.join(names[:keys])}) {action}", None),)
