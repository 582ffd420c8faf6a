"""Decodes ``pgoutput`` messages: bytes in, a message out, no I/O and no state.

Strategy: a dictionary from the message's tag to its reader; a reader takes the fields in order from a `Reader` that
checks every bound. A message that is too short, too long, or holds an unknown tag or kind is a `DecodeError` with the
tag and the offset; nothing is ever guessed. Format: PostgreSQL documentation, "Logical Replication Message Formats"
(protocol versions 1 to 4).
"""

import struct
from collections.abc import Callable
from typing import Final

from tidings_capture.cdc.cells import UNCHANGED, Cell, Cells, Unchanged
from tidings_capture.postgres.wire.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RelationColumn,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)
from tidings_service.errors import Retry, TidingsError

__all__ = [
    "UNCHANGED",
    "Begin",
    "BeginPrepare",
    "Cell",
    "Cells",
    "Commit",
    "CommitPrepared",
    "DecodeError",
    "Delete",
    "Insert",
    "LogicalMessage",
    "Message",
    "Origin",
    "Prepare",
    "Relation",
    "RelationColumn",
    "RollbackPrepared",
    "StreamAbort",
    "StreamCommit",
    "StreamPrepare",
    "StreamStart",
    "StreamStop",
    "Truncate",
    "Type",
    "Unchanged",
    "Update",
    "decode_message",
]

XLOG_DATA: Final = ord("w")
"""The first byte of a CopyData message with a pgoutput message in it."""
TAG: Final = 25
"""Where the pgoutput message starts in such a message."""
POSTGRES_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 in microseconds since the Unix epoch."""

_U16 = struct.Struct(">H").unpack_from
_U32 = struct.Struct(">I").unpack_from
_I32 = struct.Struct(">i").unpack_from
_U64 = struct.Struct(">Q").unpack_from
_I64 = struct.Struct(">q").unpack_from

_PARALLEL_ABORT: Final = 16
"""How many bytes more a StreamAbort has with ``streaming 'parallel'``: nothing else tells."""
_NULL, _UNCHANGED, _TEXT = b"nut"
_OLD_KEY, _OLD_ROW, _NEW = b"KON"


class DecodeError(TidingsError):
    """A pgoutput message is not what the protocol says; names the message's tag and the offset in it."""

    code = "pgoutput"
    default_retry = Retry.NEVER

    def __init__(self, problem: str, *, tag: str, offset: int) -> None:
        super().__init__(f"pgoutput message {tag!r}: {problem} at offset {offset}")
        self.tag = tag
        """The message's first byte, as a character."""
        self.offset = offset
        """Where reading failed, in bytes from the message's start."""


class Reader:
    """Takes fields off the front of a message, never past its end."""

    __slots__ = ("data", "position", "tag")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tag = chr(data[0])
        self.position = 1

    def fail(self, problem: str) -> DecodeError:
        return DecodeError(problem, tag=self.tag, offset=self.position)

    def take(self, size: int) -> int:
        """Moves over `size` bytes and returns where they start."""
        start = self.position
        if len(self.data) - start < size:
            raise self.fail(f"needs {size} more bytes, has {len(self.data) - start}")
        self.position = start + size
        return start

    def u8(self) -> int:
        return self.data[self.take(1)]

    def u16(self) -> int:
        value: int = _U16(self.data, self.take(2))[0]
        return value

    def u32(self) -> int:
        value: int = _U32(self.data, self.take(4))[0]
        return value

    def i32(self) -> int:
        value: int = _I32(self.data, self.take(4))[0]
        return value

    def u64(self) -> int:
        value: int = _U64(self.data, self.take(8))[0]
        return value

    def time_us(self) -> int:
        """A timestamp in microseconds since the Unix epoch."""
        value: int = _I64(self.data, self.take(8))[0]
        return value + POSTGRES_EPOCH_US

    def octets(self, size: int) -> bytes:
        start = self.take(size)
        return self.data[start : start + size]

    def text(self) -> str:
        """A zero-terminated UTF-8 string."""
        end = self.data.find(0, self.position)
        if end < 0:
            raise self.fail("a string has no end")
        raw = self.data[self.position : end]
        try:
            value = raw.decode()
        except UnicodeDecodeError as error:
            raise self.fail("a string is not UTF-8") from error
        self.position = end + 1
        return value

    def cell(self) -> Cell:
        kind = self.u8()
        if kind == _TEXT:
            return self.octets(self.u32())
        if kind == _NULL:
            return None
        if kind == _UNCHANGED:
            return UNCHANGED
        self.position -= 1
        raise self.fail(f"unknown kind of column value {chr(kind)!r}")

    def cells(self) -> Cells:
        """TupleData."""
        return [self.cell() for _ in range(self.u16())]

    def expect(self, kind: int) -> None:
        if self.u8() != kind:
            self.position -= 1
            raise self.fail(f"expected {chr(kind)!r}")


def _begin(reader: Reader, _: int | None) -> Begin:
    return Begin(reader.u64(), reader.time_us(), reader.u32())


def _commit(reader: Reader, _: int | None) -> Commit:
    reader.u8()  # flags: none are defined
    return Commit(reader.u64(), reader.u64(), reader.time_us())


def _relation(reader: Reader, xid: int | None) -> Relation:
    oid, schema, name = reader.u32(), reader.text(), reader.text()
    identity = chr(reader.u8())
    columns = tuple(_relation_column(reader) for _ in range(reader.u16()))
    return Relation(oid, schema, name, identity, columns, xid)


def _relation_column(reader: Reader) -> RelationColumn:
    flags = reader.u8()
    name = reader.text()
    return RelationColumn(name, reader.u32(), reader.i32(), bool(flags & 1))


def _type(reader: Reader, xid: int | None) -> Type:
    return Type(reader.u32(), reader.text(), reader.text(), xid)


def _origin(reader: Reader, _: int | None) -> Origin:
    return Origin(reader.u64(), reader.text())


def _insert(reader: Reader, xid: int | None) -> Insert:
    oid = reader.u32()
    reader.expect(_NEW)
    return Insert(oid, reader.cells(), xid)


def _update(reader: Reader, xid: int | None) -> Update:
    oid = reader.u32()
    kind = reader.u8()
    if kind == _NEW:
        return Update(oid, None, None, reader.cells(), xid)
    old_kind = _old_kind(reader, kind)
    old = reader.cells()
    reader.expect(_NEW)
    return Update(oid, old_kind, old, reader.cells(), xid)


def _delete(reader: Reader, xid: int | None) -> Delete:
    oid = reader.u32()
    old_kind = _old_kind(reader, reader.u8())
    return Delete(oid, old_kind, reader.cells(), xid)


def _old_kind(reader: Reader, kind: int) -> str:
    if kind not in (_OLD_KEY, _OLD_ROW):
        reader.position -= 1
        raise reader.fail(f"unknown kind of tuple {chr(kind)!r}")
    return chr(kind)


def _truncate(reader: Reader, xid: int | None) -> Truncate:
    count, options = reader.u32(), reader.u8()
    start = reader.take(4 * count)  # checked before the loop: a damaged count must not allocate
    oids = struct.unpack_from(f">{count}I", reader.data, start)
    return Truncate(bool(options & 1), bool(options & 2), oids, xid)


def _logical_message(reader: Reader, xid: int | None) -> LogicalMessage:
    transactional = bool(reader.u8() & 1)
    return LogicalMessage(transactional, reader.u64(), reader.text(), reader.octets(reader.u32()), xid)


def _stream_start(reader: Reader, _: int | None) -> StreamStart:
    return StreamStart(reader.u32(), bool(reader.u8()))


def _stream_stop(_reader: Reader, _: int | None) -> StreamStop:
    return StreamStop()


def _stream_commit(reader: Reader, _: int | None) -> StreamCommit:
    xid = reader.u32()
    reader.u8()  # flags: none are defined
    return StreamCommit(xid, reader.u64(), reader.u64(), reader.time_us())


def _stream_abort(reader: Reader, _: int | None) -> StreamAbort:
    xid, subtransaction_xid = reader.u32(), reader.u32()
    if len(reader.data) - reader.position != _PARALLEL_ABORT:
        return StreamAbort(xid, subtransaction_xid)
    return StreamAbort(xid, subtransaction_xid, reader.u64(), reader.time_us())


def _begin_prepare(reader: Reader, _: int | None) -> BeginPrepare:
    return BeginPrepare(reader.u64(), reader.u64(), reader.time_us(), reader.u32(), reader.text())


def _prepare(reader: Reader, _: int | None) -> Prepare:
    reader.u8()  # flags: none are defined
    return Prepare(reader.u64(), reader.u64(), reader.time_us(), reader.u32(), reader.text())


def _stream_prepare(reader: Reader, _: int | None) -> StreamPrepare:
    reader.u8()  # flags: none are defined
    return StreamPrepare(reader.u64(), reader.u64(), reader.time_us(), reader.u32(), reader.text())


def _commit_prepared(reader: Reader, _: int | None) -> CommitPrepared:
    reader.u8()  # flags: none are defined
    return CommitPrepared(reader.u64(), reader.u64(), reader.time_us(), reader.u32(), reader.text())


def _rollback_prepared(reader: Reader, _: int | None) -> RollbackPrepared:
    reader.u8()  # flags: none are defined
    return RollbackPrepared(
        reader.u64(), reader.u64(), reader.time_us(), reader.time_us(), reader.u32(), reader.text()
    )


_READERS: Final[dict[str, Callable[[Reader, int | None], Message]]] = {
    "B": _begin,
    "C": _commit,
    "R": _relation,
    "Y": _type,
    "O": _origin,
    "I": _insert,
    "U": _update,
    "D": _delete,
    "T": _truncate,
    "M": _logical_message,
    "S": _stream_start,
    "E": _stream_stop,
    "c": _stream_commit,
    "A": _stream_abort,
    "b": _begin_prepare,
    "P": _prepare,
    "p": _stream_prepare,
    "K": _commit_prepared,
    "r": _rollback_prepared,
}
_WITH_XID: Final = frozenset("RYIUDTM")
"""Messages that carry the transaction's id first when they are part of a streamed transaction (protocol 2)."""


def decode_message(data: bytes, *, streaming: bool = False) -> Message:
    """Decodes one message.

    Args:
        data: the message from its tag byte on, without the XLogData header.
        streaming: whether the message stands between a StreamStart and a StreamStop.

    Raises:
        DecodeError: the bytes are not exactly one message.
    """
    if not data:
        raise DecodeError("empty message", tag="", offset=0)
    reader = Reader(data)
    read = _READERS.get(reader.tag)
    if read is None:
        raise DecodeError("unknown tag", tag=reader.tag, offset=0)
    xid = reader.u32() if streaming and reader.tag in _WITH_XID else None
    message = read(reader, xid)
    if reader.position != len(data):
        raise reader.fail(f"{len(data) - reader.position} bytes too many")
    return message
