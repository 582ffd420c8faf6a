"""The shop on MariaDB or MySQL: the one module of it that imports PyMySQL. Messages never hold a password or a row's values.

The tables are those of `schema.mariadb.sql`, in a database that stands for what PostgreSQL calls a schema.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pymysql
from pymysql.constants import ER, FIELD_TYPE
from pymysql.converters import conversions

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

SCHEMES: Final = ("mysql", "mariadb")
_HINT: Final = "mysql://user:password@host:port/database"
_SESSION: Final = "set session time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
_ISOLATION: Final = "set session transaction isolation level read committed"
"""MariaDB has a variable of MySQL's name for it from 11.1 on."""
_MARIADB: Final = re.compile(r"(\d+)\.(\d+)\.\d+-mariadb", re.IGNORECASE)
_FIRST_WITH_UUID: Final = (10, 7)
_NOTHING_MORE: Final = ("", "NULL")
"""Of a column; MySQL says the second of temporary tables."""
_CHANGED_SINCE_READ: Final = 1020
_CONFLICTS: Final = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, _CHANGED_SINCE_READ}
_WORDS_OF_CLIENT: Final = range(2000, 3000)
_WITHOUT_VALUES: Final = {
    *(ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, ER.NO_DB_ERROR),
    *(ER.DB_CREATE_EXISTS, ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR),
    ER.CON_COUNT_ERROR,
}
"""Errors whose words name users, databases and tables only; those of others may quote values."""


class MariaDbSession(Session):
    """A connection to MariaDB or MySQL, in UTC and READ COMMITTED, which is PostgreSQL's default too.

    Args:
        url: ``mysql://user:password@host:port/database``; ``mariadb://`` is the same. The server says which it is.

    Raises:
        ShopError: when it cannot be connected to (retry ``timed``), or the URL is none.
    """

    now = "now(6)"

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "localhost", parts.port or 3306
        except ValueError:
            raise ShopError("the database's URL cannot be read", hint=_HINT) from None
        database = unquote(parts.path.removeprefix("/"))
        self.name = f"{database or 'no database'} on {host}:{port}"
        self._depth = 0
        try:
            self._connection = pymysql.connect(
                host=host,
                port=port,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or "").encode(),  # as text it would be sent in latin1
                database=database or None,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                conv={**conversions, FIELD_TYPE.BIT: _read_bit, FIELD_TYPE.JSON: json.loads},
                init_command=_SESSION,
            )
            self.execute(_ISOLATION)
        except pymysql.MySQLError as error:
            raise ShopError(
                f"cannot connect to the database {self.name}: {_reason(error)}",
                hint="check --database",
                retry=Retry.TIMED,
            ) from error
        version = _MARIADB.search(str(self._connection.get_server_info()))
        self._has_uuids = version is not None and (int(version[1]), int(version[2])) >= _FIRST_WITH_UUID

    def close(self) -> None:
        """See `Session.close`."""
        if self._connection.open:
            self._connection.close()

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """See `Session.translated`."""
        try:
            yield
        except pymysql.MySQLError as error:
            number = _number(error)
            if isinstance(error, pymysql.IntegrityError) or number in _CONFLICTS:
                raise ConflictError from error
            if isinstance(error, pymysql.InterfaceError) or number in _WORDS_OF_CLIENT:
                raise ShopError(
                    f"lost the database {self.name}: could not {doing}: {_reason(error)}", retry=Retry.TIMED
                ) from error
            raise ShopError(f"the database {self.name} refuses to {doing}: {_reason(error)}") from error

    def execute(self, statement: str, values: Sequence[Cell] = ()) -> Result:
        """See `Session.execute`."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, [_given(value) for value in plain(values)] or None)
            return Result(cursor.fetchall() if cursor.description else (), cursor.rowcount)

    def insert(self, statement: str, values: Sequence[Cell]) -> int:
        """See `Session.insert`. MySQL has no RETURNING."""
        self.execute(statement, values)
        return int(self._connection.insert_id())

    @contextmanager
    def transaction(self, *, rollback: bool = False) -> Iterator[None]:
        """See `Session.transaction`."""
        depth, self._depth = self._depth, self._depth + 1
        begin, keep, undo = (
            (f"savepoint inner_{depth}", f"release savepoint inner_{depth}", f"rollback to inner_{depth}")
            if depth
            else ("begin", "commit", "rollback")
        )
        try:
            self.execute(begin)
            try:
                yield
            except BaseException:
                # The server may have rolled back by itself, or be away: what has happened is raised all the same.
                with contextlib.suppress(pymysql.MySQLError):
                    self.execute(undo)
                raise
            self.execute(undo if rollback else keep)
        finally:
            self._depth = depth

    def read(self, table: str) -> list[dict[str, object]]:
        """See `Session.read`. Moments are in UTC, BIT(1) is a boolean, JSON of MariaDB is the text that it
        keeps, and of MySQL the content, whose text is the server's."""
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"select * from {table}")  # noqa: S608 - a name of our own
            return list(cursor.fetchall())

    def create_database(self, name: str) -> None:
        """See `Session.create_database`."""
        self.execute(f"create database `{name.replace('`', '``')}`")

    def create_tables(self) -> None:
        """See `Session.create_tables`. Not in one transaction, which the servers do not have for definitions."""
        for statement in self._statements():
            self.execute(statement)

    def present(self) -> Shape:
        """See `Session.present`."""
        there = {row[0] for row in self.execute("show tables").rows}
        return {table: self._columns(table) for table in TABLES if table in there}

    def wanted(self) -> Shape:
        """See `Session.wanted`: as temporary tables, which hide those of their names and are not logged."""
        made = []
        try:
            for table in TABLES:
                (statement,) = (one for one in self._statements() if one.startswith(f"create table {table} "))
                self.execute(statement.replace("create table", "create temporary table", 1))
                made.append(table)
            return {table: self._columns(table) for table in TABLES}
        finally:
            for table in made:
                self.execute(f"drop temporary table {table}")

    def _columns(self, table: str) -> dict[str, Column]:
        rows = self.execute(f"show columns from {table}").rows
        return {
            name: Column(kind, null == "NO", default is not None or extra not in _NOTHING_MORE)
            for name, kind, null, _, default, extra in rows
        }

    def _statements(self) -> list[str]:
        """Those of the package's own file, which has no semicolon but at the end of one."""
        text = files("tidings_shop").joinpath("schema.mariadb.sql").read_text("utf-8")
        text = re.sub(r"--.*", "", text)
        if not self._has_uuids:
            text = re.sub(r"\buuid\b", "char(36)", text)
        return [one.strip() for one in text.split(";") if one.strip()]

    def log_reader(self, name: str) -> LogReader | None:  # noqa: ARG002 - nobody has a name here
        """See `Session.log_reader`: the server streams its log to somebody, behind a snapshot that has ended."""
        commands = [str(row[4]) for row in self.execute("show processlist").rows]
        if not any(command.startswith("Binlog Dump") for command in commands):
            return None
        retained = sum(int(row[1]) for row in self.execute("show binary logs").rows)
        return LogReader(consistent=True, active=True, retained_bytes=retained, unconfirmed_bytes=None)


def _given(value: Cell) -> Any:
    if isinstance(value, Json):
        return json.dumps(value.value, ensure_ascii=False)
    return str(value) if isinstance(value, UUID) else value


def _read_bit(value: bytes) -> bool | bytes:
    """A BIT(1), which is all that the shop has, as a boolean."""
    return value == b"\x01" if len(value) == 1 else value


def _number(error: pymysql.MySQLError) -> int | None:
    return error.args[0] if error.args and isinstance(error.args[0], int) else None


def _reason(error: pymysql.MySQLError) -> str:
    """The client's words, or the server's where they hold no values; else the error's number."""
    number = _number(error)
    if len(error.args) > 1 and (number in _WORDS_OF_CLIENT or number in _WITHOUT_VALUES):
        return f"{error.args[1]} ({number})"
    return type(error).__name__ if not number else f"the server's error {number}"
