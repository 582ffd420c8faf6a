"""Events of MySQL that name a transaction: GTID, and GTID_TAGGED of MySQL 8.3 and later. Pure.

Format: ``libs/mysql/binlog/event/control_events.h``; of the latter ``libs/mysql/serialization``: numbers of variable length, each
field with its number before it.
"""

from typing import Final, NamedTuple
from uuid import UUID

from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.gtid_set import MySqlGtid
from tidings_capture.mysql.binlog.reader import Reader

_CLOCK: Final = 2
"""Behind it stand the numbers of the logical clock, and times."""
_ORIGINAL: Final = 1 << 55
"""Of a time: that of the server which ran the transaction first follows."""
_FLAGS, _UUID_FIELD, _NUMBER, _TAG, _COMMITTED, _SEQUENCE, _IMMEDIATE, _FIRST = range(8)


class Named(NamedTuple):
    """The name of the transaction that follows."""

    gtid: MySqlGtid
    micros: int
    """When it was committed first, since the Unix epoch; 0: the log does not say."""


def read_mysql_gtid(event: Event) -> Named:
    """Of a GTID, and of what stands in its place where the log names no transactions: its id says nothing.

    Raises:
        BinlogError: it is malformed.
    """
    reader = event.reader("GTID")
    reader.skip(1)
    server, number = str(UUID(bytes=reader.take(16))), reader.number(8)
    micros = 0
    if reader.left and reader.number(1) == _CLOCK and reader.left >= 16 + 7:
        reader.skip(16)
        micros = reader.number(7)
        if micros & _ORIGINAL:
            micros = reader.number(7)
    return Named(MySqlGtid(server, "", number), micros)


def read_tagged_gtid(event: Event) -> Named:
    """Of a GTID_TAGGED.

    Raises:
        BinlogError: it is malformed, or of a later version.
    """
    reader = event.reader("GTID_TAGGED")
    if _number(reader) != 1:
        raise reader.error("is of a version that is not known")
    _number(reader)
    _number(reader)
    fields: dict[int, int] = {}
    server, tag = b"", ""
    while reader.left:
        field = _number(reader)
        if field == _UUID_FIELD:
            server = bytes(_number(reader) & 255 for _ in range(16))
        elif field == _TAG:
            tag = reader.decoded(reader.take(_number(reader)))
        elif field > _FIRST:
            break
        else:
            fields[field] = _number(reader)
    if not server or _NUMBER not in fields:
        raise reader.error("does not name its transaction")
    number = fields[_NUMBER]
    if number & 1:
        raise reader.error("has a negative number")
    return Named(
        MySqlGtid(str(UUID(bytes=server)), tag, number >> 1), fields.get(_FIRST, fields.get(_IMMEDIATE, 0))
    )


def _number(reader: Reader) -> int:
    """Of one to nine bytes: so many ones stand at the end of the first as bytes follow."""
    first = reader.number(1)
    more = (first ^ (first + 1)).bit_length() - 1
    if more >= 8:
        return reader.number(8)
    return (first | reader.number(more) << 8) >> (more + 1)
