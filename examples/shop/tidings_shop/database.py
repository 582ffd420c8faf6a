"""The shop's database: the one module that talks to PostgreSQL.

It makes the tables, refuses a database whose tables of the same names are others, executes transactions, and reads
what the demo compares and shows. Messages name host and database, never a password or a row's values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from types import TracebackType
from typing import LiteralString, Self

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from tidings_service.errors import Retry
from tidings_shop.errors import ShopError
from tidings_shop.traffic_plan import Catalogue, KnownProduct
from tidings_shop.transactions import (
    Abandoned,
    Delete,
    Insert,
    Json,
    Now,
    Ref,
    Step,
    Transaction,
    Update,
    Value,
)

TABLES = ("customers", "products", "orders", "order_items", "payments", "shipments")
"""In an order in which rows may be inserted."""

_CONNECT_SECONDS = 10
_SHAPE_QUERY: LiteralString = """
    select c.relname, a.attname, t.typname, a.atttypmod, a.attnotnull, a.atthasdef or a.attidentity <> '' as filled
      from pg_catalog.pg_class c
      join pg_catalog.pg_attribute a on a.attrelid = c.oid
      join pg_catalog.pg_type t on t.oid = a.atttypid
     where c.relnamespace = %s::regnamespace and c.relname = any(%s) and c.relkind in ('r', 'p', 'v', 'f', 'm')
       and a.attnum > 0 and not a.attisdropped
"""


class Outcome(StrEnum):
    """What became of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    """As planned."""
    CONFLICTED = "conflicted"
    """The database refused it, because somebody else works on the same rows."""
    SKIPPED = "skipped"
    """It needs a row that an earlier, refused transaction was to create."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a transaction, and the rows it wrote, by ``table.operation``."""

    outcome: Outcome
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotState:
    """A replication slot as the server sees it."""

    consistent: bool
    """Every transaction that commits from now on will be streamed to it."""
    active: bool
    retained_bytes: int
    """WAL that the server keeps because of it."""
    unconfirmed_bytes: int
    """WAL that it has not confirmed yet."""


@dataclass(frozen=True, slots=True)
class _Column:
    type: str
    typmod: int
    not_null: bool
    filled: bool


class ShopDatabase:
    """A connection to the shop's database; a context manager.

    Args:
        url: ``postgresql://user:password@host:port/database``

    Raises:
        ShopError: when it cannot be connected to (retry ``timed``), or the URL is none.
    """

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
                url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="tidings-shop"
            )
        except psycopg.OperationalError as error:
            raise ShopError(
                f"cannot connect to the database {self.name}: {_reason(error)}",
                hint="check --database",
                retry=Retry.TIMED,
            ) from error
        self._ids: dict[Ref, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; an open transaction is rolled back by the server."""
        self._connection.close()

    # Schema

    def ensure_schema(self) -> bool:
        """Create the tables when none of them exists.

        Returns:
            Whether they have been created.

        Raises:
            ShopError: when a table of the same name has other columns, or only some of the tables exist.
        """
        with self._translated("read or create the tables"):
            present = self._shape("public")
            if not present:
                with self._connection.transaction():
                    self._connection.execute("set local search_path to public")
                    self._connection.execute(_schema_sql())
                return True
            self._refuse_other_tables(present)
        return False

    def _refuse_other_tables(self, present: Mapping[str, Mapping[str, _Column]]) -> None:
        """Compare with the tables that schema.sql makes, made for that in the session's temporary schema."""
        with self._connection.transaction(force_rollback=True):
            self._connection.execute("set local search_path to pg_temp")
            self._connection.execute(_schema_sql())
            wanted = self._shape("pg_temp")
        problems = [
            problem for table in TABLES for problem in _differences(table, present.get(table), wanted[table])
        ]
        if problems:
            raise ShopError(
                f"the database {self.name} has other tables of the shop's names: {'; '.join(problems)}",
                hint="use an empty database, or one that tidings-shop has prepared",
                retry=Retry.NEVER,
            )

    def _shape(self, schema: str) -> dict[str, dict[str, _Column]]:
        name = schema
        if schema == "pg_temp":
            row = self._connection.execute("select pg_my_temp_schema()::regnamespace::text").fetchone()
            assert row is not None
            name = str(row[0])
        tables: dict[str, dict[str, _Column]] = {}
        for table, column, *shape in self._connection.execute(_SHAPE_QUERY, (name, list(TABLES))):
            tables.setdefault(table, {})[column] = _Column(*shape)
        return tables

    def catalogue(self, limit: int = 1_000) -> Catalogue:
        """Customers and products that traffic can begin with: the oldest `limit` of each."""
        with self._translated("read the customers and products"):
            run = self._connection.execute
            customers = run("select id from customers order by id limit %s", (limit,)).fetchall()
            products = run("select id, price from products order by id limit %s", (limit,)).fetchall()
            last = run("select coalesce(max(id), 0) from customers").fetchone()
        assert last is not None
        return Catalogue(
            tuple(row[0] for row in customers),
            tuple(KnownProduct(*row) for row in products),
            first_email_number=last[0] + 1,
        )

    # Transactions

    def know(self, ids: Mapping[Ref, int]) -> None:
        """Remember the ids behind the names a plan uses; those of an earlier plan are forgotten."""
        self._ids = dict(ids)

    def apply(self, transaction: Transaction) -> Applied:
        """Execute one transaction and commit it, or roll it back as planned.

        Raises:
            ShopError: when the database is away or refuses for another reason than a conflict.
        """
        rows: Counter[str] = Counter()
        created: dict[Ref, int] = {}
        try:
            with (
                self._translated("execute a transaction"),
                self._connection.transaction(force_rollback=transaction.rollback),
            ):
                for step in transaction.steps:
                    self._execute(step, created, rows)
        except _UnknownRowError:
            return Applied(Outcome.SKIPPED)
        except _ConflictError:
            return Applied(Outcome.CONFLICTED)
        if transaction.rollback:
            return Applied(Outcome.ROLLED_BACK)
        self._ids.update(created)
        return Applied(Outcome.COMMITTED, rows)

    def _execute(self, step: Step, created: dict[Ref, int], rows: Counter[str]) -> None:
        match step:
            case Insert(table, values, creates):
                query = sql.SQL("insert into {} ({}) values ({})").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(map(sql.Identifier, values)),
                    sql.SQL(", ").join(self._term(value, created) for value in values.values()),
                )
                if creates is None:
                    self._connection.execute(query)
                else:
                    row = self._connection.execute(query + sql.SQL(" returning id")).fetchone()
                    assert row is not None
                    created[creates] = row[0]
                rows[f"{table}.insert"] += 1
            case Update(table, key, values):
                query = sql.SQL("update {} set {} where {}").format(
                    sql.Identifier(table),
                    self._pairs(values, ", ", created),
                    self._pairs(key, " and ", created),
                )
                rows[f"{table}.update"] += self._connection.execute(query).rowcount
            case Delete(table, key):
                query = sql.SQL("delete from {} where {}").format(
                    sql.Identifier(table), self._pairs(key, " and ", created)
                )
                rows[f"{table}.delete"] += self._connection.execute(query).rowcount
            case Abandoned(steps):
                with self._connection.transaction(force_rollback=True):
                    for inner in steps:
                        self._execute(inner, created, Counter())

    def _pairs(
        self, values: Mapping[str, Value], separator: LiteralString, created: Mapping[Ref, int]
    ) -> sql.Composed:
        pairs = (
            sql.SQL("{} = {}").format(sql.Identifier(k), self._term(v, created)) for k, v in values.items()
        )
        return sql.SQL(separator).join(pairs)

    def _term(self, value: Value, created: Mapping[Ref, int]) -> sql.Composable:
        if isinstance(value, Now):
            return sql.SQL("now()")
        if isinstance(value, Json):
            return sql.Literal(Jsonb(value.value))
        if isinstance(value, Ref):
            known = created.get(value, self._ids.get(value))
            if known is None:
                raise _UnknownRowError
            return sql.Literal(known)
        return sql.Literal(value)

    # What the demo looks at

    def count(self, table: str) -> int:
        """Rows of one of the shop's tables."""
        with self._translated(f"count {table}"):
            row = self._connection.execute(
                sql.SQL("select count(*) from {}").format(sql.Identifier(table))
            ).fetchone()
        assert row is not None
        return int(row[0])

    def rows(self, table: str) -> list[dict[str, object]]:
        """All rows of one of the shop's tables."""
        with (
            self._translated(f"read {table}"),
            self._connection.cursor(row_factory=psycopg.rows.dict_row) as cursor,
        ):
            cursor.execute(sql.SQL("select * from {}").format(sql.Identifier(table)))
            return cursor.fetchall()

    def slot(self, name: str) -> SlotState | None:
        """The state of a replication slot, None when there is none of that name."""
        with self._translated("look at the replication slot"):
            row = self._connection.execute(
                """select confirmed_flush_lsn is not null, active,
                          coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
                          coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint
                     from pg_replication_slots where slot_name = %s""",
                (name,),
            ).fetchone()
        return None if row is None else SlotState(*row)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Give psycopg's errors our names; a server's message is repeated, its detail (with values) is not."""
        try:
            yield
        except (
            psycopg.errors.IntegrityError,
            psycopg.errors.SerializationFailure,
            psycopg.errors.DeadlockDetected,
        ) as error:
            raise _ConflictError from error
        except psycopg.OperationalError as error:
            raise ShopError(
                f"lost the database {self.name}: could not {doing}: {_reason(error)}", retry=Retry.TIMED
            ) from error
        except psycopg.Error as error:
            raise ShopError(f"the database {self.name} refuses to {doing}: {_reason(error)}") from error


class _ConflictError(Exception):
    """The database refused a transaction because of somebody else's."""


class _UnknownRowError(Exception):
    """A name has no id, because what was to create it was refused."""


def create_database(maintenance_url: str, name: str) -> str:
    """Create a database on the server, and give back its URL.

    Raises:
        ShopError: when it exists or cannot be created.
    """
    server = ShopDatabase(maintenance_url)
    with server, server._translated(f"create the database {name}"):  # noqa: SLF001 - its own module
        server._connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))  # noqa: SLF001
    base, _, query = maintenance_url.partition("?")
    return base.rpartition("/")[0] + "/" + name + (f"?{query}" if query else "")


def _schema_sql() -> LiteralString:
    # The package's own file, so as trustworthy as a literal.
    return files("tidings_shop").joinpath("schema.sql").read_text("utf-8")


def _differences(
    table: str, present: Mapping[str, _Column] | None, wanted: Mapping[str, _Column]
) -> Iterator[str]:
    """What keeps a table from being the shop's; more columns are welcome when they can be left out."""
    if present is None:
        yield f"{table} is missing"
        return
    for name, column in wanted.items():
        if name not in present:
            yield f"{table}.{name} is missing"
        elif present[name] != column:
            yield f"{table}.{name} has another type"
    for name, column in present.items():
        if name not in wanted and column.not_null and not column.filled:
            yield f"{table}.{name} is not the shop's and needs a value"


def _reason(error: psycopg.Error) -> str:
    """A server's primary message, or the last line of the client's; never the detail, which may hold values."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
