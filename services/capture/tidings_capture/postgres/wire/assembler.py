"""Puts streamed and prepared transactions together, so that what comes out is the stream of protocol version 1.

With ``streaming`` the server sends a big transaction in blocks before it is committed, several of them mixed, and with
``two_phase`` a prepared one before its COMMIT PREPARED. `Assembler` stands between the connection and the stream: it
keeps such changes in a `Spool`, and when the commit comes, gives them as one transaction, Begin to Commit, in commit
order. Aborted transactions and subtransactions never come out. (PostgreSQL documentation, "Logical Streaming Replication
Protocol" and "Logical Replication Message Formats".)

A prepared transaction is sent once: until it is rolled back, or committed and delivered, the server must not be told that
what follows the prepare has arrived, or a restart would lose it. `confirmable` is that limit.
"""

import struct
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, Protocol

from tidings_capture.cdc.spool import Spool
from tidings_capture.postgres.wire.messages import (
    BeginPrepare,
    CommitPrepared,
    Prepare,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from tidings_capture.postgres.wire.pgoutput import POSTGRES_EPOCH_US, TAG, XLOG_DATA, decode_message
from tidings_connect.errors import ConnectError

_XID: Final = 26
_U32: Final = struct.Struct(">I").unpack_from
_BOUNDARIES: Final = frozenset(b"SEcAbPKrp")
"""The messages that begin and end what is kept."""
_ORIGIN: Final = ord("O")
_WITH_XID: Final = frozenset(b"RYIUDTM")
_BUSY_READS: Final = 16
"""How many batches are kept before the caller gets to look at the clock."""


class Source(Protocol):
    """A replication connection."""

    def read(self, limit: int) -> list[bytes]: ...

    def wait(self, seconds: float, *others: int) -> bool: ...


class Assembler:
    """Reads like a replication connection.

    Args:
        source: the connection.
        spool: keeps the changes of unfinished transactions; closed with the assembler.
    """

    def __init__(self, source: Source, spool: Spool) -> None:
        self._source = source
        self._spool = spool
        self._streaming: int | None = None
        """The transaction whose block is open."""
        self._first_segment = False
        self._preparing: int | None = None
        self._first_lsn: dict[int, bytes] = {}
        """By transaction, the LSN of its first change, as the eight bytes of the header."""
        self._prepared: dict[int, int] = {}
        """By transaction, the LSN of its PREPARE."""
        self._committed: list[tuple[int, int]] = []
        """Of prepared transactions that have been committed, but perhaps not delivered: their end and their PREPARE."""
        self._replay: Iterator[bytes] | None = None
        self._pending: list[bytes] = []
        self._kept = False

    @property
    def disk_bytes(self) -> int:
        """Held in files now."""
        return self._spool.disk_bytes

    @property
    def spilled_bytes(self) -> int:
        """What has gone to disk of unfinished transactions."""
        return self._spool.spilled_bytes

    def confirmable(self, delivered_lsn: int) -> int:
        """How much of what has been delivered the server may be told."""
        self._committed = [(end, prepared) for end, prepared in self._committed if end > delivered_lsn]
        return min((delivered_lsn, *self._prepared.values(), *(prepared for _, prepared in self._committed)))

    def read(self, limit: int) -> list[bytes]:
        """Messages of committed transactions that have arrived, at most about `limit`; never waits.

        Raises:
            DecodeError: a message is malformed.
            ConnectError: messages stand in an order that the protocol does not know, or the spool failed.
        """
        for _ in range(_BUSY_READS):
            if self._replay is not None:
                batch = list(islice(self._replay, limit))
                if batch:
                    return batch
                self._replay = None
            messages, self._pending = self._pending or self._source.read(limit), []
            self._kept = bool(messages)
            out = self._sort(messages)
            if out or not messages:
                return out
        return []

    def wait(self, seconds: float, *others: int) -> bool:
        """As the connection's; does not wait while it is known that there is more."""
        if self._replay is not None or self._pending or self._kept:
            return True
        return self._source.wait(seconds, *others)

    def close(self) -> None:
        """Forget what is unfinished: the server sends it again."""
        self._spool.close()

    def _sort(self, messages: list[bytes]) -> list[bytes]:
        """What goes on at once; up to the first commit of a kept transaction, whose messages are then `_replay`."""
        out: list[bytes] = []
        for place, data in enumerate(messages):
            if data[0] != XLOG_DATA or len(data) <= TAG:
                out.append(data)
                continue
            tag = data[TAG]
            if tag in _BOUNDARIES:
                self._boundary(data)
                if self._replay is not None:
                    self._pending = messages[place + 1 :]
                    break
            elif self._streaming is not None:
                self._keep_streamed(data, tag)
            elif self._preparing is not None:
                self._spool.append(self._preparing, self._preparing, data)
            else:
                out.append(data)
        return out

    def _keep_streamed(self, data: bytes, tag: int) -> None:
        assert self._streaming is not None
        if tag in _WITH_XID:
            if len(data) < _XID + 4:
                decode_message(data[TAG:], streaming=True)  # says what is wrong
            (subxid,) = _U32(data, _XID)
            self._spool.append(self._streaming, subxid, data[:_XID] + data[_XID + 4 :])
        elif tag == _ORIGIN and self._first_segment:
            self._spool.append(self._streaming, self._streaming, data)

    def _boundary(self, data: bytes) -> None:
        message = decode_message(data[TAG:])
        match message:
            case StreamStart():
                self._open(message.xid, data)
                self._streaming, self._first_segment = message.xid, message.first_segment
            case StreamStop():
                self._streaming = None
            case StreamAbort():
                if message.xid == message.subtransaction_xid:
                    self._forget(message.xid)
                else:
                    self._spool.abort(message.xid, message.subtransaction_xid)
            case StreamCommit():
                self._commit(message.xid, message.commit_lsn, message.end_lsn, message.commit_ts_us)
            case BeginPrepare():
                self._open(message.xid, data)
                self._preparing = message.xid
            case Prepare():
                self._preparing = None
                self._prepared[message.xid] = message.prepare_lsn
            case StreamPrepare():
                self._prepared[message.xid] = message.prepare_lsn
            case CommitPrepared():
                self._commit(message.xid, message.commit_lsn, message.end_lsn, message.commit_ts_us)
            case RollbackPrepared():
                self._forget(message.xid)
            case _:
                raise ConnectError(
                    f"pgoutput sent a message of kind {chr(data[TAG])!r}, which has no place in a stream"
                )

    def _open(self, xid: int, data: bytes) -> None:
        if self._streaming is not None or self._preparing is not None:
            raise ConnectError("pgoutput began a block of changes within another")
        if xid not in self._spool:
            self._first_lsn[xid] = data[1:9]
        self._spool.open(xid)

    def _forget(self, xid: int) -> None:
        self._spool.discard(xid)
        self._first_lsn.pop(xid, None)
        self._prepared.pop(xid, None)

    def _commit(self, xid: int, commit_lsn: int, end_lsn: int, commit_ts_us: int) -> None:
        if xid not in self._spool:
            raise ConnectError(
                f"transaction {xid} was committed at LSN {end_lsn}, but its changes were not sent",
                hint="the slot was moved past a PREPARE TRANSACTION by somebody else: a new snapshot is needed",
            )
        ts = commit_ts_us - POSTGRES_EPOCH_US
        first = self._first_lsn.pop(xid)
        begin = b"w" + first + first + struct.pack(">qcQqI", 0, b"B", commit_lsn, ts, xid)
        position = struct.pack(">Q", end_lsn)
        commit = b"w" + position + position + struct.pack(">qcBQQq", 0, b"C", 0, commit_lsn, end_lsn, ts)
        if xid in self._prepared:
            self._committed.append((end_lsn, self._prepared.pop(xid)))
        self._replay = chain((begin,), self._spool.messages(xid), (commit,))
