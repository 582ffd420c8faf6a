"""Positions compare in commit order; LSNs are written as PostgreSQL writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.errors import DecodeError
from tidings_envelope.position import (
    MAX_LSN,
    CommitPosition,
    StreamPosition,
    lsn_from_text,
    lsn_to_text,
    place_in_stream,
)


def test_positions_are_ordered_by_commit_and_then_by_ordinal() -> None:
    assert sorted([CommitPosition(2, 1), CommitPosition(1, 9), CommitPosition(1, 2)]) == [
        CommitPosition(1, 2),
        CommitPosition(1, 9),
        CommitPosition(2, 1),
    ]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (("false", 10, 20), ("incremental", 10, 20)),
        (("false", 10, 20), ("incremental", 25, 30)),
        (("incremental", 25, 30), ("false", 35, 33)),
        # A blocking snapshot whose LSN is ahead of the stream: what follows brings its rows once more.
        (("false", 10, 20), ("last", 25, 90)),
        (("last", 25, 90), ("false", 25, 80)),
        # A stream's first snapshot, and a transaction that began before it and was committed after it.
        (("first", None, 100), ("false", None, 90)),
        (("false", None, 90), ("false", 110, 95)),
        (("false", None, 120), ("false", 130, 95)),
        (("false", 90, 95), ("first", None, 100)),
        # The first transaction of a new stream without a snapshot.
        (("false", 500, 510), ("false", None, 900)),
        (("false", None, 900), ("incremental", None, 900)),
    ],
)
def test_what_was_read_has_its_place_in_the_stream(
    older: tuple[str, int | None, int], newer: tuple[str, int | None, int]
) -> None:
    assert place_in_stream(*older, snapshot_lsn=100) < place_in_stream(*newer, snapshot_lsn=100)
    assert isinstance(place_in_stream(*newer), StreamPosition)


def test_an_lsn_is_two_hexadecimal_numbers() -> None:
    assert lsn_to_text(0x16B374D848) == "16/B374D848"
    assert lsn_from_text("16/B374D848") == 0x16B374D848
    assert lsn_from_text("0/0") == 0


@given(st.integers(min_value=0, max_value=MAX_LSN))
def test_an_lsn_survives_its_text(lsn: int) -> None:
    assert lsn_from_text(lsn_to_text(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "16", "16/", "/1", "x/1", "1/x", "-1/1", "1/100000000", "1/2/3"])
def test_anything_else_is_no_lsn(text: str) -> None:
    with pytest.raises(DecodeError, match="two hexadecimal numbers"):
        lsn_from_text(text)


@pytest.mark.parametrize("lsn", [-1, MAX_LSN + 1])
def test_an_lsn_is_unsigned_and_has_64_bits(lsn: int) -> None:
    with pytest.raises(DecodeError, match="unsigned 64-bit"):
        lsn_to_text(lsn)
