"""Connections to a MariaDB or MySQL server, through PyMySQL: for statements, and for the stream of the binary log."""

import contextlib
import re
import select
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.converters import encoders
from pymysql.cursors import Cursor, SSCursor

from tidings_capture.cdc.tls import tls_context
from tidings_capture.mysql.errors import (
    BinlogDivergedError,
    BinlogLostError,
    MariaDbError,
    OtherServerError,
    UnsupportedError,
)
from tidings_capture.mysql.result_rows import MOST_PACKET, ResultRows
from tidings_connect.errors import WorkerConfigError
from tidings_connect.kafka.key_stores import TlsMaterial, read_tls
from tidings_service.errors import Retry

_MOST_EVENT: Final = (1 << 30) + (1 << 20)
"""``max_allowed_packet`` allows for 1 GB."""
_MARIADB: Final = re.compile(r"(\d+)\.(\d+)\.\d+-mariadb", re.IGNORECASE)
_SHARED: Final = (10, 10)
_CHUNK: Final = 1 << 18
_LEFT: Final = 10_000
_PEM_HEAD: Final = 4_096
"""Within so many bytes a file of certificates has its first one; texts may stand before it."""
_GONE: Final = {1236}
"""ER_MASTER_FATAL_ERROR_READING_BINLOG."""
_PURGED: Final = ("Could not find GTID state", "Could not find first log", "purged required binary logs")
_NEVER_LOGGED: Final = (
    "is not in the master's binlog", "has more GTIDs than the", "from position > file size", "from impossible position",
)  # fmt: skip
_TOLD: Final = {1040, 1041, 1042, 1043, 1129, 1130, 1153, 1158, 1159, 1160, 1161, 1203, 1226, 3159}
"""Of connections: the words of others may quote a value."""
_MANUAL: Final = {1044, 1045, 1142, 1143, 1227, 1370, 1698}
"""Refused for want of a right: the same tomorrow."""


_SETTINGS: Final = "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 600"
_LIMIT: Final = "SET SESSION net_write_timeout = 600 /*M! , max_statement_time = {0} */ /*!50708 , max_execution_time = {1} */"
"""Comments with M are MariaDB's to run, and those with 50708 MySQL's: MariaDB passes over 50700 to 50799."""
PREFERRED: Final = "prefer"
"""Encrypted where the server offers it, whoever it is."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is, and as whom to log in."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ssl_mode: str = "disable"
    """``disable``, ``trust``, ``verify-ca`` or ``verify-full``; or `PREFERRED`."""
    connect_seconds: float = 30.0
    initial_statements: tuple[str, ...] = field(default=(), repr=False)
    """Run on every connection, but that of the log."""
    query_seconds: float = 0.0
    """How long a statement may take; 0: any time."""
    log_timeouts: tuple[int, int] = (0, 0)
    """The server's ``net_read_timeout`` and ``net_write_timeout`` for the connection of the log, in seconds; 0: not set."""
    stores: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Certificates and keys, as `tidings_connect.kafka.key_stores` has them."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """PyMySQL's errors as ours. The server's words are told for errors of connections only: others may quote values."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        raise _ours(what, error) from None
    except (OSError, ssl.SSLError) as error:
        raise MariaDbError(f"{what}: {error.strerror or type(error).__name__}") from error


def _ours(what: str, error: pymysql.err.MySQLError) -> MariaDbError | BinlogLostError:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    words = str(error.args[1]) if len(error.args) > 1 else type(error).__name__
    if number in _GONE:
        return _lost(words)
    if number in _MANUAL:
        return MariaDbError(f"{what}: {words} ({number})", number=number, retry=Retry.MANUAL)
    if number is None or 2000 <= number < 3000 or number in _TOLD:
        return MariaDbError(f"{what}: {words} ({number})", number=number)
    return MariaDbError(f"{what}: the server answered with its error {number}", number=number)


def _lost(words: str) -> BinlogLostError | MariaDbError:
    """Why the server does not send the log from where it was asked to."""
    hint = "take a new snapshot: delete the connector's offsets, and start it with snapshot.mode=initial"
    if any(said in words for said in _PURGED):
        return BinlogLostError(
            "the binary log was purged before everything in it was read: changes are lost", hint=hint
        )
    if "has diverged" in words or "The binlog on the master is missing the GTID" in words:
        return BinlogDivergedError(
            "the server has logged other transactions in place of those that were read", hint=hint
        )
    if any(said in words for said in _NEVER_LOGGED):
        return OtherServerError(
            "the server's binary log does not hold the stored position: it is another server, or was built anew",
            hint=f"point database.hostname at a server that has it, or {hint}",
        )
    return MariaDbError(f"the server ends the stream of its binary log: {words}", number=1236)


def connect(endpoint: Endpoint, *, database: str | None = None) -> "pymysql.Connection[Any]":
    """A connection in autocommit, in UTC, with texts in utf8mb4 and nothing converted.

    Raises:
        MariaDbError: there is none to be had.
    """
    mode = endpoint.ssl_mode
    if mode == PREFERRED:
        mode = "trust" if endpoint.stores else ""
    with told(f"cannot connect to {endpoint}"):
        return pymysql.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.encode(),  # as text it would be sent in latin1
            database=database,
            charset="utf8mb4",
            use_unicode=True,
            autocommit=True,
            connect_timeout=max(1, int(endpoint.connect_seconds)),
            ssl=tls_context(mode, stores=_material(endpoint)) if mode else None,
            ssl_disabled=endpoint.ssl_mode == "disable",
            conv=dict(encoders),  # and no decoders
            init_command=_SETTINGS,
        )


def _material(endpoint: Endpoint) -> TlsMaterial:
    try:
        return read_tls({**endpoint.stores, **_pem(endpoint.stores)}, "database.")
    except (WorkerConfigError, OSError) as error:
        words = str(error).replace("store.location", "store").replace(" ssl.", " database.ssl.")
        raise MariaDbError(words, retry=Retry.MANUAL) from error


def _pem(stores: Mapping[str, str]) -> dict[str, str]:
    """Which stores are PEM, whose type no option tells: Java's own forms are told apart by who reads them."""
    found = {}
    for kind in ("truststore", "keystore"):
        path = Path(stores.get(f"ssl.{kind}.location", ""))
        if path.is_file():
            with path.open("rb") as file:
                if b"-----BEGIN " in file.read(_PEM_HEAD):
                    found[f"ssl.{kind}.type"] = "PEM"
    return found


class Session:
    """A connection for statements. All of its methods raise `MariaDbError`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection = connect(endpoint)
        try:
            if endpoint.initial_statements:
                for statement in (*endpoint.initial_statements, _SETTINGS):
                    self.rows(statement)
            self._limit(endpoint.query_seconds)
        except BaseException:
            self.close()
            raise

    def _limit(self, seconds: float) -> None:
        if self._endpoint.query_seconds:
            self.rows(_LIMIT.format(seconds, int(seconds * 1_000)))

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement; values are texts, of binary columns bytes."""
        with told(f"a statement on {self._endpoint} failed"), self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall())

    def columns(self, statement: str) -> frozenset[str]:
        """The names of the columns of a statement's rows."""
        with told(f"a statement on {self._endpoint} failed"), self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement)
            return frozenset(str(column[0]) for column in cursor.description or ())

    def open(self, statement: str) -> "Result":
        """A result that is read bit by bit, however long it takes; nothing else may be asked meanwhile."""
        self._limit(0)
        return Result(self._connection, statement, str(self._endpoint))

    @property
    def shares_collations(self) -> bool:
        """Whether a collation may be of several character sets, so that it has a number in each: MariaDB's, from 10.10 on."""
        found = _MARIADB.search(str(self._connection.get_server_info()))
        return found is not None and (int(found[1]), int(found[2])) >= _SHARED

    def interrupt(self) -> None:
        """End what another thread waits for: it gets an error, and the connection is of no more use."""
        with contextlib.suppress(OSError):
            self._connection._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - PyMySQL has no public way

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(pymysql.err.MySQLError, OSError):
            self._connection.close()


class Result:
    """An open result, of rows as the server writes them (`encoding.text_encoder`)."""

    def __init__(self, connection: "pymysql.Connection[Any]", statement: str, where: str) -> None:
        self._what = f"reading a table of {where} failed"
        with told(self._what):
            self._cursor = connection.cursor(SSCursor)
            self._cursor.execute(statement)
        # PyMySQL takes 6 of 20 microseconds for a row of ten cells; its own buffered file is read on.
        self._rows = ResultRows(connection._rfile, self._refused, self._lost)  # noqa: SLF001

    def fetch(self, count: int) -> list[bytes]:
        """The next rows, at most so many; none: there are no more.

        Raises:
            MariaDbError: the server ends the result with an error, or the connection is lost.
        """
        try:
            with told(self._what):
                return self._rows.fetch(count)
        finally:
            if self._rows.ended:
                self.abandon()

    def close(self) -> None:
        """Read what is left, and forget it."""
        while self.fetch(_LEFT):
            pass
        with told(self._what):
            self._cursor.close()

    def abandon(self) -> None:
        """Forget what is left, unread: unless all was read, the connection is of no more use. PyMySQL would read it when the object
        goes."""
        unread = self._cursor._result  # noqa: SLF001 - PyMySQL has no public way
        if unread is not None:
            unread.unbuffered_active = False

    def _refused(self, packet: bytes) -> MariaDbError | BinlogLostError:
        number, words = _number_and_words(packet)
        return _ours(self._what, pymysql.err.MySQLError(number, words))

    def _lost(self) -> MariaDbError:
        return MariaDbError(f"{self._what}: the connection is lost")


class Request(NamedTuple):
    """What asks for the stream of the log: statements before it, and the command."""

    statements: Sequence[tuple[str, Sequence[Any]]]
    command: int
    body: bytes


class BinlogStream:
    """The stream of the binary log, as a `Flavour` asks for it."""

    def __init__(self, endpoint: Endpoint, request: Request) -> None:
        self._endpoint = endpoint
        self._connection = connect(endpoint)
        self._buffer = bytearray()
        self._start = 0
        try:
            with told(f"cannot read the binary log of {endpoint}"), self._connection.cursor() as cursor:
                for name, seconds in zip(("read", "write"), endpoint.log_timeouts, strict=True):
                    if seconds:
                        cursor.execute(f"SET SESSION net_{name}_timeout = {seconds}")
                for statement, parameters in request.statements:
                    cursor.execute(statement, parameters or None)
                self._connection._execute_command(  # noqa: SLF001 - PyMySQL has no public way to send a command
                    request.command, request.body
                )
                self._socket: Any = self._connection._sock  # noqa: SLF001
                self._socket.setblocking(False)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """For `select`."""
        return int(self._socket.fileno())

    def wait(self, seconds: float, descriptor: int) -> None:
        """Wait until there may be something to read, here or at the descriptor."""
        if not getattr(self._socket, "pending", lambda: 0)():
            select.select([self._socket, descriptor], [], [], seconds)

    def wait_alone(self, seconds: float) -> None:
        """Wait until there may be something to read here."""
        if not getattr(self._socket, "pending", lambda: 0)():
            select.select([self._socket], [], [], seconds)

    def packets(self) -> Iterator[bytes]:
        """The packets that have arrived, each without its first byte; ends when nothing more is there now.

        Raises:
            MariaDbError: the connection is lost, or the server ends the stream with an error.
            BinlogLostError: the server does not have what it was asked for.
        """
        while True:
            packet = self._next()
            if packet is None:
                if not self._receive():
                    return
                continue
            if not packet or packet[0] == 0xFF:
                raise _refused(packet)
            if packet[0] == 0xFE and len(packet) < 9:
                raise MariaDbError(f"{self._endpoint} has ended the stream of its binary log")
            if packet[0] != 0:
                raise MariaDbError(f"{self._endpoint} sends packets of kind {packet[0]}, which is not known")
            yield packet[1:]

    def _next(self) -> bytes | None:
        """A whole packet of the buffer; longer ones come in parts."""
        buffer, start = self._buffer, self._start
        parts = []
        while True:
            if len(buffer) - start < 4:
                return None
            length = buffer[start] | buffer[start + 1] << 8 | buffer[start + 2] << 16
            if len(buffer) - start - 4 < length:
                return None
            parts.append(bytes(buffer[start + 4 : start + 4 + length]))
            start += 4 + length
            if length < MOST_PACKET:
                break
        self._start = start
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _receive(self) -> bool:
        """Take in what has arrived; whether something had."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        if len(self._buffer) > _MOST_EVENT:
            raise UnsupportedError("the binary log has an event of more than 1 GB")
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise MariaDbError(
                f"the connection to {self._endpoint} is lost: {error.strerror or type(error).__name__}"
            ) from error
        if not data:
            raise MariaDbError(f"{self._endpoint} has closed the connection")
        self._buffer += data
        return True

    def close(self) -> None:
        """Close the connection without a word: the server is in the midst of sending."""
        self._connection._force_close()  # noqa: SLF001


def _refused(packet: bytes) -> MariaDbError | BinlogLostError:
    number, words = _number_and_words(packet)
    if number in _GONE:
        return _lost(words)
    return MariaDbError(f"the server ends the stream of its binary log: {words} ({number})", number=number)


def _number_and_words(packet: bytes) -> tuple[int, str]:
    """Of an error's packet."""
    words = packet[3:].decode("utf-8", "replace")
    return int.from_bytes(packet[1:3], "little"), words[6:] if words.startswith("#") else words
