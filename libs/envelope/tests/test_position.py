"""Positions compare in commit order; LSNs are written as PostgreSQL writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.errors import DecodeError
from tidings_envelope.position import MAX_LSN, CommitPosition, lsn_from_text, lsn_to_text


def test_positions_are_ordered_by_commit_and_then_by_ordinal() -> None:
    assert sorted([CommitPosition(2, 1), CommitPosition(1, 9), CommitPosition(1, 2)]) == [
        CommitPosition(1, 2),
        CommitPosition(1, 9),
        CommitPosition(2, 1),
    ]


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
