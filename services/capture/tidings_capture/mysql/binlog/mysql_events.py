"""MySQL's log as a stream reads it: each transaction begins with one event that says all of it, as MariaDB's does.

MySQL names a transaction by an event (GTID), says by the next one what it is (BEGIN, XA START, XA COMMIT, or a definition that stands
alone), and may compress all the others into one (TRANSACTION_PAYLOAD).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import Begin, Event, EventReader, GtidEvent
from tidings_capture.mysql.binlog.file_position import FileId, FilePosition
from tidings_capture.mysql.binlog.mysql_gtid_events import Named, read_mysql_gtid, read_tagged_gtid
from tidings_capture.mysql.binlog.payload import payload_events
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.binlog.statements import Kind, kind_of
from tidings_capture.mysql.errors import BinlogError, UnsupportedError

_XA: Final = re.compile(
    rb"\s*XA\s+(?:START|BEGIN|COMMIT|ROLLBACK)\s+X'([0-9a-f]*)',\s*X'([0-9a-f]*)',\s*(\d+)", re.IGNORECASE
)
_FLAGS: Final = {
    Kind.BEGIN: 0,
    Kind.XA: log.PREPARES,
    Kind.XA_COMMIT: log.COMPLETES,
    Kind.XA_ROLLBACK: log.COMPLETES,
}
_COMMENT: Final = 1
"""ROWS_QUERY has the length before the statement, in one byte that is not enough for it."""


class MySqlEvents:
    """Reads packets of the replication stream.

    Args:
        position: where the stream begins; it names transactions as the log does.
    """

    def __init__(self, position: LogPosition) -> None:
        self._reader = EventReader()
        self._file = position.file if isinstance(position, FilePosition) else None
        self._named: Named | None = None
        self._micros = 0
        self._inside = False

    def events(self, packet: bytes) -> Iterator[Event]:
        """The events of a packet without its first byte.

        Raises:
            BinlogError: one is malformed.
            UnsupportedError: a transaction has no name where others have one.
        """
        event = self._reader.read(packet)
        if event.type == log.PAYLOAD:
            for inner in payload_events(event):
                yield from self._told(inner)
        else:
            yield from self._told(event)

    def _told(self, event: Event) -> Iterator[Event]:
        kind = event.type
        if kind == log.MYSQL_GTID:
            self._named, self._inside = read_mysql_gtid(event), False
            self._micros = self._named.micros
            return
        if kind == log.TAGGED_GTID:
            self._named, self._inside = read_tagged_gtid(event), False
            self._micros = self._named.micros
            return
        if kind == log.ANONYMOUS_GTID:
            self._named, self._inside = None, False
            self._micros = read_mysql_gtid(event).micros
            return
        if kind == log.QUERY:
            yield from self._query(event)
            return
        if kind == log.ROTATE and self._file is not None:
            self._file = log.read_rotate(event).file
        elif kind in {log.XID, log.XA_PREPARE}:
            self._inside = False
        elif kind == log.ROWS_QUERY:
            data = event.data
            event = replace(
                event,
                type=log.ANNOTATE_ROWS,
                data=data[: log.HEADER_BYTES] + data[log.HEADER_BYTES + _COMMENT :],
            )
        yield event

    def _query(self, event: Event) -> Iterator[Event]:
        query = log.read_query(event)
        kind = kind_of(query.statement)
        if self._inside:
            self._inside = kind not in {Kind.COMMIT, Kind.ROLLBACK}
            yield event
            return
        flags = _FLAGS.get(kind, log.STANDALONE)
        xid = _xid(query.statement) if flags & (log.PREPARES | log.COMPLETES) else None
        nanos = 0 if self._named is None else self._named.micros * 1000
        begun = GtidEvent(self._id(event), flags, xid, query.thread, nanos, self._micros)
        yield Begin(
            log.GTID,
            event.timestamp,
            event.server_id,
            event.end_position,
            event.flags,
            event.size,
            event.data,
            begun,
        )
        self._named, self._micros = None, 0
        self._inside = flags in {0, log.PREPARES}
        if flags & (log.STANDALONE | log.COMPLETES):
            yield event

    def _id(self, event: Event) -> TransactionId:
        if self._file is not None:
            gtid = None if self._named is None else str(self._named.gtid)
            return FileId(self._file, event.end_position - event.size, gtid)
        if self._named is None:
            raise UnsupportedError(
                f"a transaction before byte {event.end_position} of the log has no GTID, and those before it have one",
                hint="set gtid_mode=ON on all servers, and take a new snapshot",
            )
        return self._named.gtid


def _xid(statement: bytes) -> str:
    match: Any = _XA.match(statement)
    if match is None:
        raise BinlogError("the log has the id of a distributed transaction (XA) in a form that is not known")
    return f"{int(match[3])}-{match[1].decode().lower()}-{match[2].decode().lower()}"
