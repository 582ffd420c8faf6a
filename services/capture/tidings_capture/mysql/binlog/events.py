"""Events of the binary log: bytes in, objects out. MariaDB's and MySQL's share most, and differ in their numbers else. Pure.

Format: MariaDB documentation, "Replication Protocol" and the events' pages below it; ``sql/log_event.h``.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidings_capture.mysql.binlog.gtid import Gtid
from tidings_capture.mysql.binlog.position import TransactionId
from tidings_capture.mysql.binlog.reader import Reader
from tidings_capture.mysql.errors import BinlogError

HEADER_BYTES: Final = 19
_CHECKSUM_BYTES: Final = 4
_CRC32: Final = 1

QUERY: Final = 2
STOP: Final = 3
ROTATE: Final = 4
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
TABLE_MAP: Final = 19
INCIDENT: Final = 26
XA_PREPARE: Final = 38
HEARTBEAT: Final = 27
ROWS_QUERY: Final = 29
MYSQL_GTID: Final = 33
ANONYMOUS_GTID: Final = 34
PREVIOUS_GTIDS: Final = 35
PARTIAL_UPDATE_ROWS: Final = 39
PAYLOAD: Final = 40
HEARTBEAT_V2: Final = 41
TAGGED_GTID: Final = 42
ANNOTATE_ROWS: Final = 160
BINLOG_CHECKPOINT: Final = 161
GTID: Final = 162
GTID_LIST: Final = 163
START_ENCRYPTION: Final = 164
QUERY_COMPRESSED: Final = 165
ROWS: Final = {
    23: ("c", 1, False), 24: ("u", 1, False), 25: ("d", 1, False),
    30: ("c", 2, False), 31: ("u", 2, False), 32: ("d", 2, False), 39: ("u", 2, False),
    166: ("c", 1, True), 167: ("u", 1, True), 168: ("d", 1, True),
    169: ("c", 2, True), 170: ("u", 2, True), 171: ("d", 2, True),
}  # fmt: skip
"""Events of rows: operation, version, and whether they are compressed."""
IGNORED: Final = frozenset({STOP, 5, 13, 14, PREVIOUS_GTIDS, 36, 37, BINLOG_CHECKPOINT, START_ENCRYPTION})
"""Which say nothing of rows: also values for statements (INTVAR, RAND, USER_VAR), whose statement is looked at itself; and MySQL's
PREVIOUS_GTIDS, TRANSACTION_CONTEXT and VIEW_CHANGE."""
STANDALONE: Final = 1
_GROUPED: Final = 2
"""Of a GTID's flags: it was committed with others, and has their number."""
PREPARES: Final = 64
COMPLETES: Final = 128
_IGNORABLE: Final = 0x80
"""Of the flags: a reader that does not know the event may pass over it."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event, with its header read and its checksum compared."""

    type: int
    timestamp: int
    """Seconds since the Unix epoch; 0 of artificial events."""
    server_id: int
    end_position: int
    """Where it ends in its file; 0 inside of transactions."""
    flags: int
    size: int
    """In the file, in bytes."""
    data: bytes
    """The whole event, without its checksum."""

    def reader(self, what: str) -> Reader:
        """Reads what stands behind the header."""
        return Reader(self.data, HEADER_BYTES, len(self.data), f"the event {what}")

    @property
    def ignorable(self) -> bool:
        """Whether whoever does not know it may pass over it."""
        return bool(self.flags & _IGNORABLE)


def header_of(data: bytes) -> tuple[int, int, int, int, int, int]:
    """Type, timestamp, server, size, end and flags of an event.

    Raises:
        BinlogError: the bytes end too early.
    """
    header = Reader(data, 0, len(data), "the header of an event")
    timestamp, kind, server = header.number(4), header.number(1), header.number(4)
    return kind, timestamp, server, header.number(4), header.number(4), header.number(2)


class EventReader:
    """Reads events, in the order of the stream: the format description says whether there are checksums."""

    def __init__(self) -> None:
        self._checked = True

    def read(self, packet: bytes) -> Event:
        """An event, from a packet of the replication stream without its first byte.

        Raises:
            BinlogError: it is malformed.
        """
        kind, timestamp, server, size, position, flags = header_of(packet)
        if size != len(packet):
            raise BinlogError(
                f"an event of type {kind} that ends at {position} has {len(packet)} bytes in place of {size}"
            )
        if kind == FORMAT_DESCRIPTION:
            self._checked = self._has_checksums(packet, position)
        data = packet
        if self._checked or kind == FORMAT_DESCRIPTION:
            data = packet[:-_CHECKSUM_BYTES]
            wrong = len(data) < HEADER_BYTES or zlib.crc32(data) != int.from_bytes(packet[-4:], "little")
            if wrong and kind == ROTATE and timestamp == 0:
                data = packet  # made up by the server for the beginning of the stream; may have none
            elif wrong and self._checked:
                raise BinlogError(f"the checksum of an event of type {kind} that ends at {position} is wrong")
        return Event(kind, timestamp, server, position, flags, size, data)

    def events(self, packet: bytes) -> Iterator[Event]:
        """The same, as MySQL's packets may hold several."""
        return iter((self.read(packet),))

    def _has_checksums(self, packet: bytes, position: int) -> bool:
        reader = Reader(packet, HEADER_BYTES, len(packet), "the event FORMAT_DESCRIPTION")
        version = reader.number(2)
        reader.skip(50 + 4)
        header = reader.number(1)
        if version != 4 or header != HEADER_BYTES:
            raise BinlogError(
                f"the binary log has format {version} with headers of {header} bytes, which is not supported"
            )
        if reader.left < 1 + _CHECKSUM_BYTES:
            raise reader.error("ends before its checksum")
        algorithm = packet[-_CHECKSUM_BYTES - 1]
        if algorithm not in {0, _CRC32}:
            raise BinlogError(f"the binary log has checksums of kind {algorithm} (at {position})")
        return algorithm == _CRC32


@dataclass(frozen=True, slots=True)
class Rotate:
    """The next events are of another file."""

    file: str
    position: int


def read_rotate(event: Event) -> Rotate:
    """Of a ROTATE."""
    reader = event.reader("ROTATE")
    position = reader.number(8)
    return Rotate(reader.decoded(reader.rest()), position)


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """A transaction begins; a single statement, where it stands alone."""

    gtid: TransactionId
    flags: int
    xid: str | None = None
    """Of a distributed transaction (XA): ``<format>-<global part>-<branch>``, the latter in hexadecimal digits."""
    thread: int | None = None
    """The server's number of the connection that ran it; None: the log does not say."""
    nanos: int = 0
    """When it was committed, since the Unix epoch, where the log names it and says so more exactly than in seconds."""
    micros: int = 0
    """The same, also where it has no name; 0: the log does not say."""

    @property
    def standalone(self) -> bool:
        """One statement, without an end of its own."""
        return bool(self.flags & STANDALONE)

    @property
    def prepares(self) -> bool:
        """Whether it prepares a distributed transaction (XA)."""
        return bool(self.flags & PREPARES)

    @property
    def completes(self) -> bool:
        """Whether it commits one, or rolls it back."""
        return bool(self.flags & COMPLETES)


@dataclass(frozen=True, slots=True)
class Begin(Event):
    """A transaction of MySQL's begins: the first event that says what it is, with the name before it."""

    begun: GtidEvent


def read_gtid(event: Event) -> GtidEvent:
    """Of a GTID, or of what begins a transaction of MySQL's."""
    if isinstance(event, Begin):
        return event.begun
    reader = event.reader("GTID")
    sequence, domain, flags = reader.number(8), reader.number(4), reader.number(1)
    xid = None
    if flags & _GROUPED:
        reader.skip(8)
    if flags & (PREPARES | COMPLETES):
        form, first, second = reader.number(4), reader.number(1), reader.number(1)
        xid = f"{form}-{reader.take(first).hex()}-{reader.take(second).hex()}"
    return GtidEvent(Gtid(domain, event.server_id, sequence), flags, xid)


def read_gtid_list(event: Event) -> list[Gtid]:
    """Of a GTID_LIST: the last of each domain and server before this file."""
    reader = event.reader("GTID_LIST")
    count = reader.number(4) & 0x0FFFFFFF
    found = []
    for _ in range(count):
        domain, server, sequence = reader.number(4), reader.number(4), reader.number(8)
        found.append(Gtid(domain, server, sequence))
    return found


def is_one_phase(event: Event) -> bool:
    """Whether an XA_PREPARE commits as well: ``XA COMMIT ... ONE PHASE``, which MySQL logs so."""
    return bool(event.reader("XA_PREPARE").number(1))


@dataclass(frozen=True, slots=True)
class Query:
    """A statement as text."""

    thread: int
    seconds: int
    """How long it took."""
    database: str
    statement: bytes
    """Never logged."""


def read_query(event: Event) -> Query:
    """Of a QUERY, compressed or not."""
    reader = event.reader("QUERY")
    thread, seconds = reader.number(4), reader.number(4)
    length = reader.number(1)
    reader.skip(2)
    reader.skip(reader.number(2))
    database = reader.take(length).decode("utf-8", "replace")
    reader.skip(1)
    if event.type == QUERY_COMPRESSED:
        return Query(thread, seconds, database, decompressed(reader))
    return Query(thread, seconds, database, reader.rest())


MOST_BYTES: Final = 1 << 30
"""No event is longer: ``max_allowed_packet`` allows for 1 GB."""


def decompressed(reader: Reader) -> bytes:
    """What a compressed event holds: a byte with the number of bytes of its length, the length, and zlib's bytes.

    Raises:
        BinlogError: it is not that.
    """
    head = reader.number(1)
    if head >> 4 & 7:
        raise reader.error(f"is compressed in a way that is not known ({head >> 4 & 7})")
    length = int.from_bytes(reader.take(head & 7), "big")
    if length > MOST_BYTES:
        raise reader.error(f"says that it holds {length} bytes")
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(reader.rest(), length + 1)
    except zlib.error:
        raise reader.error("cannot be decompressed") from None
    if len(data) != length:
        raise reader.error(f"holds other than {length} bytes, which it says")
    return data
