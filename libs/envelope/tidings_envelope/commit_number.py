"""Numbers that capture gives the commits of a log whose own ids have no order that outlasts a failover, which MySQL's have not.

A number is the microsecond of the commit on the server that ran it, and greater than the one before: each server that has the
transaction says the same, and the last number stands in the source offset. So numbers grow behind a failover, a restart and clocks
that go back, and a transaction that is read again has the number that it had. A commit's position is its number times 2**11;
the numbers below it, down to the commit before, are its rows'. A transaction of more rows takes the next numbers as well.
"""

from typing import Final

from tidings_envelope.errors import DecodeError

ROWS: Final = 1 << 11
"""Positions of a number."""
MOST: Final = (1 << 63) // ROWS - 1
"""The largest number, of the year 2112."""


def number_after(previous: int, micros: int) -> int:
    """The number of the next commit.

    Args:
        previous: the last number that is taken; 0: none is.
        micros: when the transaction was committed first, in microseconds since the Unix epoch.
    """
    return max(previous + 1, micros)


def last_number(number: int, events: int) -> int:
    """The last number that a transaction takes.

    Args:
        number: its own.
        events: how many it has.
    """
    return number + events // ROWS


def position_before(number: int) -> int:
    """Where the commit before a transaction is at the latest."""
    return (number - 1) * ROWS


def row_position(number: int, order: int) -> int:
    """Where a row of a transaction is; `order` is its ``total_order``."""
    return position_before(number) + order


def commit_position(number: int, events: int = 0) -> int:
    """Where a transaction with so many events is committed, behind all of them."""
    return last_number(number, events) * ROWS


def checked(number: int, events: int = 0) -> int:
    """A number that is read.

    Raises:
        DecodeError: it is not one, or a transaction with so many events has no position.
    """
    if not 0 < number <= last_number(number, max(events, 0)) <= MOST:
        raise DecodeError(f"a commit's number lies between 1 and {MOST}")
    return number
