"""A MariaDB or a MySQL, as an audit reads it; the only module of the lakehouse that imports PyMySQL."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.converters import encoders
from pymysql.cursors import Cursor

from tidings_lakehouse.auditing.binlog_columns import BinlogColumn, literal, quoted, row_checksum
from tidings_lakehouse.auditing.columns import AuditColumn
from tidings_lakehouse.auditing.source import Row, Sees, T
from tidings_lakehouse.errors import DatabaseError
from tidings_service import SettingsError

CONNECT_SECONDS = 10
_ANSWER_SECONDS = 30
"""Behind the time limit of a statement, within which the server ends it."""
_TOO_LONG = frozenset({1969, 3024})
"""MariaDB's and MySQL's."""
_TOLD = frozenset({1044, 1045, 1049, 1129, 1130, 1142, 1143, 1203, 1226, 1698, 3159})
"""Errors of connections and rights: the words of others may quote a value."""
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable, numeric_precision FROM information_schema.columns
WHERE table_schema = {} AND table_name = {} ORDER BY ordinal_position
"""
_HINT = "see that the database is there, and that the user may read"


@contextmanager
def connection(setting: str, url: str, *, timeout: float) -> Iterator[pymysql.Connection[Any]]:
    """A connection for reading, in UTC.

    Args:
        setting: the variable that names the database, for messages.
        url: ``mariadb://user:password@host:port/?sslmode=verify-full&sslrootcert=FILE``, with libpq's words for TLS; or ``mysql://``.
        timeout: seconds after which a statement is given up.

    Raises:
        SettingsError: the URL is not of its form.
        DatabaseError: the database does not answer or refuses a statement; holds no value of a row.
    """
    given = _parameters(setting, url)
    try:
        found = pymysql.connect(
            **given,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=timeout + _ANSWER_SECONDS,
            write_timeout=_ANSWER_SECONDS,
            program_name="tidings-lakehouse",
            conv=dict(encoders),  # and no decoders: values come as texts
            init_command="SET SESSION time_zone = '+00:00', sql_mode = ''",
        )
        try:
            yield found
        finally:
            found.close()
    except pymysql.err.MySQLError as error:
        raise _error(setting, error) from None  # its words may quote a value
    except OSError as error:
        raise DatabaseError(f"{setting}: {error.strerror or type(error).__name__}", hint=_HINT) from error


class BinlogServer(ABC):
    """See `Server`: what MariaDB and MySQL have in common."""

    column: ClassVar[type[BinlogColumn]]
    digest: ClassVar[str]
    """See `Server`."""
    digits: ClassVar[str]
    """See `row_checksum`."""

    def __init__(
        self, connection: pymysql.Connection[Any], *, timeout: float, domain: int | None = None
    ) -> None:
        """Args: domain: MariaDB's, whose commits the lake has; None: it does not know of one."""
        self._connection, self.domain = connection, domain
        self.read(self.limit(timeout))
        self.read("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    @staticmethod
    @abstractmethod
    def limit(seconds: float) -> str:
        """Limits the time of a statement."""

    @abstractmethod
    def in_snapshot(self, table: str, look: Callable[[], T]) -> tuple[Sees, T, int]:
        """See `Server`."""

    def columns(self, schema: str, table: str) -> Mapping[str, BinlogColumn]:
        """See `Server`."""
        found = self.read(_COLUMNS.format(literal(schema), literal(table)))
        return {
            name: self.column(name, type_, declared, nullable == "YES", int(precision or 0))
            for name, type_, declared, nullable, precision in found
        }

    def name(self, schema: str, table: str) -> str:
        """See `Server`."""
        return f"{quoted(schema)}.{quoted(table)}"

    def literal(self, value: Any) -> str:
        """See `Server`."""
        return literal(value)

    def checksum(self, columns: Sequence[AuditColumn]) -> str:
        """See `Server`."""
        return row_checksum(columns, self.digits)

    def read(self, statement: str) -> list[Row]:
        """See `Server`."""
        with self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement)
            return [tuple(map(_text, row)) for row in cursor.fetchall()]


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _parameters(setting: str, url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    mode = options.pop("sslmode", "prefer")
    authority = options.pop("sslrootcert", None)
    try:
        port = parts.port or 3306
    except ValueError:
        port = 0
    if options or mode not in _MODES or not parts.hostname or not parts.username or not port:
        raise SettingsError(
            f"{setting} is not a URL of a MariaDB or a MySQL",
            hint="mariadb://user:password@host:3306/?sslmode=verify-full&sslrootcert=FILE, or mysql://; sslmode is one of "
            + ", ".join(_MODES),
        )
    found: dict[str, Any] = {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username),
        "password": unquote(parts.password or "").encode(),  # as text it would be sent in latin1
    }
    if mode == "disable":
        found["ssl_disabled"] = True
    elif mode != "prefer":
        try:
            context = ssl.create_default_context(cafile=authority)
        except OSError as error:
            raise SettingsError(f"{setting}: sslrootcert: {error.strerror}") from error
        context.check_hostname = mode == "verify-full"
        if mode == "require":
            context.verify_mode = ssl.CERT_NONE
        found["ssl"] = context
    return found


def _error(setting: str, error: pymysql.err.MySQLError) -> DatabaseError:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    words = str(error.args[1]) if len(error.args) > 1 else type(error).__name__
    if number in _TOO_LONG:
        words = "a statement took longer than its time limit"
    elif number is not None and not 2000 <= number < 3000 and number not in _TOLD:
        words = "the server refuses a statement"
    return DatabaseError(f"{setting}: {words} ({number})", hint=_HINT)
