"""Reads from the first records of a source's topics where its first snapshot and its first commit were.

A snapshot that does not know of a commit before it is the stream's first, or the stream has begun anew with it. Which of the
two can be told by what was written before; partitions are read in any order, so that is looked up.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of
from tidings_envelope.errors import DecodeError

FIRST_MARKERS = 100
"""Markers among which the first END is looked for; the first two are the first transaction's, as a rule."""


class FirstRecords(NamedTuple):
    """What is known of a history's beginning; None where there is no such thing."""

    commit_lsn: int | None = None
    """Of the first END."""
    snapshot_lsn: int | None = None
    """The lowest of the snapshots' rows with which the tables' partitions begin."""


NOTHING_KNOWN = FirstRecords()


def look(
    decoder: EnvelopeDecoder, markers: Iterable[bytes | None], rows: Iterable[bytes | None]
) -> FirstRecords:
    """What these say.

    Args:
        decoder: of the source's records.
        markers: the first values of the transaction topic.
        rows: the first value of each table's partition.
    """
    commits = (_commit(decoder, value) for value in markers if value)
    snapshots = [lsn for value in rows if value and (lsn := _snapshot(decoder, value)) is not None]
    return FirstRecords(next((lsn for lsn in commits if lsn is not None), None), min(snapshots, default=None))


def _commit(decoder: EnvelopeDecoder, value: bytes) -> int | None:
    try:
        marker = decoder.marker(value)
        return lsn_of(marker.id) if marker.is_end else None
    except DecodeError:
        return None  # it becomes a dead letter when it is read


def _snapshot(decoder: EnvelopeDecoder, value: bytes) -> int | None:
    try:
        envelope = decoder.envelope(value)
        source = None if envelope is None else envelope.source
        if source is None or not source.is_snapshot or source.last_commit_lsn is not None:
            return None
    except DecodeError:
        return None  # as above
    return source.lsn
