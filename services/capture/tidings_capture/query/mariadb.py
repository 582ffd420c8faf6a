"""MariaDB and MySQL, as a query source reads them. Through PyMySQL."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import pymysql
from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.converters import encoders
from pymysql.cursors import SSCursor

from tidings_capture.cdc.server_errors import is_passing
from tidings_capture.cdc.tls import tls_context
from tidings_capture.query.address import Address
from tidings_capture.query.columns import Column
from tidings_capture.query.database import TableFacts, TableId
from tidings_capture.query.errors import QueryError
from tidings_service.errors import Retry

_MOST_STATEMENTS: Final = 5_000
"""Of which it is remembered what is FLOAT in them."""
_BINARY: Final = 63
"""The number of the character set of bytes."""
_VECTOR: Final = 242
"""MySQL's VECTOR in the protocol, which PyMySQL takes for digits."""
_MANUAL: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
"""Refused for want of a right: the same tomorrow."""
_NO_TABLE: Final = 1146
"""It may not be there yet."""
_TELLING: Final = _MANUAL | frozenset({1040, 1049, 1054, 1060, 1064, _NO_TABLE, 1203, 1226})
"""Of connections and names; the words of others may quote a value."""
_WHOLE: Final[Mapping[int, tuple[str, str]]] = {
    FIELD_TYPE.TINY: ("int8", "int16"),
    FIELD_TYPE.SHORT: ("int16", "int32"),
    FIELD_TYPE.INT24: ("int32", "int32"),
    FIELD_TYPE.LONG: ("int32", "int64"),
    FIELD_TYPE.LONGLONG: ("int64", "int64"),
}
"""With a sign, and without."""
_KINDS: Final[Mapping[int, str]] = {
    FIELD_TYPE.FLOAT: "float32",
    FIELD_TYPE.DOUBLE: "float64",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.YEAR: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.DATETIME: "timestamp",
    FIELD_TYPE.TIMESTAMP: "timestamptz",
    FIELD_TYPE.GEOMETRY: "bytes",
    FIELD_TYPE.JSON: "string",  # MySQL says of its column that it has no character set, and sends text
    _VECTOR: "bytes",
}
"""All others are text, or bytes where they have no character set."""
_TABLES: Final = """
SELECT table_schema, table_name, table_type FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') AND (%s = '' OR table_schema = %s)
ORDER BY 1, 2
"""
_TYPES: Final[Mapping[str, str]] = {"BASE TABLE": "TABLE", "SYSTEM VERSIONED": "TABLE", "VIEW": "VIEW"}
_COLUMNS: Final = """
SELECT c.column_name, c.is_nullable = 'YES', c.extra LIKE '%%auto_increment%%', k.ordinal_position,
       c.data_type IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'decimal', 'date', 'datetime')
       OR (c.character_set_name IN ('ascii', 'utf8', 'utf8mb3', 'utf8mb4')
           AND (c.collation_name LIKE '%%~_nopad~_bin' ESCAPE '~' OR c.collation_name = 'utf8mb4_0900_bin'))
FROM information_schema.columns c LEFT JOIN information_schema.key_column_usage k
ON k.constraint_name = 'PRIMARY' AND k.table_schema = c.table_schema AND k.table_name = c.table_name
   AND k.column_name = c.column_name
WHERE c.table_schema = %s AND c.table_name = %s ORDER BY c.ordinal_position
"""


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except pymysql.err.MySQLError as error:
        raise _ours(what, error) from None
    except OSError as error:  # TLS among them
        raise QueryError(f"{what}: {error.strerror or type(error).__name__}") from error


def _ours(what: str, error: pymysql.err.MySQLError) -> QueryError:
    number = error.args[0] if error.args and isinstance(error.args[0], int) and error.args[0] else None
    words = str(error.args[1]) if len(error.args) > 1 else type(error).__name__
    if number is None or 2000 <= number < 3000 or number in _TELLING:
        what = f"{what}: {words}" + (f" ({number})" if number else "")
    else:
        what = f"{what}: the server answered with its error {number}"
    passing = is_passing(number) or number == _NO_TABLE
    return QueryError(what, retry=Retry.TIMED if passing else Retry.MANUAL)


class MariaDb:
    """A connection to MariaDB or MySQL.

    Args:
        catalog: the only database whose tables are read; empty: the address's, or all where it names none.
        zone: of DATETIME, which has none.
    """

    def __init__(self, address: Address, zone: ZoneInfo, catalog: str) -> None:
        self._address = address
        self._zone = zone
        self._catalog = catalog or address.database
        self._connection: pymysql.Connection[Any] | None = None
        self._seconds = 0.0
        """How long the connection lets a statement take; 0: as long as it likes."""
        self._floats: dict[str, tuple[str, ...]] = {}
        """The columns that are FLOAT, by statement, as its last result had them."""
        self._is_mariadb = True
        self._session()

    @property
    def tick(self) -> timedelta:
        """See `Database`."""
        return timedelta(microseconds=1)

    def now(self) -> datetime:
        """See `Database`."""
        ((text,),) = self._rows("SELECT UTC_TIMESTAMP(6)")
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    def tables(self, kinds: frozenset[str]) -> Sequence[TableId]:
        """See `Database`. A database is JDBC's catalog."""
        rows = self._rows(_TABLES, [self._catalog, self._catalog])
        return [TableId(database, "", name) for database, name, kind in rows if _TYPES.get(kind) in kinds]

    def facts(self, table: TableId) -> TableFacts:
        """See `Database`."""
        rows = self._rows(_COLUMNS, [table.catalog, table.name])
        return TableFacts(
            [Column(name, "", nullable=bool(int(nullable))) for name, nullable, *_ in rows],
            [row[0] for row in sorted((row for row in rows if row[3]), key=lambda row: int(row[3]))],
            [name for name, _nullable, counted, *_ in rows if int(counted)],
            frozenset(name for name, _nullable, _counted, _place, ordered in rows if int(ordered or 0)),
        )

    def quoted(self, name: str) -> str:
        """See `Database`."""
        return "`" + name.replace("`", "``").replace("%", "%%") + "`"

    def named(self, table: TableId) -> str:
        """See `Database`."""
        return f"{self.quoted(table.catalog)}.{self.quoted(table.name)}"

    def moment(self, columns: Sequence[str]) -> str:
        """See `Database`."""
        return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"

    def parameter(self, moment: datetime, *, zoned: bool) -> str:
        """See `Database`. The session is in UTC."""
        local = moment.astimezone(UTC if zoned else self._zone)
        return local.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")

    def late(self) -> str:
        """See `Database`: it does not tell by which transaction a row was written."""
        return "false"

    def oldest(self) -> datetime | None:
        """See `Database`."""
        return None

    def open(
        self, select: str, rest: str, parameters: Sequence[Any], seconds: float | None = None
    ) -> "_Result":
        """See `Database`. The server writes FLOAT with six digits only, so that one is read as a DOUBLE beside it.

        Which columns are FLOAT is asked once for each statement. A result describes its own columns, so that one whose table was
        altered meanwhile is known by that, and is opened anew.
        """
        self._limit(seconds or 0.0)
        floats = self._floats.get(select)
        result = None
        if floats is not None:
            try:
                result = self._run(select, rest, parameters, floats)
            except QueryError:
                if not floats or self._connection is None or self._floating(select) == floats:
                    raise  # no column that we name is gone
        while result is None or result.floats != floats:
            if result is not None:
                result.close()
                self._limit(seconds or 0.0)  # the connection may be another one
            floats = self._floating(select)
            result = self._run(select, rest, parameters, floats)
        if len(self._floats) >= _MOST_STATEMENTS:
            self._floats.clear()
        self._floats[select] = floats or ()
        return result

    def _run(self, select: str, rest: str, parameters: Sequence[Any], floats: Sequence[str]) -> "_Result":
        """The result of a statement, with the columns behind its own that hold those FLOATs exactly."""
        if floats:
            exact = ", ".join(
                f"CAST({self.quoted(name)} AS DOUBLE) AS tidings_exact_{number}"
                for number, name in enumerate(floats)
            )
            select = f"SELECT tidings_exact.*, {exact} FROM ({select}) AS tidings_exact"  # noqa: S608 - quoted
        return _Result(self._session(), f"{select} {rest}", parameters, len(floats), self._drop)

    def close(self) -> None:
        """See `Database`."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None

    def _floating(self, select: str) -> tuple[str, ...]:
        """The names of a statement's columns that are FLOAT."""
        with _told("a query failed"), self._session().cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({select}) AS tidings_described LIMIT 0", ())  # noqa: S608
            return _floats([_column(found) for found in cursor._result.fields or ()])  # noqa: SLF001 - signs are told nowhere else

    def _limit(self, seconds: float) -> None:
        """Let statements take so long; 0: as long as they like."""
        self._session()  # a new one has no limit
        if seconds != self._seconds:
            limit = (
                f"max_statement_time = {seconds:f}"
                if self._is_mariadb
                else f"max_execution_time = {seconds * 1000:.0f}"
            )
            self._rows(f"SET SESSION {limit}")
            self._seconds = seconds

    def _session(self) -> "pymysql.Connection[Any]":
        if self._connection is None:
            given = self._address.parameters
            mode = given.get("sslmode", "disable")
            with _told(f"cannot connect to {self._address}"):
                self._connection = pymysql.connect(
                    host=given["host"],
                    port=int(given["port"]),
                    user=given.get("user"),
                    password=given.get("password", "").encode(),  # as text it would be sent in latin1
                    database=self._address.database or None,
                    charset="utf8mb4",
                    autocommit=True,
                    connect_timeout=int(given.get("connect_timeout", "10")),
                    ssl=tls_context(mode, given.get("sslrootcert")),
                    ssl_disabled=mode == "disable",
                    conv=dict(encoders),  # and no decoders
                    init_command="SET SESSION time_zone = '+00:00', net_write_timeout = 600",
                )
                self._connection.query("SET SESSION TRANSACTION READ ONLY")
                self._seconds = 0.0
            self._is_mariadb = "mariadb" in str(self._connection.get_server_info()).lower()
        return self._connection

    def _drop(self) -> None:
        """Give the connection up: the server is in the midst of sending a result that nobody will read."""
        if self._connection is not None:
            self._connection._force_close()  # noqa: SLF001 - `close` would read the result to its end
            self._connection = None

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _told(f"cannot ask {self._address}"), self._session().cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return list(cursor.fetchall())


class _Result:
    """A result that the server sends bit by bit.

    Args:
        exact: how many of its last columns stand for the FLOATs before them, in order.
    """

    def __init__(
        self,
        connection: "pymysql.Connection[Any]",
        statement: str,
        parameters: Sequence[Any],
        exact: int,
        drop: Callable[[], None],
    ) -> None:
        self._drop = drop
        self._ended = False
        self._cursor = connection.cursor(SSCursor)
        with _told("a query failed"):
            self._cursor.execute(statement, tuple(parameters))
        result = self._cursor._result  # noqa: SLF001 - signs are told nowhere else
        fields = result.fields or ()
        for place, found in enumerate(fields):
            if found.type_code == _VECTOR:
                result.converters[place] = (None, None)
        count = len(fields) - exact
        self.columns = [_column(found) for found in fields[:count]]
        self.floats = _floats(self.columns)
        """The columns that are FLOAT; with `exact` others than those that stand for them, the result is of no use."""
        behind = iter(range(count, len(fields)))
        self._cells = [
            (next(behind, place) if column.kind == "float32" else place, _reader(column, found.type_code))
            for place, (column, found) in enumerate(zip(self.columns, fields[:count], strict=True))
        ]
        """Where each column's cell is, and how it is read."""

    def fetch(self, rows: int) -> Sequence[Sequence[Any]]:
        """See `Result`."""
        with _told("a query failed"):
            found = self._cursor.fetchmany(rows)
        self._ended = len(found) < rows
        cells = self._cells
        return [[None if row[place] is None else read(row[place]) for place, read in cells] for row in found]

    def close(self) -> None:
        """See `Result`."""
        if self._ended:
            with _told("a query cannot be ended"):
                self._cursor.close()
        else:
            self._drop()
            self._cursor._result.unbuffered_active = False  # noqa: SLF001 - or PyMySQL would read on when it is freed
            self._cursor.connection = None


def _column(found: Any) -> Column:
    kind = found.type_code
    if kind in _WHOLE:
        signed, unsigned = _WHOLE[kind]
        return Column(found.name, unsigned if found.flags & FLAG.UNSIGNED else signed)
    if kind in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
        return Column(found.name, "numeric", precision=_digits(found), scale=found.scale)
    if kind == FIELD_TYPE.BIT:
        return Column(found.name, "int8" if found.length == 1 else "bytes")
    named = _KINDS.get(kind) or ("bytes" if found.charsetnr == _BINARY else "string")
    return Column(found.name, named)


def _floats(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns if column.kind == "float32")


def _digits(found: Any) -> int:
    """Of a DECIMAL, from how long its text may be: with a sign, and a point."""
    return int(found.length) - (0 if found.flags & FLAG.UNSIGNED else 1) - (1 if found.scale else 0)


def _reader(column: Column, kind: int) -> Callable[[Any], Any]:
    """How a cell's text (or its bytes) is read; `kind` is the protocol's type."""
    if column.kind.startswith("int"):
        return _bits if kind == FIELD_TYPE.BIT else int
    if column.kind.startswith("float"):
        return float
    if column.kind == "numeric":
        return Decimal
    if column.kind == "timestamptz":
        return lambda text: f"{text}+00:00"  # the session is in UTC
    if kind == FIELD_TYPE.YEAR:
        return lambda text: f"{text}-01-01"
    return _same


def _bits(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _same(value: Any) -> Any:
    return value
