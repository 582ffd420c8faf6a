"""An ordinary connection, for catalog reads and COPY. Output is asked for in the formats that conversion expects."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import pq, sql

from tidings_capture.postgres.client.endpoint import Endpoint
from tidings_capture.postgres.client.refusals import refused, result_error, translated
from tidings_capture.postgres.errors import PostgresError

_COPY_BYTES: Final = 1_000_000
"""About how much of a COPY is held in memory at once."""
_WAIT_INTERVAL_SECONDS: Final = 0.1


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

    Args:
        waits_for_standbys: whether its commits wait for synchronous standbys, as the server's settings say.

    Raises:
        PostgresError: from every method.
    """

    def __init__(self, endpoint: Endpoint, *, waits_for_standbys: bool = True) -> None:
        try:
            self._connection = _Connection.connect(
                psycopg.conninfo.make_conninfo(**endpoint.parameters()), autocommit=True
            )
        except psycopg.Error as error:
            raise refused(endpoint, str(error)) from error
        self._connection.answer_seconds = endpoint.answer_seconds
        self._endpoint = endpoint
        try:
            if endpoint.query_timeout_ms:
                self.execute(f"SET statement_timeout = {endpoint.query_timeout_ms}")
            if not waits_for_standbys:
                self.execute("SET synchronous_commit = local")
            for statement in endpoint.initial_statements:
                self._initial(statement)
        except PostgresError:
            self.close()
            raise

    def _initial(self, statement: str) -> None:
        try:
            self._connection.execute(sql.SQL(statement))
        except psycopg.Error as error:
            raise translated("PostgreSQL refused one of database.initial.statements", error) from error

    @property
    def server_version(self) -> int:
        """For example 160011."""
        return self._connection.info.server_version

    @property
    def pid(self) -> int:
        """The process that greeted: the server's, or what a pooler says in its place."""
        return self._connection.pgconn.backend_pid

    def rows(
        self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of a query; `query` is ours, values go into `parameters`."""
        try:
            cursor = self._connection.execute(sql.SQL(query), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise translated("PostgreSQL refused a query of the connector's", error) from error

    def slow_value(self, query: str) -> Any:
        """As `value`, of a query whose answer takes as long as it takes."""
        usual, self._connection.answer_seconds = self._connection.answer_seconds, 0.0
        try:
            # Prepared, and so one statement: it holds a signal's filter.
            found = self._connection.execute(query.encode(), prepare=True).fetchone()
            return found[0] if found else None
        except psycopg.Error as error:
            raise translated("PostgreSQL refused a query of the connector's", error) from error
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
                    raise result_error(connection, described, "PostgreSQL refused a query of the connector's")
            return [(described.fname(number) or b"").decode() for number in range(described.nfields)]
        except psycopg.Error as error:
            raise translated("PostgreSQL refused a query of the connector's", error) from error

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
                raise result_error(connection, result, "COPY")
            while True:
                lines, done = _take_lines(connection, limit)
                yield lines
                if done:
                    break
            _finish(connection, "COPY")
        except psycopg.Error as error:
            raise translated("COPY was interrupted", error) from error

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
            failed = failed or result_error(connection, result, action)
    if failed is not None:
        raise failed
