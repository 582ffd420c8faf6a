"""Any other database that SQLAlchemy speaks, as a query source reads it: Oracle, SQL Server, DB2 and so on, by the driver that is
installed for it.

Nothing is used but what they share, so that queries and comparisons with what was sent are refused (`config.check_together`):
nobody tells the types of a query's columns, the order of keys, or how a statement is ended that takes too long.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import NullPool

from tidings_capture.query.address import Address
from tidings_capture.query.columns import Column
from tidings_capture.query.database import TableFacts, TableId
from tidings_capture.query.errors import QueryError
from tidings_service.errors import Retry

_ROWS_AHEAD: Final = 1000
"""That a driver may hold which can read bit by bit."""
_CATALOG_AND_SCHEMA: Final = frozenset({"postgresql", "mssql"})
"""Where JDBC has the database's name before the schema's; elsewhere it has only a schema."""
_ONLY_CATALOG: Final = frozenset({"mysql", "mariadb"})
"""Where a database is JDBC's catalog, and there are no schemas."""
_WIDE: Final = frozenset({"sqlite"})
"""Whose INTEGER has 64 bits."""
_ORACLE_DIGITS: Final = 38
"""Of Oracle's INTEGER, which is a NUMBER."""
_SINGLE_BITS: Final = 24
"""Of a FLOAT's precision: with more it is a double. MySQL's has as many where none is told."""
_MIDNIGHT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PASSING: Final = (exc.OperationalError, exc.InterfaceError)
"""A lost connection, a lock, a server that stops: mostly; they cannot be told from others in every driver."""


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except exc.DBAPIError as error:
        passing = error.connection_invalidated or isinstance(error, _PASSING)
        raise QueryError(
            f"{what} ({type(error.orig).__name__})",  # the words of a driver may quote a value
            hint="the database's own log says more",
            retry=Retry.TIMED if passing else Retry.MANUAL,
        ) from None
    except exc.SQLAlchemyError as error:
        raise QueryError(f"{what} ({type(error).__name__})", retry=Retry.MANUAL) from None


class AnyDatabase:
    """A `Database`.

    Args:
        zone: of timestamps that have none, and of the database's clock where that does not say its own.
        schema: a pattern of the schemas whose tables are read; empty: the login's own.

    Raises:
        QueryError: its driver is not there, or it cannot be reached.
    """

    def __init__(self, address: Address, zone: ZoneInfo, schema: str) -> None:
        self._address = address
        self._zone = zone
        self._schema = schema
        self._types: dict[str, Mapping[str, Column]] = {}
        """The columns of each table, by its name in a statement."""
        self._engine = _engine(address)
        self._name = self._engine.dialect.name
        with _told(f"cannot connect to {address}"):
            self._connection = self._engine.connect()

    @property
    def tick(self) -> timedelta:
        """See `Database`."""
        return timedelta(microseconds=1)

    def now(self) -> datetime:
        """See `Database`."""
        with _told(f"cannot ask {self._address}"):
            found = self._connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
            self._connection.rollback()
        return found if found.tzinfo is not None else found.replace(tzinfo=self._zone)

    def tables(self, kinds: frozenset[str]) -> Sequence[TableId]:
        """See `Database`."""
        with _told(f"cannot ask {self._address}"):
            known = sa.inspect(self._connection)
            default = known.default_schema_name
            schemas = known.get_schema_names() if self._schema else [default]
            found = [
                self._id(schema or "", name)
                for schema in schemas
                for kind, names in (("TABLE", known.get_table_names), ("VIEW", known.get_view_names))
                if kind in kinds
                for name in sorted(names(schema))
            ]
            self._connection.rollback()
        return found

    def _id(self, schema: str, name: str) -> TableId:
        schema, name = self._own(schema), self._own(name)
        if self._name in _ONLY_CATALOG:
            return TableId(schema, "", name)
        catalog = (self._engine.url.database or "") if self._name in _CATALOG_AND_SCHEMA else ""
        return TableId(catalog, "" if self._name == "sqlite" else schema, name)

    def _own(self, name: str) -> str:
        """A name as the database has it, where SQLAlchemy writes it in small letters."""
        dialect = self._engine.dialect
        if not name or not dialect.requires_name_normalize:
            return name
        return str(dialect.denormalize_name(name))

    def _normal(self, name: str) -> str:
        dialect = self._engine.dialect
        return str(dialect.normalize_name(name)) if name and dialect.requires_name_normalize else name

    def facts(self, table: TableId) -> TableFacts:
        """See `Database`."""
        name = self._normal(table.name)
        schema = self._normal(table.catalog if self._name in _ONLY_CATALOG else table.schema) or None
        with _told(f"cannot ask {self._address}"):
            known = sa.inspect(self._connection)
            try:
                described = known.get_columns(name, schema)
                key = known.get_pk_constraint(name, schema)["constrained_columns"]
            except exc.NoSuchTableError:
                raise QueryError(f"table {table} is not there") from None
            self._connection.rollback()
        columns = [self._column(one, in_key=one["name"] in key) for one in described]
        self._types[self.named(table)] = {column.name: column for column in columns}
        return TableFacts(
            columns,
            [self._own(part) for part in key],
            [self._own(one["name"]) for one in described if _counts_up(one)],
        )

    def _column(self, described: Any, *, in_key: bool) -> Column:
        of = described["type"]
        kind, precision, scale = _kind(of, self._name)
        numbers_rows = in_key and isinstance(of, sa.Integer)  # never null, though SQLite has it so
        nullable = bool(described["nullable"]) and not numbers_rows
        return Column(self._own(described["name"]), kind, precision=precision, scale=scale, nullable=nullable)

    def quoted(self, name: str) -> str:
        """See `Database`."""
        return self._engine.dialect.identifier_preparer.quote_identifier(name).replace("%", "%%")

    def named(self, table: TableId) -> str:
        """See `Database`."""
        owner = table.catalog if self._name in _ONLY_CATALOG else table.schema
        return ".".join(self.quoted(part) for part in (owner, table.name) if part)

    def moment(self, columns: Sequence[str]) -> str:
        """See `Database`."""
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    def parameter(self, moment: datetime, *, zoned: bool) -> datetime:
        """See `Database`."""
        return moment if zoned else moment.astimezone(self._zone).replace(tzinfo=None)

    def late(self) -> str:
        """See `Database`: it does not tell by which transaction a row was written."""
        return "false"

    def oldest(self) -> datetime | None:
        """See `Database`."""
        return None

    def open(
        self,
        select: str,
        rest: str,
        parameters: Sequence[Any],
        seconds: float | None = None,  # noqa: ARG002 - only comparisons have one, which are refused
    ) -> "_Result":
        """See `Database`."""
        known = next((types for named, types in self._types.items() if select.endswith(f" FROM {named}")), {})
        statement = _statement(f"{select} {rest}", parameters)
        with _told("a query failed"):
            rows = self._connection.execution_options(
                stream_results=True, max_row_buffer=_ROWS_AHEAD
            ).execute(statement)
        return _Result(self._connection, rows, [self._found(name, known) for name in rows.keys()])  # noqa: SIM118 - no mapping

    def _found(self, name: str, known: Mapping[str, Column]) -> Column:
        own = self._own(name)
        return known.get(own, Column(own, "string"))

    def close(self) -> None:
        """See `Database`."""
        with suppress(exc.SQLAlchemyError):
            self._connection.close()
        self._engine.dispose()


class _Result:
    """A result that is read bit by bit where its driver can."""

    def __init__(
        self, connection: sa.Connection, rows: "sa.CursorResult[Any]", columns: Sequence[Column]
    ) -> None:
        self._connection = connection
        self._rows = rows
        self.columns = columns
        self._readers = [_reader(column) for column in columns]

    def fetch(self, rows: int) -> Sequence[Sequence[Any]]:
        """See `Result`."""
        with _told("a query failed"):
            found = self._rows.fetchmany(rows)
        readers = self._readers
        return [
            [None if cell is None else read(cell) for cell, read in zip(row, readers, strict=True)]
            for row in found
        ]

    def close(self) -> None:
        """See `Result`."""
        with _told("a query cannot be ended"):
            self._rows.close()
            self._connection.rollback()


def _engine(address: Address) -> sa.Engine:
    url = sa.make_url(address.parameters["url"])
    url = url.set(
        username=address.parameters.get("user") or url.username, password=address.parameters.get("password")
    )
    try:
        return sa.create_engine(url, poolclass=NullPool)
    except exc.NoSuchModuleError:
        raise QueryError(
            f"connection.url is of {url.drivername}, which SQLAlchemy does not know",
            hint="install the dialect and its driver beside the worker, or correct connection.url",
            retry=Retry.NEVER,
        ) from None
    except ImportError as error:
        raise QueryError(
            f"the driver {error.name} of connection.url is not installed",
            hint="install it beside the worker",
            retry=Retry.NEVER,
        ) from None


def _statement(text: str, parameters: Sequence[Any]) -> sa.TextClause:
    """A statement with SQLAlchemy's placeholders."""
    places = count()
    made = re.sub(
        "%([s%])",
        lambda found: f":p{next(places)}" if found[1] == "s" else "%",
        text.replace(":", r"\:"),
    )
    return sa.text(made).bindparams(*(_bound(f"p{place}", value) for place, value in enumerate(parameters)))


def _bound(name: str, value: Any) -> "sa.BindParameter[Any]":
    if isinstance(value, datetime):
        return sa.bindparam(name, value, sa.DateTime(timezone=value.tzinfo is not None))
    return sa.bindparam(name, value)


def _counts_up(described: Any) -> bool:
    return described.get("autoincrement") is True or bool(described.get("identity"))


def _kind(of: sa.types.TypeEngine[Any], dialect: str) -> tuple[str, int | None, int | None]:
    """A `Column`'s kind, precision and scale."""
    if isinstance(of, sa.Integer):
        if dialect == "oracle":
            return "numeric", _ORACLE_DIGITS, 0
        small = "int16" if isinstance(of, sa.SmallInteger) else "int32"
        return ("int64" if isinstance(of, sa.BigInteger) or dialect in _WIDE else small), None, None
    if isinstance(of, sa.Float):
        bits = of.precision or (_SINGLE_BITS if dialect in _ONLY_CATALOG else 0)
        single = isinstance(of, sa.REAL) or 0 < bits <= _SINGLE_BITS
        return ("float32" if single and not isinstance(of, sa.Double) else "float64"), None, None
    if isinstance(of, sa.Numeric):
        return "numeric", of.precision, of.scale if of.scale is not None else 0 if of.precision else None
    if isinstance(of, sa.DateTime):
        return ("timestamptz" if of.timezone else "timestamp"), None, None
    return next((word for kind, word in _KINDS if isinstance(of, kind)), "string"), None, None


_KINDS: Final[tuple[tuple[type[sa.types.TypeEngine[Any]], str], ...]] = (
    (sa.Boolean, "boolean"),
    (sa.Date, "date"),
    (sa.Time, "time"),
    (sa.types._Binary, "bytes"),  # noqa: SLF001 - BLOB, BINARY and VARBINARY have no other class in common
)
"""All others are text."""


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return value if isinstance(value, str) else str(value)


def _time(value: Any) -> Any:
    """PyMySQL has a TIME as a duration, which may be longer than a day."""
    if not isinstance(value, timedelta):
        return _iso(value)
    if not timedelta(0) <= value < timedelta(days=1):
        raise ValueError
    return (_MIDNIGHT + value).time().isoformat()


def _plain(value: Any) -> Any:
    return value


def _iso(value: Any) -> str:
    return value if isinstance(value, str) else value.isoformat()


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _text,
    "boolean": bool,
    "date": _iso,
    "time": _time,
    "timestamp": _iso,
    "timestamptz": _iso,
}


def _reader(column: Column) -> Callable[[Any], Any]:
    return _READERS.get(column.kind, _plain)
