"""MySQL's events of any bytes: values, or an error of the log; never another error, and never more memory than they say."""

import contextlib
import random
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import HEADER_BYTES, Event
from tidings_capture.mysql.binlog.gtid_set import GtidSet
from tidings_capture.mysql.binlog.mysql_events import MySqlEvents
from tidings_capture.mysql.binlog.mysql_gtid_events import read_mysql_gtid, read_tagged_gtid
from tidings_capture.mysql.binlog.partial_rows import changed_text
from tidings_capture.mysql.binlog.payload import payload_events
from tidings_capture.mysql.binlog.row_code import TableRows, read_rows_event
from tidings_capture.mysql.binlog.table_map import LoggedColumn, TableMap
from tidings_capture.mysql.encoding.fields import FieldOptions, StructFields, row_field
from tidings_capture.mysql.encoding.row_encoder import IRREGULAR, RowEncoder
from tidings_capture.mysql.errors import BinlogError, UnsupportedError
from tidings_capture.mysql.schemas.catalog import Column
from tidings_connect.converters.encoding import JsonConverter
from tidings_envelope import semantic
from tidings_envelope.json_codec import JsonCodec

GTID, GTID_TAGGED = 33, 42


def event(kind: int, body: bytes) -> Event:
    """An event as the reader gives it."""
    return Event(kind, 1, 1, 99, 0, HEADER_BYTES + len(body), bytes(HEADER_BYTES) + body)


@given(st.binary(max_size=80))
def test_a_transactions_name(body: bytes) -> None:
    for read, kind in ((read_mysql_gtid, GTID), (read_tagged_gtid, GTID_TAGGED)):
        with contextlib.suppress(BinlogError):
            read(event(kind, body))


@given(st.binary(max_size=120))
def test_a_payload_of_any_bytes(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        for one in payload_events(event(log.PAYLOAD, body)):
            assert len(one.data) <= log.MOST_BYTES


INNER = b"".join(
    (1).to_bytes(4, "little") + bytes([kind]) + (1).to_bytes(4, "little") + (HEADER_BYTES + size).to_bytes(4, "little")
    + bytes(6) + b"x" * size
    for kind, size in ((2, 30), (19, 40), (30, 100), (16, 8))
)  # fmt: skip


def payload(data: bytes, method: int, plain: int) -> bytes:
    """A payload's fields, and its bytes."""

    def field(number: int, value: int) -> bytes:
        packed = b"\xfc" + value.to_bytes(2, "little")
        return bytes([number, len(packed)]) + packed

    return field(1, len(data)) + field(2, method) + field(3, plain) + b"\0" + data


@given(st.sampled_from([0, 255]), st.randoms(use_true_random=False))
def test_a_payload_that_is_cut_off_or_changed(method: int, chance: random.Random) -> None:
    """Each event of it is one that was there, or the payload is an error."""
    data = zstandard.ZstdCompressor().compress(INNER) if method == 0 else INNER
    whole = [one.data for one in payload_events(event(log.PAYLOAD, payload(data, method, len(INNER))))]
    assert b"".join(whole) == INNER
    cut = data[: chance.randrange(len(data))]
    with pytest.raises(BinlogError):
        list(payload_events(event(log.PAYLOAD, payload(cut, method, len(INNER)))))
    changed = bytearray(data)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    with contextlib.suppress(BinlogError):
        list(payload_events(event(log.PAYLOAD, payload(bytes(changed), method, len(INNER)))))


@given(st.binary(max_size=120))
def test_a_packet_of_any_bytes(packet: bytes) -> None:
    with contextlib.suppress(BinlogError, UnsupportedError):
        list(MySqlEvents(GtidSet.read("")).events(packet))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_changes_of_a_document(before: bytes, changes: bytes) -> None:
    with contextlib.suppress(BinlogError, ValueError, IndexError, struct.error):
        changed_text(before, changes)


KINDS = (
    ("a", "int", 3, 0), ("b", "varchar", 15, 60), ("c", "decimal", 246, 10 << 8 | 2), ("d", "datetime", 18, 3), ("e", "timestamp", 17, 6),
    ("f", "text", 252, 2), ("g", "double", 5, 8), ("h", "date", 10, 0), ("i", "time", 19, 2), ("j", "bigint", 8, 0),
)  # fmt: skip


def encoder() -> tuple[RowEncoder, TableRows]:
    """The direct way and the other one, for a table of some types."""
    logged = tuple(
        LoggedColumn(name, kind, meta, True, collation=45 if declared in {"varchar", "text"} else None)
        for name, declared, kind, meta in KINDS
    )
    columns = [
        Column(
            name,
            declared,
            declared,
            True,
            None,
            None,
            None,
            None,
            10,
            2,
            meta & 255,
            generated=False,
            virtual=False,
        )
        for name, declared, _, meta in KINDS
    ]
    decoders = [bytes.decode if column.collation else None for column in logged]
    fields = [(index, row_field(column, FieldOptions())) for index, column in enumerate(columns)]
    row = StructFields(
        semantic.struct("t.Value", [(f.name, f.schema) for _, f in fields]).as_optional(), fields
    )
    converter = JsonConverter(JsonCodec(), schemas_enable=False)
    mapped = TableMap(1, "d", "t", logged, (), has_names=True, has_signs=True)
    return RowEncoder(logged, decoders, row, None, "t", (converter, converter)), TableRows(mapped, decoders)


ENCODER, ROWS = encoder()


@given(st.binary(max_size=120))
def test_rows_of_any_bytes_are_encoded_as_the_other_way_reads_them(data: bytes) -> None:
    """The direct way gives rows where the other one gives as many, or says that it has to be asked."""
    try:
        direct = ENCODER.read(data, 0, len(data))
    except IRREGULAR:
        return
    head = (7).to_bytes(6, "little") + b"\0\0\2\0" + bytes([len(KINDS)]) + b"\xff\x03"
    assert len(ROWS.read(read_rows_event(event(30, head + data)), "here")) == len(direct)


def test_a_row_that_ends_within_the_changes_of_a_document_is_named() -> None:
    columns = (LoggedColumn("j", 245, 4, True),)
    rows = TableRows(TableMap(1, "d", "t", columns, ()), [None])
    text = b"\x0c\x01a"  # the JSON text "a"
    before = b"\0" + len(text).to_bytes(4, "little") + text
    changes = b"\0\x01$"  # a replacement of the document by nothing
    after = b"\x01\x01" + b"\0" + len(changes).to_bytes(4, "little") + changes
    head = (7).to_bytes(6, "little") + b"\0\0\2\0" + b"\x01\x01\x01"
    with pytest.raises(BinlogError, match=r"of an event at b\.01, 5 cannot be read as one of d\.t"):
        rows.read(read_rows_event(event(log.PARTIAL_UPDATE_ROWS, head + before + after)), "b.01, 5")
