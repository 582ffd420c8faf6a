"""MariaDB, as an audit reads it; the only module of the lakehouse that imports PyMySQL.

A consistent snapshot tells where the binary log stands at it, and so the last transaction that it shows: by its GTID's sequence
number, which is the ``tx_id`` of the lake's log, and by its position (`tidings_envelope.gtid`). A replica tells so with
``log_slave_updates``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.converters import encoders
from pymysql.cursors import Cursor

from tidings_envelope.gtid import Gtid, gtid_of
from tidings_lakehouse.auditing.columns import AuditColumn
from tidings_lakehouse.auditing.mariadb_columns import MariaDbColumn, literal, mariadb_checksum, quoted
from tidings_lakehouse.auditing.source import Row, Sees, T
from tidings_lakehouse.errors import AuditError, DatabaseError
from tidings_service import SettingsError

_CONNECT_SECONDS = 10
_NOTHING = Gtid(0, 0, 0)
"""Of a log without transactions."""
_ANSWER_SECONDS = 30
"""Behind the time limit of a statement, within which the server ends it."""
_TOO_LONG = 1969
_TOLD = frozenset({1044, 1045, 1049, 1129, 1130, 1142, 1143, 1203, 1226, 1698, 3159})
"""Errors of connections and rights: the words of others may quote a value."""
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable, numeric_precision FROM information_schema.columns
WHERE table_schema = {} AND table_name = {} ORDER BY ordinal_position
"""


@contextmanager
def connected(setting: str, url: str, *, timeout: float) -> Iterator[MariaDbServer]:
    """A connection for reading, in UTC.

    Args:
        setting: the variable that names the database, for messages.
        url: ``mariadb://user:password@host:port/?sslmode=verify-full&sslrootcert=FILE``, with libpq's words for TLS.
        timeout: seconds after which a statement is given up.

    Raises:
        SettingsError: the URL is not of its form.
        DatabaseError: the database does not answer or refuses a statement; holds no value of a row.
        AuditError: it is not a MariaDB.
    """
    given = _parameters(setting, url)
    try:
        connection = pymysql.connect(
            **given,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=timeout + _ANSWER_SECONDS,
            write_timeout=_ANSWER_SECONDS,
            program_name="tidings-lakehouse",
            conv=dict(encoders),  # and no decoders: values come as texts
            init_command="SET SESSION time_zone = '+00:00', sql_mode = ''",
        )
        try:
            yield MariaDbServer(connection, timeout=timeout)
        finally:
            connection.close()
    except pymysql.err.MySQLError as error:
        raise _error(setting, error) from None  # its words may quote a value
    except OSError as error:
        raise DatabaseError(f"{setting}: {error.strerror or type(error).__name__}", hint=_HINT) from error


_HINT = "see that the database is there, and that the user may read"


class MariaDbServer:
    """See `Server`."""

    def __init__(self, connection: pymysql.Connection[Any], *, timeout: float) -> None:
        self._connection = connection
        if "mariadb" not in str(connection.get_server_info()).lower():
            raise AuditError(
                "the database to compare with is not a MariaDB", hint="PostgreSQL and MariaDB are audited"
            )
        self.read(f"SET SESSION max_statement_time = {timeout:f}")
        self.read("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def columns(self, schema: str, table: str) -> Mapping[str, MariaDbColumn]:
        """See `Server`."""
        found = self.read(_COLUMNS.format(literal(schema), literal(table)))
        return {
            name: MariaDbColumn(name, type_, declared, nullable == "YES", int(precision or 0))
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
        return mariadb_checksum(columns)

    def read(self, statement: str) -> list[Row]:
        """See `Server`."""
        with self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement)
            return [tuple(map(_text, row)) for row in cursor.fetchall()]

    def in_snapshot(self, look: Callable[[], T]) -> tuple[Sees, T, int]:
        """See `Server`."""
        self.read("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            status = {
                name.lower(): value for name, value in self.read("SHOW STATUS LIKE 'binlog_snapshot_%'")
            }
            found = look()
        finally:
            self.read("COMMIT")
        file, place = status.get("binlog_snapshot_file"), status.get("binlog_snapshot_position")
        gtids = (
            self.read(f"SELECT BINLOG_GTID_POS({literal(file)}, {int(place)})")[0][0]
            if file and place
            else None
        )
        if gtids is None:
            raise AuditError(
                "the database does not say which transactions a snapshot shows",
                hint="it needs its binary log (log_bin), a replica log_slave_updates=ON, too",
            )
        position = _position(gtids)
        last = position.sequence
        return lambda tx_id: tx_id <= last, found, position.commit_position


def _position(text: str) -> Gtid:
    gtids = [gtid_of(one) for one in text.split(",") if one]
    domains = sorted({one.domain for one in gtids})
    if len(domains) > 1:
        numbers = ", ".join(map(str, domains))
        raise AuditError(
            f"the database has logged transactions of the replication domains {numbers}: their commits have"
            " no common order, and the lake has those of one",
            hint="FLUSH BINARY LOGS DELETE_DOMAIN_ID removes one that is not used any more",
        )
    return max(gtids, key=lambda one: one.sequence, default=_NOTHING)


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
            f"{setting} is not a URL of a MariaDB",
            hint="mariadb://user:password@host:3306/?sslmode=verify-full&sslrootcert=FILE; sslmode is one of "
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
    if number == _TOO_LONG:
        words = "a statement took longer than its time limit"
    elif number is not None and not 2000 <= number < 3000 and number not in _TOLD:
        words = "the server refuses a statement"
    return DatabaseError(f"{setting}: {words} ({number})", hint=_HINT)
