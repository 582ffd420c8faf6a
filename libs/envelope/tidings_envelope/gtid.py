"""MariaDB's global transaction ids, and the commit positions that they stand for: see `tidings_envelope.binlog`."""

import re
from typing import Final, NamedTuple

from tidings_envelope.errors import DecodeError

ROWS: Final = 1 << 24
"""Positions between two commits."""
MAX_SEQUENCE: Final = (1 << 63) // ROWS - 1
PATTERN: Final = "([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,12})"
"""Domain, server and sequence, as a regular expression of Python and of Java."""
_TEXT: Final = re.compile(PATTERN)


class Gtid(NamedTuple):
    """The id of a transaction."""

    domain: int
    server: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"

    @property
    def commit_position(self) -> int:
        """Where it was committed, as a number that compares."""
        return self.sequence * ROWS


def gtid_of(text: str) -> Gtid:
    """Reads ``0-1-42``.

    Raises:
        DecodeError: the text is not a GTID with a sequence that has a position.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise DecodeError("a GTID is written domain-server-sequence")
    gtid = Gtid(*map(int, match.groups()))
    if not 0 < gtid.sequence <= MAX_SEQUENCE:
        raise DecodeError(f"a GTID's sequence lies between 1 and {MAX_SEQUENCE}")
    return gtid
