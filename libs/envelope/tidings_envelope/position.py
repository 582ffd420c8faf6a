"""Commit positions: the only order there is.

PostgreSQL commits transactions one after the other, so (commit LSN, ordinal within the transaction) orders every row
change of a database. LSNs are unsigned 64-bit numbers; people write them ``16/B374D848`` (PostgreSQL documentation,
"pg_lsn Type").
"""

from typing import NamedTuple

from tidings_envelope.errors import DecodeError

MAX_LSN = 2**64 - 1


class StreamPosition(NamedTuple):
    """Where a record of a table stands among those of its key, by what it says itself; compares as a tuple.

    Within a partition without repetitions that is the order of offsets. It is needed where records come again after a
    crash, or from several partitions.
    """

    last_commit_lsn: int
    """The last commit before its transaction, or before a row was read."""
    lsn: int
    """LSN of the change, or the stream's when a row was read."""
    is_read: bool
    """A row that was read is newer than the change at its own place."""


def place_in_stream(
    snapshot: str, last_commit_lsn: int | None, lsn: int, *, snapshot_lsn: int = 0
) -> StreamPosition:
    """The one rule by which changes and rows that snapshots read are ordered.

    A row that was read has its place in the stream: it is newer than what was committed before it, and older than what
    was committed after it. Real Debezium and our capture say the same: a row of an incremental snapshot has no LSN, but
    the stream's place in its ``sequence``; so has a row of a blocking one, whose own LSN may be ahead of the stream, which
    then brings once more what the row shows. Only a stream's first snapshot knows no commit: it stands at its own LSN,
    where the stream begins.

    Args:
        snapshot: ``source.snapshot``.
        last_commit_lsn: the first part of ``source.sequence``; None before the first commit that the stream saw.
        lsn: ``source.lsn``, or where it has none the second part of ``source.sequence``.
        snapshot_lsn: of the snapshot that stands before the record in its partition. A transaction may have written rows
            before it and committed after it.
    """
    if snapshot in ("false", "incremental"):
        commit = max(snapshot_lsn, lsn) if last_commit_lsn is None else last_commit_lsn
        return StreamPosition(commit, lsn, snapshot != "false")
    return StreamPosition(lsn if last_commit_lsn is None else last_commit_lsn, 0, is_read=True)


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
        DecodeError: the text is not an LSN.
    """
    high, slash, low = text.partition("/")
    try:
        parts = int(high, 16), int(low, 16)
    except ValueError as error:
        raise DecodeError("an LSN is written as two hexadecimal numbers around a slash") from error
    if not slash or not all(0 <= part <= 0xFFFFFFFF for part in parts):
        raise DecodeError("an LSN is written as two hexadecimal numbers around a slash")
    return parts[0] << 32 | parts[1]
