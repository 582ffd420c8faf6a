"""Commit positions: the only order there is.

PostgreSQL commits transactions one after the other, so (commit LSN, ordinal within the transaction) orders every row
change of a database. LSNs are unsigned 64-bit numbers; people write them ``16/B374D848`` (PostgreSQL documentation,
"pg_lsn Type").
"""

from typing import NamedTuple

from tidings_envelope.errors import DecodeError

MAX_LSN = 2**64 - 1


class CommitPosition(NamedTuple):
    """A row change's place in its database's history; compares as a tuple."""

    commit_lsn: int
    """The position after the commit record, as in the END marker's id."""
    ordinal: int
    """``transaction.total_order``: 1-based number of the event in its transaction."""


def lsn_to_text(lsn: int) -> str:
    """Writes an LSN as PostgreSQL does: ``16/B374D848``."""
    if not 0 <= lsn <= MAX_LSN:
        raise DecodeError("an LSN is an unsigned 64-bit number")
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_from_text(text: str) -> int:
    """Reads ``16/B374D848``.

    Raises:
        DecodeError: the text is no LSN.
    """
    high, slash, low = text.partition("/")
    try:
        parts = int(high, 16), int(low, 16)
    except ValueError as error:
        raise DecodeError("an LSN is written as two hexadecimal numbers around a slash") from error
    if not slash or not all(0 <= part <= 0xFFFFFFFF for part in parts):
        raise DecodeError("an LSN is written as two hexadecimal numbers around a slash")
    return parts[0] << 32 | parts[1]
