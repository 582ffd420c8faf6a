"""The offsets file of a standalone worker, in the form Kafka Connect keeps it (`FileOffsetBackingStore`).

It is a serialised ``java.util.HashMap`` of byte arrays: the format is in Oracle's "Java Object Serialization
Specification", chapter 6, what a HashMap writes in its Javadoc ("Serialized Form"). Keys and values are those of the
offsets topic (a connector), so that a standalone worker moves from Kafka Connect to Tidings and back as well.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tidings_connect.errors import OffsetError

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
_FIRST_HANDLE: Final = 0x7E0000
_LOAD_FACTOR: Final = 0.75


def _class(name: bytes, version: int, flags: int, fields: bytes) -> bytes:
    head = bytes([_CLASS]) + struct.pack(">H", len(name)) + name
    return head + struct.pack(">QB", version, flags) + fields + bytes([_END, _NULL])


_HASH_MAP: Final = _class(
    b"java.util.HashMap",
    0x0507DAC1C31660D1,
    3,  # serialisable, with data of its own
    b"\x00\x02F\x00\x0aloadFactorI\x00\x09threshold",
)
_BYTES: Final = _class(b"[B", 0xACF317F8060854E0, 2, b"\x00\x00")
_BYTES_AGAIN: Final = bytes([_REFERENCE]) + struct.pack(">I", _FIRST_HANDLE + 2)
"""The array class is the third thing in the stream that has a handle, after HashMap's class and the map."""


def encode_offsets(offsets: Mapping[bytes, bytes | None]) -> bytes:
    """A file's content."""
    buckets = 16
    while buckets * _LOAD_FACTOR < len(offsets):
        buckets *= 2
    parts = [
        _MAGIC,
        bytes([_OBJECT]),
        _HASH_MAP,
        struct.pack(">fi", _LOAD_FACTOR, int(buckets * _LOAD_FACTOR)),
        bytes([_BLOCK, 8]),
        struct.pack(">ii", buckets, len(offsets)),
    ]
    class_of_array = _BYTES
    for item in (part for pair in offsets.items() for part in pair):
        if item is None:
            parts.append(bytes([_NULL]))
            continue
        parts += [bytes([_ARRAY]), class_of_array, struct.pack(">i", len(item)), item]
        class_of_array = _BYTES_AGAIN
    return b"".join([*parts, bytes([_END])])


def decode_offsets(data: bytes) -> dict[bytes, bytes]:
    """The offsets in a file; deleted ones (null) are left out, and an empty file holds none.

    Raises:
        OffsetError: it is not a serialised map of byte arrays.
    """
    if not data:
        return {}
    try:
        return _decode(data)
    except (struct.error, IndexError, KeyError) as error:
        raise OffsetError("the offsets file is cut off or damaged") from error


def _decode(data: bytes) -> dict[bytes, bytes]:
    start = _MAGIC + bytes([_OBJECT]) + _HASH_MAP
    if not data.startswith(start):
        raise OffsetError("the offsets file is not a serialised java.util.HashMap")
    at = len(start) + 8
    if data[at : at + 2] != bytes([_BLOCK, 8]):
        raise OffsetError("the offsets file is damaged: the map's size is missing")
    _buckets, size = struct.unpack_from(">ii", data, at + 2)
    at += 10
    known: list[bytes | None] = [None, None]
    """What has a handle; classes and the map count, too."""
    items: list[bytes | None] = []
    for _ in range(2 * size):
        item, at = _item(data, at, known)
        items.append(item)
    if data[at] != _END:
        raise OffsetError("the offsets file is damaged: the map does not end")
    pairs = zip(items[::2], items[1::2], strict=True)
    return {key: value for key, value in pairs if key is not None and value is not None}


def _item(data: bytes, at: int, known: list[bytes | None]) -> tuple[bytes | None, int]:
    kind = data[at]
    if kind == _NULL:
        return None, at + 1
    if kind == _REFERENCE:
        (handle,) = struct.unpack_from(">I", data, at + 1)
        return known[handle - _FIRST_HANDLE], at + 5
    if kind != _ARRAY:
        raise OffsetError("the offsets file holds something other than bytes")
    at += 1
    if data.startswith(_BYTES, at):
        known.append(None)
        at += len(_BYTES)
    elif data.startswith(_BYTES_AGAIN, at):
        at += len(_BYTES_AGAIN)
    else:
        raise OffsetError("the offsets file holds something other than bytes")
    (length,) = struct.unpack_from(">i", data, at)
    at += 4
    item = data[at : at + length]
    if length < 0 or len(item) < length:
        raise OffsetError("the offsets file is cut off")
    known.append(item)
    return item, at + length


def read_offsets(path: Path) -> dict[bytes, bytes]:
    """What a file holds; nothing when there is none.

    Raises:
        OffsetError: it cannot be read or understood; names the file.
    """
    try:
        return decode_offsets(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OffsetError(f"offset.storage.file.filename={path} cannot be read: {error.strerror}") from error
    except OffsetError as error:
        raise OffsetError(f"offset.storage.file.filename={path}: {error}") from error


class OffsetFile:
    """Writes offsets; looks like `AcknowledgedProducer` to `Checkpoints`. Several tasks may write to one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:  # noqa: ARG002
        """Store one offset; `topic` is not used.

        Raises:
            OffsetError: the file cannot be read or written; names it.
        """
        try:
            with self._path.with_name(self._path.name + ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                offsets: dict[bytes, bytes | None] = dict(read_offsets(self._path))
                offsets[key] = value
                if value is None:
                    del offsets[key]
                self._replace(encode_offsets(offsets))
        except OSError as error:
            raise OffsetError(
                f"offset.storage.file.filename={self._path} cannot be written: {error.strerror}"
            ) from error
        on_stored()

    def put_and_wait(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Store one offset; None deletes it.

        Raises:
            OffsetError: the file cannot be read or written; names it.
        """
        self.put(topic, key, value, lambda: None)

    def poll(self) -> None:
        """Nothing is under way."""

    def flush(self, seconds: float) -> None:
        """Nothing is under way."""

    def _replace(self, content: bytes) -> None:
        """The old content or the new, whatever happens, also to the machine."""
        fresh = self._path.with_name(self._path.name + ".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
