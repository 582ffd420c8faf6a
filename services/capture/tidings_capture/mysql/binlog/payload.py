"""TRANSACTION_PAYLOAD: the events of a transaction, compressed as a whole (``binlog_transaction_compression``). Pure.

Format: ``libs/mysql/binlog/event/codecs/binary.cpp`` and ``Transaction_payload_event``; the events have no checksums of their own.
"""

import io
from collections.abc import Iterator
from typing import Any, Final

import zstandard

from tidings_capture.mysql.binlog.events import HEADER_BYTES, MOST_BYTES, Event, header_of
from tidings_capture.mysql.binlog.reader import Reader

_END, _SIZE, _METHOD, _PLAIN_SIZE = range(4)
_ZSTD: Final = 0
_NONE: Final = 255
_MOST_WINDOW: Final = 1 << 27
"""Of zstd's memory, in bytes."""


def payload_events(event: Event) -> Iterator[Event]:
    """The events, one after the other, as if each stood where all of them do.

    Raises:
        BinlogError: it is malformed.
    """
    reader = event.reader("TRANSACTION_PAYLOAD")
    source, left = _opened(reader)
    try:
        while head := _read(source, HEADER_BYTES):
            if len(head) < HEADER_BYTES:
                raise reader.error("ends in an event's header")
            kind, timestamp, server, size, _, flags = header_of(head)
            if not HEADER_BYTES <= size <= MOST_BYTES:
                raise reader.error(f"has an event of {size} bytes")
            body = _read(source, size - HEADER_BYTES)
            if len(body) != size - HEADER_BYTES:
                raise reader.error("ends in an event")
            if left is not None and (left := left - size) < 0:
                raise reader.error("holds more than it says")
            yield Event(kind, timestamp, server, event.end_position, flags, event.size, head + body)
    except zstandard.ZstdError:
        raise reader.error("cannot be decompressed") from None
    if left:
        raise reader.error(f"holds {left} bytes less than it says")


def _opened(reader: Reader) -> tuple[Any, int | None]:
    """The bytes of the events, and how many they are to be."""
    fields: dict[int, int] = {}
    while (field := reader.packed()) != _END:
        data = reader.sized()
        fields[field] = Reader(data, 0, len(data), f"TRANSACTION_PAYLOAD: field {field}").packed()
    data = reader.rest()
    if fields.get(_SIZE, len(data)) != len(data):
        raise reader.error(f"has {len(data)} bytes in place of {fields[_SIZE]}")
    method = fields.get(_METHOD, _ZSTD)
    if method not in {_ZSTD, _NONE}:
        raise reader.error(f"is compressed in a way that is not known ({method})")
    if method == _NONE:
        return io.BytesIO(data), fields.get(_PLAIN_SIZE)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
    return decompressor.stream_reader(io.BytesIO(data), read_across_frames=True), fields.get(_PLAIN_SIZE)


def _read(source: Any, count: int) -> bytes:
    parts = []
    while count and (part := source.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
