"""PostgreSQL, as a query source reads it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.string import TextLoader

from tidings_capture.query.address import Address
from tidings_capture.query.columns import Column
from tidings_capture.query.database import TableFacts, TableId
from tidings_capture.query.errors import QueryError
from tidings_service.errors import Retry

_KINDS: Final[Mapping[int, str]] = {
    16: "boolean",
    17: "bytes",
    20: "int64",
    21: "int16",
    23: "int32",
    26: "int64",
    700: "float32",
    701: "float64",
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
    1700: "numeric",
}
"""By the number of a type in ``pg_type``; all others are text, as PostgreSQL writes it."""
_ARRAYS: Final[Mapping[int, int]] = {
    1000: 16, 1001: 17, 1016: 20, 1005: 21, 1007: 23, 1021: 700, 1022: 701, 1182: 1082, 1183: 1083, 1115: 1114,
    1185: 1184, 1231: 1700, 1009: 25, 1015: 1043, 1014: 1042, 2951: 2950, 199: 114, 3807: 3802,
}  # fmt: skip
_AS_TEXT: Final = (
    "json", "jsonb", "uuid", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "inet", "cidr", "record",
    "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange", "int4multirange", "int8multirange",
    "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange",
)  # fmt: skip
"""What psycopg would make objects of."""
_TABLES: Final = """
SELECT current_database(), n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
ON n.oid = c.relnamespace WHERE c.relkind::text = ANY(%s) AND NOT c.relispartition
AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' ORDER BY 2, 3
"""
_COLUMNS: Final = """
SELECT a.attname, NOT a.attnotnull,
       a.attidentity <> '' OR coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false),
       array_position(i.indkey::int2[], a.attnum),
       t.typname IN ('int2', 'int4', 'int8', 'numeric', 'uuid', 'date', 'timestamp', 'timestamptz')
       OR (t.typname IN ('text', 'varchar', 'bpchar') AND CASE WHEN c.collname = 'default'
           THEN (SELECT d.datcollate IN ('C', 'POSIX') AND coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') <> 'i'
                 FROM pg_catalog.pg_database d WHERE d.datname = current_database())
           ELSE c.collcollate IN ('C', 'POSIX') AND c.collprovider <> 'i' END)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_OLDEST: Final = """
SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
 EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()),
 (SELECT min(xact_start) FROM pg_catalog.pg_stat_activity
  WHERE pid <> pg_catalog.pg_backend_pid() AND datname = pg_catalog.current_database())
"""
_NEVER: Final = datetime(1, 1, 2, tzinfo=UTC)
_RELATIONS: Final = {"TABLE": ["r", "p"], "VIEW": ["v", "m"]}


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.UndefinedTable) as error:
        raise QueryError(f"{what}: {_message(error)}") from error
    except psycopg.Error as error:
        raise QueryError(f"{what}: {_message(error)}", retry=Retry.MANUAL) from error


def _message(error: psycopg.Error) -> str:
    """The server's sentence; its detail may hold values."""
    return error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__


class Postgres:
    """A connection to PostgreSQL.

    Args:
        zone: of timestamps without a zone.
    """

    def __init__(self, address: Address, zone: ZoneInfo) -> None:
        self._address = address
        self._zone = zone
        defaults = {"connect_timeout": "10", "application_name": "tidings"}
        with _told(f"cannot connect to {address}"):
            self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
                make_conninfo(**{**defaults, **address.parameters}), autocommit=True
            )
        with _told(f"cannot set up the session at {address}"):
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute("SET DateStyle = 'ISO'")
            self._connection.execute("SET default_transaction_read_only = on")
        for name in _AS_TEXT:
            self._connection.adapters.register_loader(name, TextLoader)

    @property
    def tick(self) -> timedelta:
        """See `Database`."""
        return timedelta(microseconds=1)

    def now(self) -> datetime:
        """See `Database`."""
        ((text,),) = self._rows("SELECT CURRENT_TIMESTAMP")
        return datetime.fromisoformat(text)

    def tables(self, kinds: frozenset[str]) -> Sequence[TableId]:
        """See `Database`."""
        relations = [relation for kind in sorted(kinds) for relation in _RELATIONS[kind]]
        return [TableId(*row) for row in self._rows(_TABLES, [relations])]

    def facts(self, table: TableId) -> TableFacts:
        """See `Database`."""
        rows = self._rows(_COLUMNS, [self.named(table)])
        return TableFacts(
            [Column(name, "", nullable=nullable) for name, nullable, *_ in rows],
            [row[0] for row in sorted((row for row in rows if row[3] is not None), key=lambda row: row[3])],
            [name for name, _nullable, counted, *_ in rows if counted],
            frozenset(name for name, _nullable, _counted, _place, ordered in rows if ordered),
        )

    def quoted(self, name: str) -> str:
        """See `Database`."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def named(self, table: TableId) -> str:
        """See `Database`."""
        return f"{self.quoted(table.schema)}.{self.quoted(table.name)}"

    def moment(self, columns: Sequence[str]) -> str:
        """See `Database`."""
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    def parameter(self, moment: datetime, *, zoned: bool) -> datetime:
        """See `Database`."""
        return moment if zoned else moment.astimezone(self._zone).replace(tzinfo=None)

    def late(self) -> str:
        """See `Database`. Ages, as transaction numbers wrap around: a frozen row that is older than 2,147,483,647 transactions has
        a negative one."""
        return (
            "pg_catalog.age(xmin) BETWEEN 0 AND pg_catalog.age(pg_catalog.xid("
            "pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())))"
        )

    def oldest(self) -> datetime | None:
        """See `Database`.

        Raises:
            QueryError: the server does not tell this user, or is a replica, where the primary's transactions are not seen.
        """
        ((replica, told, prepared, text),) = self._rows(_OLDEST)
        if replica:
            raise QueryError(
                f"{self._address} is a replica, which does not see the transactions that run on its primary",
                hint="read the primary, or use mode=incrementing, or set tidings.late.commits=read",
                retry=Retry.MANUAL,
            )
        if not told:
            raise QueryError(
                f"the user at {self._address} does not see the transactions of others",
                hint="GRANT pg_read_all_stats to it, or set tidings.late.commits=read",
                retry=Retry.MANUAL,
            )
        if prepared:
            return _NEVER  # nobody knows when it began
        return None if text is None else datetime.fromisoformat(text)

    def open(
        self, select: str, rest: str, parameters: Sequence[Any], seconds: float | None = None
    ) -> "_Result":
        """See `Database`."""
        return _Result(self._connection, f"{select} {rest}", parameters, seconds)

    def close(self) -> None:
        """See `Database`."""
        self._connection.close()

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _told(f"cannot ask {self._address}"):
            return self._connection.execute(statement.encode(), parameters).fetchall()


class _Result:
    """A result by a cursor of the server: it is never in memory as a whole."""

    def __init__(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        statement: str,
        parameters: Sequence[Any],
        seconds: float | None,
    ) -> None:
        self._connection = connection
        connection.autocommit = False
        self._cursor = connection.cursor(name="tidings")
        try:
            with _told("a query failed"):
                if seconds is not None:
                    connection.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}".encode())
                self._cursor.execute(statement.encode(), parameters)
        except QueryError:
            self.close()
            raise
        self.columns = [_column(found) for found in self._cursor.description or ()]

    def fetch(self, rows: int) -> Sequence[Sequence[Any]]:
        """See `Result`."""
        with _told("a query failed"):
            return self._cursor.fetchmany(rows)

    def close(self) -> None:
        """See `Result`."""
        if self._connection.closed:
            self._cursor.close()
        else:
            with _told("a query cannot be ended"):
                try:
                    self._cursor.close()
                    self._connection.rollback()
                    self._connection.autocommit = True
                except psycopg.Error:
                    self._connection.close()  # the server is gone: psycopg lets go of a cursor only without it
                    self._cursor.close()
                    raise


def _column(found: psycopg.Column) -> Column:
    base = _ARRAYS.get(found.type_code)
    kind = _KINDS.get(found.type_code if base is None else base, "string")
    scale = found.scale
    return Column(
        found.name, kind, precision=found.precision, scale=0 if found.precision and scale is None else scale,
        array=base is not None,
    )  # fmt: skip
