"""What a statement of the log is, by its first words; nothing else of it is looked at. Pure."""

import re
from enum import Enum
from typing import Final

from tidings_capture.mysql.errors import UnsupportedError

_SKIPPED: Final = re.compile(rb"(?:\s+|/\*(?!!|M!).*?\*/|/\*M?!\d*|--[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_WORDS: Final = re.compile(rb"([A-Za-z_]+)(?:\s+([A-Za-z_]+))?")
_ROWS: Final = frozenset(
    {
        "INSERT",
        "UPDATE",
        "DELETE",
        "REPLACE",
        "LOAD",
        "CALL",
        "WITH",
        "DO",
        "SELECT",
        "IMPORT",
        "MERGE",
        "EXECUTE",
    }
)
_LOOKED_AT: Final = 4096


class Kind(Enum):
    """What a statement does to what is read."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    BACK_TO_SAVEPOINT = "back to savepoint"
    XA = "xa"
    """Within a distributed transaction."""
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"
    ROWS = "rows"
    """Changes rows, as a statement: which rows, the log does not say."""
    OTHER = "other"
    """Changes no row: definitions, rights."""


def refuse_rows(kind: Kind, where: str) -> None:
    """See that a statement does not change rows: which, the log does not say.

    Raises:
        UnsupportedError: it does.
    """
    if kind in {Kind.ROWS, Kind.BACK_TO_SAVEPOINT}:
        raise UnsupportedError(
            f"{where} is a change that the log tells as a statement, not by rows",
            hint="SET GLOBAL binlog_format=ROW; sessions that are open keep what they had. Then take a new snapshot",
        )


def kind_of(statement: bytes) -> Kind:
    """What a statement is."""
    head = statement[:_LOOKED_AT]
    start = _SKIPPED.match(head)
    match = _WORDS.match(head, start.end() if start else 0)
    if match is None:
        return Kind.ROWS  # nobody knows what it is
    first, second = (match[1] or b"").decode().upper(), (match[2] or b"").decode().upper()
    simple = {"COMMIT": Kind.COMMIT, "SAVEPOINT": Kind.SAVEPOINT}
    if first == "XA":
        return {"COMMIT": Kind.XA_COMMIT, "ROLLBACK": Kind.XA_ROLLBACK}.get(second, Kind.XA)
    if first in simple:
        return simple[first]
    if first == "ROLLBACK":
        return Kind.BACK_TO_SAVEPOINT if second in {"TO", "WORK"} else Kind.ROLLBACK
    if first == "BEGIN":
        return Kind.ROWS if second == "NOT" else Kind.BEGIN
    return Kind.ROWS if first in _ROWS else Kind.OTHER
