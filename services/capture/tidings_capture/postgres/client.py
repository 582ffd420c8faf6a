"""The one module that speaks to PostgreSQL: sessions, COPY out, and the replication stream, through psycopg.

`Session` is an ordinary connection for catalog reads and COPY; `Replication` a walsender. Both are synchronous and for
one thread. Output is asked for in the formats that conversion expects (ISO dates, UTC, hex bytea). The replication
protocol: PostgreSQL documentation, "Streaming Replication Protocol".
"""

import getpass
import re
import select
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import pq, sql

from tidings_capture.postgres.errors import PostgresError
from tidings_service import Retry

_FORMATS: Final = "-c DateStyle=ISO,MDY -c IntervalStyle=postgres -c TimeZone=UTC -c extra_float_digits=3 -c bytea_output=hex -c standard_conforming_strings=on"
_COPY_BYTES: Final = 1_000_000
"""About how much of a COPY is held in memory at once."""
_READ_BYTES: Final = 4_000_000
"""About how much of the stream is held in memory at once, whatever the rows' size."""
_POSTGRES_EPOCH_US: Final = 946_684_800_000_000
_READ_ONLY: Final = "25006"
_CONNECT_SECONDS: Final = 10
_WAIT_INTERVAL_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.25
_STATUS = struct.Struct(">cQQQqB")
_KEEPALIVE = struct.Struct(">QqB")
_SQLSTATE_OF_REFUSAL: Final = (
    # libpq does not hand on the SQLSTATE of a refused connection, only the server's words.
    (re.compile(r"password authentication failed|no password supplied|authentication failed"), "28P01"),
    (re.compile(r'no pg_hba\.conf entry|role "[^"]*" (does not exist|is not permitted)'), "28000"),
    (re.compile(r'database "[^"]*" does not exist'), "3D000"),
    (re.compile(r"too many clients|remaining connection slots|too many connections"), "53300"),
    (re.compile(r"starting up|shutting down|recovery mode|not yet accepting"), "57P03"),
    (re.compile(r"permission denied|must be superuser or replication role"), "42501"),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a database is and how to log in; libpq's words."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    sslmode: str = "prefer"
    initial_statements: tuple[str, ...] = ()
    """SQL that every ordinary session runs first (``database.initial.statements``)."""
    query_timeout_ms: int = 0
    """How long a statement of an ordinary session may take, milliseconds; 0: as the server says. COPY may take longer."""
    answer_seconds: float = 300.0
    """How long an ordinary session waits for the answer to a statement before it takes the connection for lost; 0: for
    ever. Of COPY only the kernel knows."""
    require_auth: str = ""
    """libpq's ``require_auth`` (``tidings.database.require.auth``); empty: no password in the clear to a server that has not
    proved who it is."""
    extra: tuple[tuple[str, str], ...] = ()
    """Further libpq parameters, for example ``sslrootcert``."""

    def parameters(self, *, replication: bool = False) -> dict[str, str]:
        found = {
            "host": self.host,
            "port": str(self.port),
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "connect_timeout": str(_CONNECT_SECONDS),
            "application_name": "tidings-capture",
            "client_encoding": "UTF8",
            "options": _FORMATS,
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "tcp_user_timeout": "60000",  # else what is sent to a host that is gone is repeated for a quarter of an hour
            **dict(self.extra),
        }
        require_auth = self.require_auth or _default_require_auth(self.sslmode)
        if require_auth:
            found.setdefault("require_auth", require_auth)
        if replication:
            found["replication"] = "database"
        return found


def _default_require_auth(sslmode: str) -> str:
    """Every method but a password in the clear, unless a certificate has shown whose server it is.

    A server chooses how it is logged in to: whoever answers in its place would only have to ask. With ``require`` and less
    anybody can answer; LDAP, PAM and tokens, which need a password in the clear, belong on ``verify-full``.
    """
    return "" if sslmode in {"verify-ca", "verify-full"} else "!password"


def read_url(url: str) -> Endpoint:
    """An endpoint from a URL or a libpq connection string; what it does not say comes from libpq's defaults.

    Raises:
        PostgresError: it is neither; the message never holds the text, which may hold a password.
    """
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise PostgresError(
            "the database's URL cannot be read",
            hint="write postgresql://user:password@host:port/database",
            retry=Retry.NEVER,
        ) from error
    known = {
        default.keyword.decode(): (default.val or b"").decode() for default in pq.Conninfo.get_defaults()
    }

    def take(name: str, otherwise: str) -> str:
        return str(given.pop(name, None) or known.get(name) or otherwise)

    user = take("user", getpass.getuser())
    return Endpoint(
        host=take("host", "localhost"),
        port=int(take("port", "5432")),
        user=user,
        database=take("dbname", user),
        password=take("password", ""),
        sslmode=take("sslmode", "prefer"),
        extra=tuple((name, str(value)) for name, value in given.items() if value is not None),
    )


def _refused(endpoint: Endpoint, text: str) -> PostgresError:
    where = f"database.hostname={endpoint.host} database.port={endpoint.port}"
    if "cleartext password" in text and "requirement" in text:
        return PostgresError(
            f"the server at {where} asks for the password in the clear, and it is not sent to a server that has not proved "
            f"who it is (database.sslmode={endpoint.sslmode})",
            hint="set database.sslmode=verify-full, or scram-sha-256 in the server's pg_hba.conf; or allow it with "
            "tidings.database.require.auth=password",
            retry=Retry.NEVER,
        )
    sqlstate = next((state for pattern, state in _SQLSTATE_OF_REFUSAL if pattern.search(text)), None)
    if sqlstate is not None and sqlstate.startswith("28"):
        return PostgresError(
            f"PostgreSQL at {where} refused database.user={endpoint.user} with the given database.password "
            f"(SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="correct database.user or database.password, or the server's pg_hba.conf",
        )
    if sqlstate == "3D000":
        return PostgresError(
            f"PostgreSQL at {where} has no database.dbname={endpoint.database} (SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="correct database.dbname",
        )
    reason = text.strip().splitlines()[-1].rsplit("FATAL:", maxsplit=1)[-1].strip() if text.strip() else "?"
    return PostgresError(f"cannot connect to PostgreSQL at {where}: {reason}", sqlstate=sqlstate)


def _words(sqlstate: str | None, words: str) -> str:
    """What the server says of an error, or only its kind where its words repeat a cell.

    Data exceptions (class 22, ``invalid input syntax for type integer: "..."``) and violated constraints (23) do.
    """
    if sqlstate is None or sqlstate[:2] not in {"22", "23"}:
        return words
    try:
        return psycopg.errors.lookup(sqlstate).__name__
    except KeyError:
        return "a value was refused"


def _translated(action: str, error: psycopg.Error) -> PostgresError:
    state = error.sqlstate
    words = _words(state, error.diag.message_primary or str(error).strip().splitlines()[0])
    return PostgresError(f"{action}: {words}" + (f" (SQLSTATE {state})" if state else ""), sqlstate=state)


def quote(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _doubled(text: str) -> str:
    """What stands between single quotes in a replication command."""
    return text.replace("'", "''")


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Does not wait for ever: a proxy that has forgotten a connection takes what is sent, so that not even the kernel
    notices, and a stream whose task waits here is not read any more."""

    answer_seconds = 0.0

    def wait(self, gen: Any, interval: float = _WAIT_INTERVAL_SECONDS, timeout: float | None = None) -> Any:
        limit = timeout or self.answer_seconds or None
        began = time.monotonic()
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            if limit is None or time.monotonic() - began < limit or self.pgconn.status != pq.ConnStatus.OK:
                raise
            self.pgconn.finish()  # an answer that comes later would be taken for another statement's
            raise psycopg.OperationalError(
                f"the server has not answered in {limit:.0f} seconds (tidings.receive.timeout.ms)"
            ) from error


class Session:
    """An ordinary connection in autocommit.

    Raises:
        PostgresError: from every method.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._connection = _Connection.connect(
                psycopg.conninfo.make_conninfo(**endpoint.parameters()), autocommit=True
            )
        except psycopg.Error as error:
            raise _refused(endpoint, str(error)) from error
        self._connection.answer_seconds = endpoint.answer_seconds
        self._endpoint = endpoint
        try:
            if endpoint.query_timeout_ms:
                self.execute(f"SET statement_timeout = {endpoint.query_timeout_ms}")
            for statement in endpoint.initial_statements:
                self._initial(statement)
        except PostgresError:
            self.close()
            raise

    def _initial(self, statement: str) -> None:
        try:
            self._connection.execute(sql.SQL(statement))
        except psycopg.Error as error:
            raise _translated("PostgreSQL refused one of database.initial.statements", error) from error

    @property
    def server_version(self) -> int:
        """For example 160011."""
        return self._connection.info.server_version

    def rows(
        self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of a query; `query` is ours, values go into `parameters`."""
        try:
            cursor = self._connection.execute(sql.SQL(query), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise _translated("PostgreSQL refused a query of the connector's", error) from error

    def slow_value(self, query: str) -> Any:
        """As `value`, of a query whose answer takes as long as it takes."""
        usual, self._connection.answer_seconds = self._connection.answer_seconds, 0.0
        try:
            # Prepared, and so one statement: it holds a signal's filter.
            found = self._connection.execute(query.encode(), prepare=True).fetchone()
            return found[0] if found else None
        except psycopg.Error as error:
            raise _translated("PostgreSQL refused a query of the connector's", error) from error
        finally:
            self._connection.answer_seconds = usual

    def value(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> Any:
        """The first column of the first row, None without rows."""
        found = self.rows(query, parameters)
        return found[0][0] if found else None

    def columns(self, query: str) -> list[str]:
        """The names of a query's columns; `query` is the user's and may hold ``%``. It is not run."""
        connection = self._connection.pgconn
        try:
            for described in (connection.prepare(b"", query.encode()), connection.describe_prepared(b"")):
                if described.status != pq.ExecStatus.COMMAND_OK:
                    raise _result_error(
                        connection, described, "PostgreSQL refused a query of the connector's"
                    )
            return [(described.fname(number) or b"").decode() for number in range(described.nfields)]
        except psycopg.Error as error:
            raise _translated("PostgreSQL refused a query of the connector's", error) from error

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """A transaction that changes nothing, for statements with somebody else's SQL in them."""
        self.execute("BEGIN TRANSACTION READ ONLY")
        try:
            yield
        except BaseException:
            with suppress(PostgresError):  # the connection may be why it failed
                self.execute("ROLLBACK")
            raise
        self.execute("ROLLBACK")  # what a function has set for the session goes with it

    def execute(self, statement: str) -> None:
        """Run a statement that returns nothing."""
        self.rows(statement)

    def copy_out(self, statement: str, limit: int = 2000) -> Iterator[list[bytes]]:
        """The lines of a ``COPY ... TO STDOUT`` in lists of at most `limit` lines and about a megabyte; each line ends
        with a newline. Sent with the extended protocol, in which a string is one statement."""
        connection = self._connection.pgconn
        try:
            result = connection.exec_params(statement.encode(), None)
            if result.status != pq.ExecStatus.COPY_OUT:
                raise _result_error(connection, result, "COPY")
            while True:
                lines, done = _take_lines(connection, limit)
                yield lines
                if done:
                    break
            _finish(connection, "COPY")
        except psycopg.Error as error:
            raise _translated("COPY was interrupted", error) from error

    def close(self) -> None:
        self._connection.close()


def _take_lines(connection: pq.abc.PGconn, limit: int) -> tuple[list[bytes], bool]:
    lines: list[bytes] = []
    take, room = connection.get_copy_data, _COPY_BYTES
    while len(lines) < limit and room > 0:
        size, data = take(0)
        if size < 0:
            return lines, True
        lines.append(bytes(data))
        room -= size
    return lines, False


def _finish(connection: pq.abc.PGconn, action: str) -> None:
    failed = None
    while (
        result := connection.get_result()
    ) is not None:  # to the end: else the next command finds this one under way
        if result.status == pq.ExecStatus.FATAL_ERROR:
            failed = failed or _result_error(connection, result, action)
    if failed is not None:
        raise failed


def _result_error(connection: pq.abc.PGconn, result: pq.abc.PGresult, action: str) -> PostgresError:
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    primary = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    words = (
        (primary or connection.error_message or b"the connection was lost").decode(errors="replace").strip()
    )
    sqlstate = state.decode() if state else None
    words = _words(sqlstate, words)
    if sqlstate == _READ_ONLY and action == "COPY":
        # Of a read: no server that became a standby, but SQL of the user's that wants to write.
        return PostgresError(
            f"COPY: {words} (SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="a signal's filter and a select statement must not write",
            retry=Retry.NEVER,
        )
    return PostgresError(
        f"{action}: {words}" + (f" (SQLSTATE {sqlstate})" if sqlstate else ""), sqlstate=sqlstate
    )


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """The answer to CREATE_REPLICATION_SLOT."""

    consistent_lsn: str
    """``X/Y``: streaming from here gives exactly what the snapshot does not hold."""
    snapshot: str | None
    """The exported snapshot; valid until the next command on the same connection."""


class Replication:
    """A walsender connection.

    Raises:
        PostgresError: from every method; SQLSTATE 55006 while another process holds the slot.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        parameters = endpoint.parameters(replication=True)
        self._connection = pq.PGconn.connect(psycopg.conninfo.make_conninfo(**parameters).encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise _refused(endpoint, self._connection.error_message.decode(errors="replace"))
        self._socket = self._connection.socket
        self.last_heard = time.monotonic()
        """When something arrived last, on the monotonic clock."""

    @property
    def server_version(self) -> int:
        """For example 160011."""
        return self._connection.server_version

    @property
    def pid(self) -> int:
        """The server's process (``pg_replication_slots.active_pid`` of the slot that is streamed)."""
        return self._connection.backend_pid

    @property
    def can_fail_over(self) -> bool:
        """Whether slots that replicas keep can be made here: on a primary from PostgreSQL 17 on."""
        return self.server_version >= 170000 and self._connection.parameter_status(b"in_hot_standby") != b"on"

    def create_slot(
        self,
        name: str,
        *,
        temporary: bool,
        export: bool,
        failover: bool = False,
        meanwhile: Callable[[float], None] | None = None,
    ) -> CreatedSlot:
        """Create a logical slot of pgoutput's. The server waits for the transactions that are open to end.

        Args:
            meanwhile: is told four times a second for how many seconds it has waited; may raise to give up.
        """
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        if self.server_version >= 150000:
            options = [f"SNAPSHOT '{'export' if export else 'nothing'}'"]
            if failover:
                options.append("FAILOVER true")
            tail = f"({', '.join(options)})"
        else:
            tail = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
        result = self._command(f"CREATE_REPLICATION_SLOT {quote(name)} {kind} pgoutput {tail}", meanwhile)
        lsn, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert lsn is not None
        return CreatedSlot(lsn.decode(), snapshot.decode() if snapshot else None)

    def identify(self) -> tuple[str, int]:
        """The cluster's system identifier and its present timeline."""
        result = self._command("IDENTIFY_SYSTEM")
        system, timeline = result.get_value(0, 0), result.get_value(0, 1)
        assert system is not None
        assert timeline is not None
        return system.decode(), int(timeline)

    def timeline_history(self, timeline: int) -> str:
        """The history file of a timeline; the first one has none."""
        content = self._command(f"TIMELINE_HISTORY {timeline}").get_value(0, 1)
        return "" if content is None else content.decode(errors="replace")

    def drop_slot(self, name: str) -> None:
        """Drop a slot, when it is free."""
        self._command(f"DROP_REPLICATION_SLOT {quote(name)} WAIT")

    def start(self, slot: str, lsn: str, options: Sequence[tuple[str, str]]) -> None:
        """START_REPLICATION; afterwards only `read`, `wait` and `send_status`."""
        given = ", ".join(f"{name} '{_doubled(value)}'" for name, value in options)
        statement = f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn} ({given})"
        result = self._connection.exec_(statement.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise _result_error(self._connection, result, f"cannot stream from slot.name={slot}")
        self._connection.nonblocking = 1

    def read(self, limit: int) -> list[bytes]:
        """CopyData messages that have arrived, at most `limit` and about four megabytes; never waits."""
        messages: list[bytes] = []
        room = _READ_BYTES
        append, connection = messages.append, self._connection
        take = connection.get_copy_data
        try:
            for _ in range(limit):
                size, data = take(1)
                if size > 0:
                    append(bytes(data))
                    room -= size
                    if room < 0:
                        break
                    continue
                if size < 0:
                    self._ended(messages)
                    break
                connection.consume_input()
                size, data = take(1)
                if size <= 0:
                    break
                append(bytes(data))
        except psycopg.Error as error:
            raise self._lost(error) from error
        if messages:
            self.last_heard = time.monotonic()
        return messages

    def wait(self, seconds: float, *others: int) -> bool:
        """Wait until something arrived here or on another file descriptor; False after `seconds`."""
        ready, _, _ = select.select([self._socket, *others], [], [], seconds)
        return bool(ready)

    def send_status(self, received_lsn: int, flushed_lsn: int, *, reply: bool = False) -> None:
        """Standby status update: what has arrived, and what may be forgotten; `reply` asks for a keepalive."""
        now = time.time_ns() // 1000 - _POSTGRES_EPOCH_US
        try:
            self._connection.put_copy_data(
                _STATUS.pack(b"r", received_lsn, flushed_lsn, flushed_lsn, now, reply)
            )
            while self._connection.flush() == 1:
                select.select([], [self._socket], [], 1.0)
                self._connection.consume_input()
        except psycopg.Error as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """End the stream: the server frees the slot when it sees the connection closed."""
        self._connection.finish()

    def _command(self, command: str, meanwhile: Callable[[float], None] | None = None) -> pq.abc.PGresult:
        if meanwhile is None:
            result = self._connection.exec_(command.encode())
        else:
            result = self._patiently(command, meanwhile)
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}:
            raise _result_error(self._connection, result, command.split(" ", 1)[0])
        return result

    def _patiently(self, command: str, meanwhile: Callable[[float], None]) -> pq.abc.PGresult:
        connection, began = self._connection, time.monotonic()
        connection.send_query(command.encode())
        try:
            while connection.is_busy():
                if self.wait(_LOOK_SECONDS):
                    connection.consume_input()
                else:
                    meanwhile(time.monotonic() - began)
        except psycopg.Error as error:
            raise self._lost(error) from error
        except BaseException:
            connection.get_cancel().cancel()  # a server that waits does not see that the connection is closed
            raise
        found = None
        while (result := connection.get_result()) is not None:
            found = found or result
        assert found is not None
        return found

    def _ended(self, pending: list[bytes]) -> None:
        if pending:
            return  # the caller gets these first; the next read meets the end again
        result = self._connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise _result_error(self._connection, result, "PostgreSQL ended the stream")
        raise PostgresError("PostgreSQL ended the stream: the server shuts down or ended the walsender")

    def _lost(self, error: psycopg.Error) -> PostgresError:
        result = self._connection.get_result() if self._connection.status == pq.ConnStatus.OK else None
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return _result_error(self._connection, result, "PostgreSQL ended the stream")
        words = str(error).strip().splitlines()
        return PostgresError(
            f"the replication connection was lost: {words[0] if words else 'no reason given'}"
        )


def parse_keepalive(message: bytes) -> tuple[int, bool]:
    """The server's position (LSN) in a primary keepalive, and whether it asks for a reply."""
    wal_end, _clock, reply = _KEEPALIVE.unpack_from(message, 1)
    return wal_end, reply == 1
