"""Any other database that SQLAlchemy speaks: Oracle, SQL Server, DB2 and so on, by the driver that is installed for it.

Nothing is used but what they share: an upsert is an UPDATE that finds its row, or else an INSERT, row by row, so that it is slower
than where a database has a statement for it. A driver must say how many rows an UPDATE has found.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateColumn

from tidings_connect.data.subscription import TopicPartition
from tidings_sinks.errors import BusyError, DataProblemError, LostError, TargetError
from tidings_sinks.jdbc.database import Column, Encode, Mode, MovedError, NewColumn, Row, TableName, Write
from tidings_sinks.jdbc.databases.any_types import ENCODERS, KEY_CHARACTERS, TEXT, type_of, word_of
from tidings_sinks.jdbc.kinds import Kind
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.positions import Claim

_T = TypeVar("_T")


class AnyDatabase:
    """A `Database`.

    Raises:
        LostError: it cannot be reached.
        TargetError: its driver is not there or cannot count rows, or the login is refused.
    """

    def __init__(self, settings: Settings) -> None:
        given = settings.address.parameters["url"]
        try:
            url = sa.make_url(given)
            if settings.user is not None:
                url = url.set(username=settings.user)
            if settings.password:
                url = url.set(password=settings.password)
            engine = sa.create_engine(url, poolclass=NullPool)
        except exc.NoSuchModuleError:
            raise TargetError(
                f"connection.url is of {given.partition(':')[0]}, which SQLAlchemy does not know",
                hint="install the dialect and its driver beside the worker, or correct connection.url",
            ) from None
        except exc.ArgumentError:
            raise TargetError("connection.url is not a URL of SQLAlchemy's") from None
        except ImportError as error:
            raise TargetError(
                f"the driver {error.name} of connection.url is not installed",
                hint="install it beside the worker",
            ) from None
        self.title = engine.dialect.name
        if not engine.dialect.supports_sane_rowcount:
            raise TargetError(
                f"the driver of {self.title} does not say how many rows an UPDATE has found, without which rows would be lost"
            )
        if self.title == "sqlite":
            sa.event.listen(engine, "connect", _without_its_own_transactions)
        self._begun = False
        try:
            self._connection = engine.connect()
        except exc.DBAPIError as error:
            raise LostError(f"cannot connect to {self.title} ({type(error.orig).__name__})") from None
        self._tables: dict[TableName, sa.Table] = {}
        schema, _, name = settings.positions.rpartition(".")
        self._positions = _positions_table(name, schema or None)

    def close(self) -> None:
        with suppress(exc.SQLAlchemyError):
            self._connection.close()
        self._connection.engine.dispose()

    def begin(self) -> None:
        self._begun = True
        self._asked(self._connection.begin)
        if self.title == "sqlite":
            self._asked(lambda: self._connection.exec_driver_sql("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        self._asked(self._connection.commit)
        self._begun = False

    def rollback(self) -> None:
        self._begun = False
        if self._connection.in_transaction():
            self._asked(self._connection.rollback)

    def savepoint(self) -> None:
        self._asked(self._connection.begin_nested)

    def release(self) -> None:
        nested = self._connection.get_nested_transaction()
        assert nested is not None
        self._asked(nested.commit)

    def back_to_savepoint(self) -> None:
        nested = self._connection.get_nested_transaction()
        assert nested is not None
        self._asked(nested.rollback)

    def name(self, parts: Sequence[str], *, quotes: bool) -> TableName:
        *schema, table = (part if quotes else part.lower() for part in parts)
        return TableName(schema[0] if schema else None, table)

    def column_name(self, field: str, known: Mapping[str, Column], *, quotes: bool) -> str:
        found = field if field in known else next((n for n in known if n.lower() == field.lower()), None)
        if found is not None:
            return found
        return field if quotes else field.lower()

    def columns(self, table: TableName) -> Mapping[str, Column]:
        self._tables.pop(table, None)
        found = self._asked(lambda: self._described(table))
        words = {one["name"]: word_of(one["type"], self._connection.dialect) for one in found}
        columns = [
            # What takes text takes it as it is: SQLAlchemy's own types would have a UUID or JSON in Python's.
            sa.Column(one["name"], sa.types.NullType() if words[one["name"]] == TEXT else one["type"])
            for one in found
        ]
        if found:
            self._tables[table] = sa.Table(table.name, sa.MetaData(), *columns, schema=table.schema)
        return {
            one["name"]: Column(one["name"], words[one["name"]], bool(one.get("computed"))) for one in found
        }

    def _described(self, table: TableName) -> Sequence[Any]:
        try:
            return sa.inspect(self._connection).get_columns(table.name, table.schema)
        except exc.NoSuchTableError:
            return ()

    def lock_schema(self, table: TableName) -> None:
        """Nothing that all databases have: who comes second is told that a table or a column is there, and looks again."""

    def create(self, table: TableName, columns: Sequence[NewColumn], keys: int) -> None:
        made = sa.Table(
            table.name,
            sa.MetaData(),
            *(self._new_column(column, in_key=place < keys) for place, column in enumerate(columns)),
            schema=table.schema,
        )
        self._asked(lambda: made.create(self._connection))

    def add_columns(self, table: TableName, columns: Sequence[NewColumn]) -> None:
        dialect = self._connection.dialect
        name = dialect.identifier_preparer.format_table(
            sa.Table(table.name, sa.MetaData(), schema=table.schema)
        )
        for column in columns:
            made = sa.Table(table.name, sa.MetaData(), self._new_column(column, in_key=False)).columns[
                column.name
            ]
            definition = CreateColumn(made).compile(dialect=dialect)
            self._run(f"ALTER TABLE {name} ADD {definition}")

    def _run(self, text: str) -> None:
        self._asked(lambda: self._connection.exec_driver_sql(text))

    def _new_column(self, column: NewColumn, *, in_key: bool) -> "sa.Column[Any]":
        default = None if isinstance(column.default, bytes) else column.default  # no SQL for it that all have
        return sa.Column(
            column.name,
            type_of(column.kind, self._connection.dialect, in_key=in_key),
            primary_key=in_key,
            autoincrement=False,
            nullable=not column.required and not in_key,
            server_default=None if default is None else sa.literal(default),
        )

    def encoder(self, kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:  # noqa: ARG002 - it is in the values
        dialect = self._connection.dialect
        return ENCODERS[word_of(type_of(kind, dialect, in_key=False), dialect) if column is None else column]

    def untyped_encoder(self, column: str) -> Encode:
        return ENCODERS[column]

    def write(self, form: Write, rows: Sequence[Row]) -> None:
        table = self._table(form)
        names = [column.name for column in form.columns]
        values = [dict(zip(names, row, strict=True)) for row in rows]
        if form.mode is Mode.INSERT:
            self._insert(table, values)
            return
        rest = names[form.keys :]
        for row in values:
            found = self._update(table, names[: form.keys], rest, row)
            if not found and form.mode is not Mode.UPDATE:
                self._insert(table, [row])

    def _insert(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self._asked(lambda: self._connection.execute(sa.insert(table), rows))

    def _update(
        self, table: sa.Table, keys: Sequence[str], rest: Sequence[str], row: Mapping[str, Any]
    ) -> int:
        """How many rows have that key; the others' values are theirs afterwards."""
        same = sa.and_(*(table.columns[name] == row[name] for name in keys))
        if not rest:
            count = sa.select(sa.func.count()).select_from(table).where(same)
            return int(self._asked(lambda: self._connection.execute(count).scalar_one()))
        return self._changed(sa.update(table).where(same).values({name: row[name] for name in rest}))

    def _changed(self, statement: sa.Update) -> int:
        """How many rows an UPDATE has found."""
        return self._asked(lambda: self._connection.execute(statement).rowcount)

    def write_columns(self, form: Write, columns: Sequence[Sequence[Any]]) -> None:
        self.write(form, list(zip(*columns, strict=True)))

    def delete(self, table: TableName, keys: tuple[Column, ...], rows: Sequence[Row]) -> None:
        of = self._tables[table]
        same = sa.and_(*(of.columns[key.name] == sa.bindparam(f"k{place}") for place, key in enumerate(keys)))
        given = [{f"k{place}": value for place, value in enumerate(row)} for row in rows]
        self._asked(lambda: self._connection.execute(sa.delete(of).where(same), given))

    def truncate(self, table: TableName) -> None:
        if table not in self._tables:
            self.columns(table)
        self._asked(lambda: self._connection.execute(sa.delete(self._tables[table])))

    # Positions

    def make_positions(self) -> None:
        self._asked(lambda: self._positions.create(self._connection, checkfirst=True))

    def claim(self, group: str, at: TopicPartition) -> Claim:
        table = self._positions
        taken = sa.update(table).where(self._place(group, at)).values(epoch=table.c.epoch + 1)
        if not self._changed(taken):
            self._insert_position(group, at, None)
        found = self.position(group, at)
        assert found is not None
        return found

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        table = self._positions
        asked = sa.select(table.c.next_offset, table.c.epoch).where(self._place(group, at))
        row = self._asked(lambda: self._connection.execute(asked).first())
        return None if row is None else Claim(*row)

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        moved = 0
        for at, epoch, offset in moves:
            statement = (
                sa.update(self._positions)
                .where(self._place(group, at), self._positions.c.epoch == epoch)
                .values(next_offset=offset, changed=sa.func.current_timestamp())
            )
            moved += self._changed(statement)
        return moved

    def alter(self, group: str, at: TopicPartition, offset: int | None) -> None:
        table = self._positions
        altered = (
            sa.update(table).where(self._place(group, at)).values(next_offset=offset, epoch=table.c.epoch + 1)
        )
        if not self._changed(altered):
            self._insert_position(group, at, offset)

    def forget(self, group: str) -> None:
        table = self._positions
        asked = sa.select(table.c.place, table.c.consumer_group).where(table.c.consumer_group == group)
        for place, found in self._asked(lambda: self._connection.execute(asked).all()):
            if found == group:  # to some databases others are equal
                forgotten = sa.update(table).where(table.c.place == place)
                self._changed(forgotten.values(next_offset=None, epoch=table.c.epoch + 1))

    def _insert_position(self, group: str, at: TopicPartition, offset: int | None) -> None:
        row = {
            "place": _digest(group, at),
            "consumer_group": group, "topic": at.topic, "partition_number": at.partition, "next_offset": offset, "epoch": 1,
        }  # fmt: skip
        try:
            self._insert(self._positions, [row])
        except DataProblemError:
            raise BusyError("somebody else takes the partition at this moment") from None

    def _place(self, group: str, at: TopicPartition) -> sa.ColumnElement[bool]:
        return self._positions.c.place == _digest(group, at)

    def _table(self, form: Write) -> sa.Table:
        table = self._tables.get(form.table)
        if table is None or any(column.name not in table.columns for column in form.columns):
            self.columns(form.table)
            table = self._tables.get(form.table)
        if table is None:
            raise MovedError(f"table {form.table} is not there any more")
        return table

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            found = ask()
            if not self._begun and self._connection.in_transaction():
                self._connection.commit()
        except exc.DBAPIError as error:
            if not self._begun:
                with suppress(exc.SQLAlchemyError):
                    self._connection.rollback()
            raise self._translated(error) from None
        except (OverflowError, UnicodeEncodeError) as error:
            raise DataProblemError(f"the driver cannot send a value ({type(error).__name__})") from None
        except exc.StatementError as error:
            raise DataProblemError(f"a value is none of its column's ({type(error.orig).__name__})") from None
        return found

    def _translated(self, error: exc.DBAPIError) -> Exception:
        """By DB-API's classes, which all drivers have; their words may quote values, and are not told."""
        what = f"{self.title} refused a statement ({type(error.orig).__name__})"
        if error.connection_invalidated:
            return LostError(f"the connection to {self.title} is lost")
        if isinstance(error, exc.IntegrityError | exc.DataError):
            return DataProblemError(f"{self.title} refused the row ({type(error.orig).__name__})")
        if isinstance(error, exc.OperationalError | exc.InternalError):
            return BusyError(what)
        if isinstance(error, exc.ProgrammingError):
            return MovedError(what)
        return TargetError(what)


def _digest(group: str, at: TopicPartition) -> str:
    """The key of a position: many databases take names that differ in case, or in spaces at the end, for one."""
    return hashlib.sha256(f"{group}\0{at.topic}\0{at.partition}".encode()).hexdigest()


def _without_its_own_transactions(connection: Any, _record: object) -> None:
    """Python's driver of SQLite begins transactions by itself, and ends them before a table is made."""
    connection.isolation_level = None


def _positions_table(name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("place", sa.String(64), primary_key=True),
        sa.Column("consumer_group", sa.String(KEY_CHARACTERS), nullable=False),
        sa.Column("topic", sa.String(KEY_CHARACTERS), nullable=False),
        sa.Column("partition_number", sa.Integer, nullable=False),
        sa.Column("next_offset", sa.BigInteger),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("changed", sa.DateTime, server_default=sa.func.current_timestamp()),
        schema=schema,
    )
