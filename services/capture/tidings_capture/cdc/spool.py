"""Changes of transactions that have not been committed yet: in memory up to a limit, above it in files.

Every transaction has a buffer of frames; when all buffers together pass the limit, the biggest is written to the end of
its transaction's file. The files have no name, so that the system frees them whatever becomes of the process; they are in
``TMPDIR``, or the system's directory for temporary files where that is not set. A frame: the subtransaction's id and the length of the message as
two unsigned 32-bit numbers, then the message.
"""

import os
import struct
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final

from tidings_connect.errors import ConnectError
from tidings_service import Retry
from tidings_service.disk import DEFAULT_FREE_BYTES, DiskBudget, NoRoomError

MOST_DISK: Final = "tidings.spool.max.bytes"
FREE_DISK: Final = "tidings.spool.free.bytes"
"""The worker's properties of `Spool`'s two bounds on disk."""
_FRAME: Final = struct.Struct(">II")
_CHUNK: Final = 1 << 18
"""How many bytes of a file are read at once."""
_TAG: Final = 25
_DESCRIPTIONS: Final = frozenset(b"RY")


class SpoolError(ConnectError):
    """A transaction's changes could not be kept on disk."""

    code = "spool"
    default_retry = Retry.TIMED


class _Transaction:
    __slots__ = ("aborted", "buffer", "file", "length")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.file: BinaryIO | None = None
        self.length = 0
        """Of the file."""
        self.aborted: set[int] = set()


class Spool:
    """The changes of transactions in progress, by the top-level transaction's id. For one thread.

    Args:
        limit: bytes kept in memory, of all transactions together.
        disk_bytes: bytes kept in files, of all transactions together; None: as many as there is room for.
        free_bytes: of the files' disk, which must be left free.
    """

    def __init__(
        self, limit: int, disk_bytes: int | None = None, free_bytes: int = DEFAULT_FREE_BYTES
    ) -> None:
        self._limit = limit
        self._budget = DiskBudget(directory_for_spilled(), disk_bytes, free_bytes, (MOST_DISK, FREE_DISK))
        self._transactions: dict[int, _Transaction] = {}
        self._size = 0
        self.spilled_bytes = 0
        """Written to files so far."""

    @property
    def disk_bytes(self) -> int:
        """Held in files now, of all transactions together."""
        return self._budget.used_bytes

    @property
    def memory_bytes(self) -> int:
        """Held in memory, of all transactions together."""
        return self._size

    def __len__(self) -> int:
        return len(self._transactions)

    def __contains__(self, xid: int) -> bool:
        return xid in self._transactions

    def open(self, xid: int) -> None:
        """Begin a transaction; nothing happens when it has begun."""
        if xid not in self._transactions:
            self._transactions[xid] = _Transaction()

    def append(self, xid: int, subxid: int, message: bytes) -> None:
        """Keep a message of a transaction that has begun.

        Raises:
            SpoolError: the disk is full or failed.
        """
        self._transactions[xid].buffer += _FRAME.pack(subxid, len(message)) + message
        self._size += _FRAME.size + len(message)
        if self._size > self._limit:
            self._spill()

    def abort(self, xid: int, subxid: int) -> None:
        """A subtransaction was rolled back: its changes are left out."""
        found = self._transactions.get(xid)
        if found is not None:
            found.aborted.add(subxid)

    def discard(self, xid: int) -> None:
        """The whole transaction was rolled back, or has been taken."""
        found = self._transactions.pop(xid, None)
        if found is not None:
            self._size -= len(found.buffer)
            if found.file is not None:
                found.file.close()
                self._budget.give_back(found.length)

    def messages(self, xid: int) -> Iterator[bytes]:
        """The transaction's messages in order, without those of aborted subtransactions; then it is discarded.

        Relation and Type messages are kept in any case: the server may not repeat one that an aborted subtransaction
        caused. The transaction gets nothing more once this has begun.

        Raises:
            SpoolError: a file could not be read.
        """
        found = self._transactions[xid]
        try:
            if found.file is not None:
                yield from _frames(_chunks(found), found.aborted)
            yield from _frames(iter((bytes(found.buffer),)), found.aborted)
        finally:
            self.discard(xid)

    def close(self) -> None:
        """Forget everything."""
        for xid in list(self._transactions):
            self.discard(xid)

    def _spill(self) -> None:
        biggest = max(self._transactions.values(), key=lambda transaction: len(transaction.buffer))
        try:
            self._budget.take(len(biggest.buffer))
            if biggest.file is None:
                biggest.file = tempfile.TemporaryFile(  # noqa: SIM115 - kept open
                    prefix="tidings-capture-", dir=directory_for_spilled(), buffering=0
                )
            assert biggest.file is not None
            view = memoryview(biggest.buffer)
            written = 0
            while written < len(view):
                written += biggest.file.write(view[written:])
            view.release()
        except NoRoomError as error:
            raise SpoolError(
                f"a transaction in progress cannot be kept on disk: {error}", hint=error.hint
            ) from error
        except OSError as error:
            raise _failed(error) from error
        self.spilled_bytes += written
        self._size -= written
        biggest.length += written
        biggest.buffer = bytearray()


def directory_for_spilled() -> str:
    """Where files go that hold what does not fit into memory."""
    # tempfile alone would go on to /tmp, which may be memory, where TMPDIR cannot be written.
    return os.environ.get("TMPDIR") or tempfile.gettempdir()


def _failed(error: OSError) -> SpoolError:
    return SpoolError(
        f"a transaction in progress cannot be kept in {directory_for_spilled()}: {error.strerror}",
        hint="give TMPDIR a directory with room, or set tidings.streaming.mode=off",
    )


def _chunks(transaction: _Transaction) -> Iterator[bytes]:
    assert transaction.file is not None
    try:
        transaction.file.seek(0)
        left = transaction.length
        while left:
            chunk = transaction.file.read(min(left, _CHUNK))
            if not chunk:
                raise SpoolError("a file of a transaction in progress is shorter than what was written to it")
            left -= len(chunk)
            yield chunk
    except OSError as error:
        raise _failed(error) from error


def _frames(chunks: Iterator[bytes], aborted: set[int]) -> Iterator[bytes]:
    head, rest = _FRAME.size, b""
    for chunk in chunks:
        data, position = rest + chunk, 0
        end = len(data)
        while end - position >= head:
            subxid, length = _FRAME.unpack_from(data, position)
            start = position + head
            if end - start < length:
                break
            position = start + length
            message = data[start:position]
            if subxid not in aborted or message[_TAG] in _DESCRIPTIONS:
                yield message
        rest = data[position:]
