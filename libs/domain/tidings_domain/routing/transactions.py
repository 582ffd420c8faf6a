"""Defines what the router gets: transactions and snapshot rows in stream order, and where the stream is. Pure data."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tidings_domain.changes import RowChange
from tidings_envelope.envelope import Envelope


class Rows(Protocol):
    """The rows of one transaction by `total_order`; they can be iterated several times, in memory or on disk."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Envelope]: ...


class CompleteTransaction(NamedTuple):
    """All rows of the tables that are read, by `total_order`; on disk until the next one is asked for, if they are many."""

    txid: int
    commit_lsn: int
    rows: Rows
    silent: bool = False
    """It was committed while a snapshot with which the stream begins anew was read: nobody knows what of it is news."""


class SnapshotRow(NamedTuple):
    """A row that was read by a snapshot; belongs to no transaction."""

    envelope: Envelope
    commit_lsn: int | None = None
    """The last commit before it in the stream, where that is known better than by the row itself."""
    begins_anew: bool = False
    """Nobody has told of what was committed before it, so nothing of its aggregate is known but what this snapshot reads."""


class TooLarge(NamedTuple):
    """What a transaction did to one aggregate, where that fits into no record; `size` is of its rows in bytes."""

    aggregate: str
    id: str
    commit_lsn: int
    txid: int | None
    size: int


class Buckets(Protocol):
    """Keeps the row changes of one large transaction outside memory, all changes of an aggregate in one bucket."""

    def __len__(self) -> int: ...

    def add(self, bucket: int, aggregate: str, id_: str, change: RowChange) -> None:
        """Put a row change into a bucket."""

    def read(
        self, bucket: int, most_bytes: int, too_large: dict[tuple[str, str], int]
    ) -> Iterator[tuple[str, str, RowChange]]:
        """The changes of a bucket in the order in which they were added.

        Args:
            bucket: its number, from 0.
            most_bytes: of one aggregate's changes, encoded; those beyond are left out.
            too_large: receives the aggregates of which changes were left out, with the bytes of all of them.
        """

    def close(self) -> None:
        """Discard them."""


class StreamPosition(Protocol):
    """Where the stream of transactions is, as the router reads it; its owner is whoever puts transactions together."""

    @property
    def commit_lsn(self) -> int | None:
        """Commit LSN of the last transaction that came out; None before the first."""

    @property
    def snapshot_open(self) -> bool:
        """Snapshot rows came out, and it is not known yet that these were all."""


class _Beginning(NamedTuple):
    commit_lsn: int | None = None
    snapshot_open: bool = True


AT_THE_BEGINNING: StreamPosition = _Beginning()
"""Before the first transaction."""
