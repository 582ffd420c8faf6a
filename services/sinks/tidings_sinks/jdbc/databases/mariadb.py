"""MariaDB and MySQL, by PyMySQL. The session is strict, so that no value is cut off, rounded to a bound or replaced by a zero in silence.

A statement that changes a table's definition commits what is open; the engine runs such statements by themselves. Where it is
said which rows a statement takes, matched rows are counted, not changed ones (``CLIENT_FOUND_ROWS``).
"""

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import pymysql
from pymysql.constants import CLIENT, CR, ER
from pymysql.cursors import Cursor

from tidings_connect.data.subscription import TopicPartition
from tidings_sinks.errors import BusyError, DataProblemError, LostError, TargetError
from tidings_sinks.jdbc.database import Column, Encode, Mode, MovedError, NewColumn, Row, TableName, Write
from tidings_sinks.jdbc.databases import mariadb_sql as sql
from tidings_sinks.jdbc.databases import mariadb_values as values
from tidings_sinks.jdbc.databases.mariadb_servers import server_of
from tidings_sinks.jdbc.kinds import Kind
from tidings_sinks.jdbc.mariadb_tls import tls_options
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.positions import Claim

_CONNECT_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 120
_LOCK_SECONDS: Final = 10
_MOST_NAME: Final = 64
_DELETED_AT_ONCE: Final = 200
_LOST: Final = frozenset(
    {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, ER.SERVER_SHUTDOWN,
     ER.NEW_ABORTING_CONNECTION, 1927, 3169, 4031}
)  # fmt: skip
"""1927 and 3169: the connection was killed; 4031: the server has closed it, because nothing came."""
_BUSY: Final = frozenset(
    {ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.CON_COUNT_ERROR, ER.OPTION_PREVENTS_STATEMENT, ER.DISK_FULL,
     ER.RECORD_FILE_FULL, ER.CANT_CREATE_THREAD, ER.QUERY_INTERRUPTED, 1836, 1969, 3024}
)  # fmt: skip
"""1836: read only; 1969 and 3024: a statement took too long."""
_MOVED: Final = frozenset({ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.BAD_TABLE_ERROR})
_OF_DATA: Final = frozenset(
    {ER.DUP_ENTRY, ER.BAD_NULL_ERROR, ER.NO_DEFAULT_FOR_FIELD, ER.WARN_DATA_OUT_OF_RANGE, ER.DATA_TOO_LONG,
     ER.TRUNCATED_WRONG_VALUE, ER.TRUNCATED_WRONG_VALUE_FOR_FIELD, ER.NO_REFERENCED_ROW, ER.NO_REFERENCED_ROW_2,
     ER.ROW_IS_REFERENCED, ER.ROW_IS_REFERENCED_2, ER.NET_PACKET_TOO_LARGE, ER.ILLEGAL_VALUE_FOR_TYPE,
     ER.WARN_NULL_TO_NOTNULL, 1644, 1265, 1366, 1411, 1690, 1977, 3140, 3819, 3854, 4025, 4038}
)  # fmt: skip
"""1644: SIGNAL of a trigger; 1265 to 1411 and 3854: a value is none of the column's; 1690: it is out of range; 3819 and 4025: a CHECK;
3140 and 4038: JSON."""
_REFUSED_LOGIN: Final = {
    ER.ACCESS_DENIED_ERROR: "correct the user and connection.password, or grant the user access from here; or, where the server asks for"
    " TLS, do without sslMode=disable in connection.url",
    ER.DBACCESS_DENIED_ERROR: "grant the user rights on the database of connection.url",
    ER.BAD_DB_ERROR: "correct the database's name in connection.url, or create it",
    ER.HOST_NOT_PRIVILEGED: "let the server's users log in from this host",
    1698: "correct the user and connection.password: the user may log in by another way only",
    3159: "the server asks for TLS: do without sslMode=disable in connection.url",
}
_TLS_ERROR: Final = 2026
_PLACE: Final = re.compile(
    r"(?:for key '(?:[^'`]*\.)?([^'`.]*)'|olumn [`'.\w]*?[`']([^`']+)[`'](?: at row \d+)?)$"
)
"""Of a message the name at its end, of a key without MySQL's table; what stands before it may hold a value."""
_UNIQUE: Final = """
SELECT index_name, group_concat(coalesce(column_name, '') ORDER BY seq_in_index SEPARATOR '\\n')
FROM information_schema.statistics
WHERE table_schema = coalesce(%s, database()) AND table_name = %s AND non_unique = 0 GROUP BY index_name"""
_T = TypeVar("_T")


class MariaDbDatabase:
    """A `Database`.

    Raises:
        LostError: it cannot be reached.
        TargetError: the login is refused, the database is not there, or the server is too old.
    """

    def __init__(self, settings: Settings) -> None:
        given = settings.address.parameters
        if "database" not in given:
            raise TargetError(
                "connection.url names no database",
                hint="jdbc:mariadb://host:port/database, or jdbc:mysql:",
            )
        try:
            self._connection = pymysql.connect(
                host=given.get("host", "localhost"),
                port=int(given.get("port", "3306")),
                user=settings.user,
                password=settings.password.encode(),  # as text it would be sent in latin1
                database=given["database"],
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.FOUND_ROWS,
                connect_timeout=int(given.get("connect_timeout", _CONNECT_SECONDS)),
                read_timeout=_ANSWER_SECONDS,
                write_timeout=_ANSWER_SECONDS,
                program_name="tidings-sink",
                **tls_options(given),
            )
        except pymysql.Error as error:
            raise _refused(error) from None
        except OSError as error:
            raise TargetError(
                f"a file of connection.url for TLS cannot be used ({type(error).__name__})",
                hint="serverSslCert, sslcert and sslkey name files in PEM",
            ) from None
        self.version = str(self._connection.get_server_info())
        self.server = server_of(self.version)
        self._in_transaction = False
        self._locked: str | None = None
        self._unique: dict[TableName, list[frozenset[str]]] = {}
        schema, _, name = settings.positions.rpartition(".")
        self._positions = sql.quoted(TableName(schema or None, name))
        try:
            self._begin_session()
        except BaseException:
            self.close()
            raise

    def _begin_session(self) -> None:
        if self.server.is_mysql and self.server.is_newer_than(self.version):
            raise TargetError(
                f"the server of connection.url is MySQL {self.version}, and nothing older than 8.0.17 can be written:"
                " it has no collation that tells all texts apart",
                hint="upgrade the server",
            )
        for statement in self.server.session:
            self._execute(statement)

    def close(self) -> None:
        with suppress(pymysql.Error, OSError):
            self._connection.close()

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of any statement."""
        return self._rows(statement, ())

    def begin(self) -> None:
        for statement in self.server.begin:
            self._execute(statement)
        self._in_transaction = True

    def commit(self) -> None:
        self._execute("COMMIT")
        self._ended()

    def rollback(self) -> None:
        if self._in_transaction and self._connection.open:
            self._execute("ROLLBACK")
            self._ended()

    def _ended(self) -> None:
        self._in_transaction = False
        if self._locked is not None:
            name, self._locked = self._locked, None
            self._rows("SELECT RELEASE_LOCK(%s)", (name,))
        for statement in self.server.ended:
            self._execute(statement)

    def savepoint(self) -> None:
        self._execute("SAVEPOINT row_")

    def release(self) -> None:
        self._execute("RELEASE SAVEPOINT row_")

    def back_to_savepoint(self) -> None:
        self._execute("ROLLBACK TO SAVEPOINT row_")
        self._execute("RELEASE SAVEPOINT row_")

    def name(self, parts: Sequence[str], *, quotes: bool) -> TableName:  # noqa: ARG002 - names are not folded
        *schema, table = parts
        if len(table) > _MOST_NAME:
            raise TargetError(
                f"the table's name {table} has more than {_MOST_NAME} characters, which {self.server.title} does not take",
                hint="choose a shorter name of tables",
            )
        return TableName(schema[0] if schema else None, table)

    def column_name(self, field: str, known: Mapping[str, Column], *, quotes: bool) -> str:  # noqa: ARG002
        return next((name for name in known if name.lower() == field.lower()), field)

    def columns(self, table: TableName) -> Mapping[str, Column]:
        found = self._rows(self.server.columns, table)
        engine = found[0][3] if found else None
        if engine not in {None, "InnoDB"}:
            raise TargetError(
                f"table {table} is of the engine {engine}, which has no transactions: a crash would write rows twice",
                hint="ALTER TABLE ... ENGINE=InnoDB",
            )
        self._unique[table] = [
            frozenset(names.lower().split("\n")) for _, names in self._rows(_UNIQUE, table)
        ]
        return {name: Column(name, kind, bool(generated)) for name, kind, generated, _ in found}

    def lock_schema(self, table: TableName) -> None:
        # A change of a table's definition commits, so that the lock must outlast the transaction.
        name = f"tidings-sink {table}"[-_MOST_NAME:]
        if self._rows("SELECT GET_LOCK(%s, %s)", (name, _LOCK_SECONDS))[0][0] != 1:
            raise BusyError(f"somebody else changes the columns of {table}")
        self._locked = name

    def create(self, table: TableName, columns: Sequence[NewColumn], keys: int) -> None:
        if table.schema is not None:
            known = self._rows(
                "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (table.schema,)
            )
            if not known:
                raise TargetError(f"there is no database {table.schema} on the server", hint="create it")
        self._execute(sql.create_table(self.server, table, columns, keys), ())

    def add_columns(self, table: TableName, columns: Sequence[NewColumn]) -> None:
        self._execute(sql.add_columns(self.server, table, columns), ())

    def encoder(self, kind: Kind, column: str | None, zone: ZoneInfo) -> Encode | None:
        return values.encoder(kind, column, zone)

    def untyped_encoder(self, column: str) -> Encode:
        return values.untyped_encoder(column)

    def write(self, form: Write, rows: Sequence[Row]) -> None:
        for text, order, many in sql.statements(form, by_other_keys=self._has_other_keys(form)):
            given = rows if order is None else [[row[place] for place in order] for row in rows]
            self._many(text, given, at_once=many)

    def _has_other_keys(self, form: Write) -> bool:
        """Whether something else than the key of an upsert must be unique.

        Raises:
            TargetError: the key itself need not be.
        """
        if form.mode is not Mode.UPSERT:
            return False
        key = frozenset(column.name.lower() for column in form.columns[: form.keys])
        unique = self._unique.get(form.table, [])
        if key not in unique:
            raise TargetError(
                f"table {form.table} has no unique key on {', '.join(sorted(key))}, so that rows would be written twice",
                hint="give the table a primary key or a unique index on the columns of its key",
            )
        return any(one != key for one in unique)

    def write_columns(self, form: Write, columns: Sequence[Sequence[Any]]) -> None:
        self.write(form, list(zip(*columns, strict=True)))

    def delete(self, table: TableName, keys: tuple[Column, ...], rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _DELETED_AT_ONCE):
            some = rows[start : start + _DELETED_AT_ONCE]
            values_of_keys = [value for row in some for value in row]
            self._execute(sql.delete(table, keys, len(some)), values_of_keys)

    def truncate(self, table: TableName) -> None:
        self._execute(f"DELETE FROM {sql.quoted(table)}", ())  # noqa: S608 - quoted; TRUNCATE would commit

    def make_positions(self) -> None:
        self._execute(sql.create_positions(self.server, self._positions))

    def claim(self, group: str, at: TopicPartition) -> Claim:
        self._execute(
            f"INSERT INTO {self._positions} (consumer_group, topic, `partition`, epoch) VALUES (%s, %s, %s, 1)"  # noqa: S608 - quoted
            " ON DUPLICATE KEY UPDATE epoch = epoch + 1",
            (group, at.topic, at.partition),
        )
        found = self.position(group, at)
        if found is None:
            raise BusyError("the position of a partition was removed just now")
        return found

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        found = self._rows(
            f"SELECT next_offset, epoch FROM {self._positions}"  # noqa: S608 - quoted
            " WHERE consumer_group = %s AND topic = %s AND `partition` = %s",
            (group, at.topic, at.partition),
        )
        return Claim(*found[0]) if found else None

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        statement = (
            f"UPDATE {self._positions} SET next_offset = %s"  # noqa: S608 - quoted
            " WHERE consumer_group = %s AND topic = %s AND `partition` = %s AND epoch = %s"
        )
        given = [(offset, group, at.topic, at.partition, epoch) for at, epoch, offset in moves]
        return self._many(statement, given, at_once=False)

    def alter(self, group: str, at: TopicPartition, offset: int | None) -> None:
        self._execute(
            f"INSERT INTO {self._positions} (consumer_group, topic, `partition`, next_offset, epoch)"  # noqa: S608 - quoted
            " VALUES (%s, %s, %s, %s, 1) ON DUPLICATE KEY UPDATE next_offset = VALUES(next_offset), epoch = epoch + 1",
            (group, at.topic, at.partition, offset),
        )

    def forget(self, group: str) -> None:
        self._execute(
            f"UPDATE {self._positions} SET next_offset = NULL, epoch = epoch + 1 WHERE consumer_group = %s",  # noqa: S608 - quoted
            (group,),
        )

    # Statements

    def _execute(self, statement: str, given: Sequence[object] | None = None) -> None:
        self._asked(lambda cursor: cursor.execute(statement, given))

    def _many(self, statement: str, rows: Sequence[Row], *, at_once: bool) -> int:
        """How many rows it took."""
        if at_once:  # the driver makes statements of many rows
            return self._asked(lambda cursor: int(cursor.executemany(statement, rows) or 0))
        return self._asked(lambda cursor: sum(int(cursor.execute(statement, row)) for row in rows))

    def _rows(self, statement: str, given: Sequence[object]) -> list[tuple[Any, ...]]:
        def ask(cursor: Cursor) -> list[tuple[Any, ...]]:
            cursor.execute(statement, given)
            return list(cursor.fetchall())

        return self._asked(ask)

    def _asked(self, ask: Callable[[Cursor], _T]) -> _T:
        try:
            with self._connection.cursor() as cursor:
                return ask(cursor)
        except UnicodeEncodeError:  # half a surrogate pair
            raise DataProblemError("a text is not valid Unicode") from None
        except pymysql.Error as error:
            translated = _translated(error, self.server.title)
            if isinstance(translated, LostError):
                self.close()
            raise translated from None  # the server's words repeat values


def _number(error: pymysql.Error) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _refused(error: pymysql.Error) -> Exception:
    """The error of a login."""
    number = _number(error)
    if isinstance(getattr(error, "original_exception", None), ssl.SSLError) or number == _TLS_ERROR:
        return TargetError(
            "there is no TLS with the server as connection.url asks for it",
            hint="correct sslMode and serverSslCert, or the server's certificate",
        )
    if number in _REFUSED_LOGIN:
        return TargetError(f"the server refused the login (error {number})", hint=_REFUSED_LOGIN[number])
    return LostError("the server cannot be reached at connection.url")


def _translated(error: pymysql.Error, title: str) -> Exception:
    """An error of a statement, in words without values."""
    number = _number(error)
    words = str(error.args[1]) if len(error.args) > 1 else ""
    if number in _LOST or isinstance(error, pymysql.InterfaceError):
        return LostError(f"the connection to {title} was lost (error {number})")
    if number == 0:
        return DataProblemError(f"the driver refused a value ({type(error).__name__})")
    if number in _OF_DATA or isinstance(error, pymysql.DataError | pymysql.IntegrityError):
        place = _PLACE.search(words)
        name = next((part for part in place.groups() if part), "") if place else ""
        return DataProblemError(f"{title} refused the row: error {number}{f' of {name}' if name else ''}")
    if number in _BUSY:
        return BusyError(f"{title} is busy (error {number})")
    if number in _MOVED:
        return MovedError(f"{title}: {words}")
    hint = "grant it to the user" if number in {ER.TABLEACCESS_DENIED_ERROR, 1143, 1044} else None
    return TargetError(f"{title} refused a statement (error {number}): {words}", hint=hint)
