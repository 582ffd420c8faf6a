"""The tests' statements, as older MySQLs take them: they are written for the one that is pinned (`TIDINGS_STACK_MYSQL_HOME`)."""

import re
import struct
from typing import Final

_RENAMED: Final = (8, 2)
TAGS: Final = (8, 3)
VECTORS: Final = (9, 0)
_VECTOR: Final = re.compile(r"\bVECTOR\((\d+)\)")
_MADE: Final = re.compile(r"STRING_TO_VECTOR\('\[([^]]*)\]'\)")


def version_of(text: str) -> tuple[int, int]:
    """Of what ``VERSION()`` says."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def written_for(version: tuple[int, int], statement: str) -> str:
    """A statement that does the same there: a vector is its bytes, and a transaction has no tag."""
    if version < VECTORS:
        statement = _VECTOR.sub(lambda found: f"VARBINARY({4 * int(found[1])})", statement)
        statement = _MADE.sub(lambda found: f"x'{_bytes(found[1]).hex()}'", statement)
    if version < TAGS:
        statement = statement.replace("'AUTOMATIC:tagged'", "'AUTOMATIC'")
    if version < _RENAMED:
        statement = statement.replace("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
        statement = statement.replace("RESET BINARY LOGS AND GTIDS", "RESET MASTER")
    return statement


def _bytes(numbers: str) -> bytes:
    return b"".join(struct.pack("<f", float(number)) for number in numbers.split(","))
