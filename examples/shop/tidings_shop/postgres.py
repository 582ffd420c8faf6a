"""The shop on PostgreSQL: the one module that imports psycopg. Messages never hold a password or a row's values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from tidings_service.errors import Retry
from tidings_shop.errors import ShopError
from tidings_shop.session import (
    CONNECT_SECONDS,
    TABLES,
    Cell,
    Column,
    ConflictError,
    LogReader,
    Result,
    Session,
    Shape,
    plain,
)
from tidings_shop.transactions import Json

_SHAPE_QUERY: LiteralString = """
    select c.relname, a.attname, t.typname, a.atttypmod, a.attnotnull, a.atthasdef or a.attidentity <> '' as filled
      from pg_catalog.pg_class c
      join pg_catalog.pg_attribute a on a.attrelid = c.oid
      join pg_catalog.pg_type t on t.oid = a.atttypid
     where c.relnamespace = %s::regnamespace and c.relname = any(%s) and c.relkind in ('r', 'p', 'v', 'f', 'm')
       and a.attnum > 0 and not a.attisdropped
"""


class PostgresSession(Session):
    """A connection to PostgreSQL; the tables are those of the schema ``public``.

    Args:
        url: ``postgresql://user:password@host:port/database``

    Raises:
        ShopError: when it cannot be connected to (retry ``timed``), or the URL is none.
    """

    now = "now()"

    def __init__(self, url: str) -> None:
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise ShopError(  # without the cause, which repeats the URL
                "the database's URL cannot be read", hint="postgresql://user:password@host:port/database"
            ) from None
        self.name = (
            f"{parts.get('dbname', 'postgres')} on {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
        )
        try:
            self._connection = psycopg.connect(
                url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="tidings-shop"
            )
        except psycopg.OperationalError as error:
            raise ShopError(
                f"cannot connect to the database {self.name}: {_reason(error)}",
                hint="check --database",
                retry=Retry.TIMED,
            ) from error

    def close(self) -> None:
        """See `Session.close`."""
        self._connection.close()

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """See `Session.translated`; a server's message is repeated, its detail (with values) is not."""
        try:
            yield
        except (
            psycopg.errors.IntegrityError,
            psycopg.errors.SerializationFailure,
            psycopg.errors.DeadlockDetected,
        ) as error:
            raise ConflictError from error
        except psycopg.OperationalError as error:
            raise ShopError(
                f"lost the database {self.name}: could not {doing}: {_reason(error)}", retry=Retry.TIMED
            ) from error
        except psycopg.Error as error:
            raise ShopError(f"the database {self.name} refuses to {doing}: {_reason(error)}") from error

    def execute(self, statement: str, values: Sequence[Cell] = ()) -> Result:
        """See `Session.execute`."""
        given = [Jsonb(value.value) if isinstance(value, Json) else value for value in plain(values)]
        cursor = self._connection.execute(statement.encode(), given or None)
        return Result(cursor.fetchall() if cursor.description else (), cursor.rowcount)

    def insert(self, statement: str, values: Sequence[Cell]) -> int:
        """See `Session.insert`."""
        ((number,),) = self.execute(f"{statement} returning id", values).rows
        return int(number)

    @contextmanager
    def transaction(self, *, rollback: bool = False) -> Iterator[None]:
        """See `Session.transaction`."""
        with self._connection.transaction(force_rollback=rollback):
            yield

    def read(self, table: str) -> list[dict[str, object]]:
        """See `Session.read`."""
        with self._connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(sql.SQL("select * from {}").format(sql.Identifier(table)))
            return cursor.fetchall()

    def create_database(self, name: str) -> None:
        """See `Session.create_database`."""
        self._connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))

    def create_tables(self) -> None:
        """See `Session.create_tables`."""
        with self._connection.transaction():
            self._connection.execute("set local search_path to public")
            self._connection.execute(_schema_sql())

    def present(self) -> Shape:
        """See `Session.present`."""
        return self._shape("public")

    def wanted(self) -> Shape:
        """See `Session.wanted`: in the session's temporary schema."""
        with self._connection.transaction(force_rollback=True):
            self._connection.execute("set local search_path to pg_temp")
            self._connection.execute(_schema_sql())
            row = self._connection.execute("select pg_my_temp_schema()::regnamespace::text").fetchone()
            assert row is not None
            return self._shape(str(row[0]))

    def _shape(self, schema: str) -> Shape:
        tables: dict[str, dict[str, Column]] = {}
        for table, column, kind, typmod, not_null, filled in self._connection.execute(
            _SHAPE_QUERY, (schema, list(TABLES))
        ):
            tables.setdefault(table, {})[column] = Column(f"{kind} {typmod}", not_null, filled)
        return tables

    def log_reader(self, name: str) -> LogReader | None:
        """See `Session.log_reader`: the replication slot."""
        row = self._connection.execute(
            """select confirmed_flush_lsn is not null, active,
                      coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
                      coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint
                 from pg_replication_slots where slot_name = %s""",
            (name,),
        ).fetchone()
        return None if row is None else LogReader(*row)


def _schema_sql() -> LiteralString:
    # The package's own file, so as trustworthy as a literal.
    return files("tidings_shop").joinpath("schema.sql").read_text("utf-8")


def _reason(error: psycopg.Error) -> str:
    """A server's primary message, or the last line of the client's; never the detail, which may hold values."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
