"""Numbers of commits grow whatever clocks say, and positions are in the order of commits and rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.commit_number import (
    MOST,
    checked,
    commit_position,
    last_number,
    number_after,
    position_before,
    row_position,
)
from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.commit import HEADER, commit_of

_MICROS = st.integers(0, 1 << 51)
_EVENTS = st.integers(0, 1 << 30)


def numbers_of(last: int, transactions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each transaction's number and the last that it takes, behind a number."""
    found = []
    for micros, events in transactions:
        number = number_after(last, micros)
        last = last_number(number, events)
        found.append((number, last))
    return found


@given(st.lists(st.tuples(_MICROS, _EVENTS), min_size=1, max_size=20), st.integers(0, 20))
def test_positions_grow_and_are_the_same_behind_a_restart(
    transactions: list[tuple[int, int]], at: int
) -> None:
    """Every clock may go back, and be behind another server's."""
    numbers = numbers_of(0, transactions)
    behind = 0
    for (number, _), (_, events) in zip(numbers, transactions, strict=True):
        before, commit = position_before(number), commit_position(number, events)
        assert behind <= before < commit < 1 << 63
        if events:
            assert before < row_position(number, 1) <= row_position(number, events) < commit
        behind = commit
    stored = numbers[at - 1][1] if 0 < at <= len(numbers) else 0
    if at <= len(numbers):
        assert numbers_of(stored, transactions[at:]) == numbers[at:]


@given(st.lists(_MICROS, min_size=1).map(sorted))
def test_a_number_is_its_commits_time_where_clocks_go_on(micros: list[int]) -> None:
    """So that nothing that is stored is needed to number them again."""
    distinct = sorted({one for one in micros if one})
    assert [number for number, _ in numbers_of(0, [(one, 5) for one in distinct])] == distinct


@pytest.mark.parametrize(
    "text", [None, b"", b"0", b"-1", b"x", b"1.0", b"%d" % (MOST + 1), b"9" * 30, "٣".encode()]
)
def test_what_is_no_number_is_refused(text: bytes | None) -> None:
    with pytest.raises(DecodeError):
        commit_of([("a", b"1"), (HEADER, text)])


def test_a_header_says_it() -> None:
    assert commit_of([("a", None), (HEADER, b"%d" % MOST)]) == MOST
    assert commit_of([("a", None)]) is None
    with pytest.raises(DecodeError):
        checked(MOST, 1 << 11)
