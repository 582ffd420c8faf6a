"""Reads from the first records of a source's topics where its first snapshot and its first commit were.

A snapshot that does not know of a commit before it is the stream's first, or the stream has begun anew with it. Which of the
two can be told by what was written before; partitions are read in any order, so that is looked up.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of
from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.reading import Headers

FIRST_MARKERS = 100
"""Markers among which the first END is looked for; the first two are the first transaction's, as a rule."""


class FirstRecords(NamedTuple):
    """What is known of a history's beginning; None where there is no such thing."""

    commit_lsn: int | None = None
    """Of the first END."""
    snapshot_lsn: int | None = None
    """The lowest of the snapshots' rows with which the tables' partitions begin."""


NOTHING_KNOWN = FirstRecords()


_Record = tuple[bytes | None, Headers]
"""Value and headers."""


def look(decoder: EnvelopeDecoder, markers: Iterable[_Record], rows: Iterable[_Record]) -> FirstRecords:
    """What these say.

    Args:
        decoder: of the source's records.
        markers: the first records of the transaction topic, by value and headers.
        rows: the first record of each table's partition.
    """
    commits = (_commit(decoder, value, headers) for value, headers in markers if value)
    read = (_snapshot(decoder, value, headers) for value, headers in rows if value)
    snapshots = [lsn for lsn in read if lsn is not None]
    return FirstRecords(next((lsn for lsn in commits if lsn is not None), None), min(snapshots, default=None))


def _commit(decoder: EnvelopeDecoder, value: bytes, headers: Headers) -> int | None:
    try:
        marker = decoder.marker(value, headers)
        return None if marker is None or not marker.is_end else lsn_of(marker.id)
    except DecodeError:
        return None  # it becomes a dead letter when it is read


def _snapshot(decoder: EnvelopeDecoder, value: bytes, headers: Headers) -> int | None:
    try:
        envelope = decoder.envelope(value, headers)
        source = None if envelope is None else envelope.source
        if source is None or not source.is_snapshot or source.last_commit_lsn is not None:
            return None
    except DecodeError:
        return None  # as above
    return source.lsn
