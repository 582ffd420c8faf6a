"""The pgoutput decoder: every message whole, cut short at every byte, with bytes behind it, and made of noise."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.postgres.wire.pgoutput import (
    POSTGRES_EPOCH_US,
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    DecodeError,
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
    decode_message,
)

BIG = 0xFFFFFFFF
"""An oid or xid that is negative to whoever reads it as signed."""
BIG_LSN = 0xFFFFFFFF_FFFFFFFE


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def tuple_data(cells: Cells) -> bytes:
    parts = [struct.pack(">H", len(cells))]
    for cell in cells:
        if cell is None:
            parts.append(b"n")
        elif isinstance(cell, bytes):
            parts.append(b"t" + struct.pack(">I", len(cell)) + cell)
        else:
            parts.append(b"u")
    return b"".join(parts)


CELLS: Cells = [b"1", None, UNCHANGED, b"", "é".encode(), b"x" * 300]
TUPLE = tuple_data(CELLS)
OID = struct.pack(">I", BIG)

MESSAGES: list[tuple[bytes, Message]] = [
    (b"B" + struct.pack(">QqI", BIG_LSN, 5, BIG), Begin(BIG_LSN, POSTGRES_EPOCH_US + 5, BIG)),
    (b"C\0" + struct.pack(">QQq", 1, BIG_LSN, -5), Commit(1, BIG_LSN, POSTGRES_EPOCH_US - 5)),
    (b"O" + struct.pack(">Q", 9) + text("origin"), Origin(9, "origin")),
    (
        b"R" + OID + text("public") + text("täble") + b"d" + struct.pack(">H", 2)
        + b"\1" + text("id") + struct.pack(">Ii", 20, -1) + b"\0" + text("price") + struct.pack(">Ii", BIG, 655366),
        Relation(
            BIG, "public", "täble", "d", (RelationColumn("id", 20, -1, True), RelationColumn("price", BIG, 655366, False))
        ),
    ),
    (b"Y" + OID + text("public") + text("mood"), Type(BIG, "public", "mood")),
    (b"I" + OID + b"N" + TUPLE, Insert(BIG, CELLS)),
    (b"U" + OID + b"N" + TUPLE, Update(BIG, None, None, CELLS)),
    (b"U" + OID + b"K" + TUPLE + b"N" + TUPLE, Update(BIG, "K", CELLS, CELLS)),
    (b"U" + OID + b"O" + TUPLE + b"N" + TUPLE, Update(BIG, "O", CELLS, CELLS)),
    (b"D" + OID + b"K" + TUPLE, Delete(BIG, "K", CELLS)),
    (b"D" + OID + b"O" + TUPLE, Delete(BIG, "O", CELLS)),
    (b"T" + struct.pack(">IBII", 2, 3, 1, BIG), Truncate(True, True, (1, BIG))),
    (b"M\1" + struct.pack(">Q", 7) + text("prefix") + struct.pack(">I", 2) + b"\0\xff", LogicalMessage(True, 7, "prefix", b"\0\xff")),
    (b"S" + struct.pack(">IB", BIG, 1), StreamStart(BIG, True)),
    (b"E", StreamStop()),
    (b"c" + struct.pack(">IBQQq", BIG, 0, 1, 2, 3), StreamCommit(BIG, 1, 2, POSTGRES_EPOCH_US + 3)),
    (b"A" + struct.pack(">II", BIG, 5), StreamAbort(BIG, 5)),
    (b"b" + struct.pack(">QQqI", 1, BIG_LSN, 2, BIG) + text("gid"), BeginPrepare(1, BIG_LSN, POSTGRES_EPOCH_US + 2, BIG, "gid")),
    (b"P\0" + struct.pack(">QQqI", 1, BIG_LSN, 2, BIG) + text("gid"), Prepare(1, BIG_LSN, POSTGRES_EPOCH_US + 2, BIG, "gid")),
    (b"p\0" + struct.pack(">QQqI", 1, BIG_LSN, 2, BIG) + text("gid"), StreamPrepare(1, BIG_LSN, POSTGRES_EPOCH_US + 2, BIG, "gid")),
    (b"K\0" + struct.pack(">QQqI", 1, BIG_LSN, 2, BIG) + text("gid"), CommitPrepared(1, BIG_LSN, POSTGRES_EPOCH_US + 2, BIG, "gid")),
    (
        b"r\0" + struct.pack(">QQqqI", 1, BIG_LSN, 2, 3, BIG) + text("gid"),
        RollbackPrepared(1, BIG_LSN, POSTGRES_EPOCH_US + 2, POSTGRES_EPOCH_US + 3, BIG, "gid"),
    ),
]  # fmt: skip
IDS = [f"{message[:1].decode()} {type(expected).__name__}" for message, expected in MESSAGES]


@pytest.mark.parametrize(("data", "expected"), MESSAGES, ids=IDS)
def test_every_message_is_decoded(data: bytes, expected: Message) -> None:
    assert decode_message(data) == expected


@pytest.mark.parametrize(("data", "expected"), MESSAGES, ids=IDS)
def test_a_message_cut_short_anywhere_is_refused(data: bytes, expected: Message) -> None:
    for size in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            decode_message(data[:size])
        assert caught.value.offset <= size
        assert caught.value.tag == data[:size][:1].decode()


@pytest.mark.parametrize(("data", "expected"), MESSAGES, ids=IDS)
def test_bytes_behind_a_message_are_refused(data: bytes, expected: Message) -> None:
    with pytest.raises(DecodeError, match="too many"):
        decode_message(data + b"\0")


def test_parallel_streaming_tells_where_and_when_a_transaction_was_aborted() -> None:
    data = b"A" + struct.pack(">IIQq", BIG, 5, BIG_LSN, 7)
    assert decode_message(data) == StreamAbort(BIG, 5, BIG_LSN, POSTGRES_EPOCH_US + 7)
    for size in [*range(9), *range(10, len(data))]:
        with pytest.raises(DecodeError):
            decode_message(data[:size])
    with pytest.raises(DecodeError, match="too many"):
        decode_message(data + b"\0")


STREAMED = [(data, expected) for data, expected in MESSAGES if data[:1] in b"RYIUDTM"]


@pytest.mark.parametrize(("data", "expected"), STREAMED)
def test_messages_of_a_streamed_transaction_carry_its_xid(data: bytes, expected: Any) -> None:
    streamed = data[:1] + OID + data[1:]
    assert decode_message(streamed, streaming=True) == replace(expected, xid=BIG)


@pytest.mark.parametrize(
    ("data", "problem", "offset"),
    [
        (b"", "empty message", 0),
        (b"Z", "unknown tag", 0),
        (b"I" + OID + b"K" + TUPLE, "expected 'N'", 5),
        (b"I" + OID + b"N\0\1b\0\0\0\0", "unknown kind of column value 'b'", 8),
        (b"U" + OID + b"X" + TUPLE, "unknown kind of tuple 'X'", 5),
        (b"D" + OID + b"N" + TUPLE, "unknown kind of tuple 'N'", 5),
        (b"I" + OID + b"N\0\1t\xff\xff\xff\xffx", "needs 4294967295 more bytes, has 1", 13),
        (b"T" + struct.pack(">IB", BIG, 0), "needs 17179869180 more bytes, has 0", 6),
        (b"Y" + OID + b"public", "a string has no end", 5),
        (b"Y" + OID + b"\xff\0x\0", "a string is not UTF-8", 5),
    ],
)
def test_a_malformed_message_says_what_is_wrong_and_where(data: bytes, problem: str, offset: int) -> None:
    with pytest.raises(DecodeError, match=problem) as caught:
        decode_message(data)
    assert caught.value.offset == offset


def offset_of_refusal(data: bytes, *, streaming: bool = False) -> int:
    """Where decoding failed; the end where it did not."""
    try:
        decode_message(data, streaming=streaming)
    except DecodeError as error:
        return error.offset
    return len(data)


@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused_or_decoded_but_nothing_else(data: bytes, streaming: bool) -> None:
    refused_at = offset_of_refusal(data, streaming=streaming)
    assert 0 <= refused_at <= len(data)


@given(st.sampled_from(MESSAGES), st.data())
def test_a_damaged_message_is_refused_or_decoded_but_nothing_else(message: Any, data: st.DataObject) -> None:
    damaged = bytearray(message[0])
    for position in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=5)):
        damaged[position] = data.draw(st.integers(0, 255))
    assert 0 <= offset_of_refusal(bytes(damaged)) <= len(damaged)


cells = st.lists(st.none() | st.just(UNCHANGED) | st.binary(max_size=400), max_size=20)


@given(st.integers(0, BIG), st.sampled_from("KO"), cells, cells)
def test_tuples_survive_the_wire(oid: int, kind: str, old: Cells, new: Cells) -> None:
    head = struct.pack(">I", oid)
    assert decode_message(b"U" + head + kind.encode() + tuple_data(old) + b"N" + tuple_data(new)) == Update(
        oid, kind, old, new
    )
