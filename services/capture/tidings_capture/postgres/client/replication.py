"""A walsender connection. Protocol: PostgreSQL documentation, "Streaming Replication Protocol"."""

import select
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import pq

from tidings_capture.postgres.client.endpoint import Endpoint
from tidings_capture.postgres.client.refusals import refused, result_error
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.sql_text import quote
from tidings_capture.postgres.wire.pgoutput import POSTGRES_EPOCH_US

_READ_BYTES: Final = 4_000_000
"""About how much of the stream is held in memory at once, whatever the rows' size."""
_LOOK_SECONDS: Final = 0.25
_STATUS = struct.Struct(">cQQQqB")
_KEEPALIVE = struct.Struct(">QqB")


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
            raise refused(endpoint, self._connection.error_message.decode(errors="replace"))
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
            raise result_error(self._connection, result, f"cannot stream from slot.name={slot}")
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
        now = time.time_ns() // 1000 - POSTGRES_EPOCH_US
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
            raise result_error(self._connection, result, command.split(" ", 1)[0])
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
            raise result_error(self._connection, result, "PostgreSQL ended the stream")
        raise PostgresError("PostgreSQL ended the stream: the server shuts down or ended the walsender")

    def _lost(self, error: psycopg.Error) -> PostgresError:
        result = self._connection.get_result() if self._connection.status == pq.ConnStatus.OK else None
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return result_error(self._connection, result, "PostgreSQL ended the stream")
        words = str(error).strip().splitlines()
        return PostgresError(
            f"the replication connection was lost: {words[0] if words else 'no reason given'}"
        )


def parse_keepalive(message: bytes) -> tuple[int, bool]:
    """The server's position (LSN) in a primary keepalive, and whether it asks for a reply."""
    wal_end, _clock, reply = _KEEPALIVE.unpack_from(message, 1)
    return wal_end, reply == 1


def _doubled(text: str) -> str:
    """What stands between single quotes in a replication command."""
    return text.replace("'", "''")
