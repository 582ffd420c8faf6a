"""Defines transactions that wait for rows, and how far each partition was read.
Pure data; `assembler` has the logic.
"""

from collections import deque
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.envelope import TransactionMarker
from tidings_envelope.headers.left_out import LeftOut
from tidings_envelope.position import lsn_to_text
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.kept_snapshots import KeptSnapshots
from tidings_translator.sequencer.assembly.spill import PlacedRow, SpilledRows


class LostTransaction(NamedTuple):
    """A transaction that can't be completed, because something of it is missing for good; for the dead letters as a whole."""

    txid: int
    commit_lsn: int | None
    rows: Iterable[PlacedRow]
    reason: str
    end: tuple[Partition, int] | None = None
    """Where its END marker was read."""
    may_be_old: bool = False
    """Newer rows with the same keys may have come out already: it is a row that the engine has perhaps written again."""


Assembled = CompleteTransaction | SnapshotRow | LostTransaction


class OpenTransaction:
    """A transaction of which something is missing."""

    __slots__ = (
        "bytes",
        "counts",
        "done",
        "end_at",
        "end_lsn",
        "end_ts_ms",
        "ended_at",
        "ends",
        "failed",
        "follower_bytes",
        "followers",
        "last_commit_lsn",
        "looked_at",
        "missing",
        "needed",
        "places",
        "rows",
        "since",
        "spilled",
        "txid",
        "wants_ends",
    )

    def __init__(self, txid: int, since: float) -> None:
        self.txid = txid
        self.since = since
        self.rows: dict[int, PlacedRow] = {}
        """Those in memory, by `total_order`."""
        self.bytes = 0
        """Of memory that these take, about."""
        self.follower_bytes = 0
        self.spilled: SpilledRows | None = None
        self.followers: list[tuple[Partition, int, SnapshotRow]] = []
        """Snapshot rows, with partition and offset, that were read behind its rows and must not overtake it."""
        self.counts: dict[str, int] = {}
        self.places: dict[Partition, list[int]] = {}
        """Partition to [number of rows, offset of the last one]."""
        self.last_commit_lsn: int | None = None
        self.end_lsn: int | None = None
        self.end_at: tuple[Partition, int] | None = None
        """Where its END was read."""
        self.end_ts_ms = 0
        """Its commit time, milliseconds since 1970, by the database's clock; known after END."""
        self.ended_at = since
        """When its END was read."""
        self.needed: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        """Rows by table that capture has told will not come."""
        self.wants_ends = False
        """Its rows are late: ask where the partitions end."""
        self.ends: dict[Partition, int] = {}
        """Where the partitions of its tables ended after its END was read, once somebody has asked."""
        self.looked_at: float | None = None
        """When these had been read, and rows were still missing."""
        self.missing = 0
        self.done = False

    def end(
        self,
        marker: TransactionMarker,
        end_lsn: int,
        at: tuple[Partition, int],
        now: float,
        tables: Container[str],
        left_out: LeftOut | None,
    ) -> None:
        """Take its END: how many rows of `tables` it needs, less those that capture says to have left out."""
        self.end_lsn, self.end_at, self.ended_at = end_lsn, at, now
        self.end_ts_ms = marker.ts_ms
        filtered = {} if left_out is None else left_out.filtered
        for collection in marker.data_collections or ():
            table = collection.data_collection
            count = collection.event_count - filtered.get(table, 0)
            if count > 0 and table in tables:
                self.needed[table] = count
        if left_out is not None and left_out.failed:
            self.failed = {t: n for t, n in left_out.failed.items() if t in self.needed}
        self.missing = sum(self.short().values())

    def short(self) -> dict[str, int]:
        """Table to number of rows that have not come; only known after END."""
        counts = self.counts
        return {t: n - counts.get(t, 0) for t, n in self.needed.items() if n > counts.get(t, 0)}

    def spill(self, directory: Path | None) -> int:
        """Move the rows in memory to disk; how many they are.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        rows, self.rows = self.rows, {}
        if rows:
            if self.spilled is None:
                self.spilled = SpilledRows(directory)
            self.spilled.add(rows)
        return len(rows)

    def placed(self) -> Iterable[PlacedRow]:
        """All rows, by `total_order`; of those on disk, all must be."""
        if self.spilled is not None:
            assert not self.rows
            return self.spilled.placed()
        return [self.rows[order] for order in sorted(self.rows)]

    def __str__(self) -> str:
        where = "" if self.end_lsn is None else f" (commit {lsn_to_text(self.end_lsn)})"
        return f"transaction {self.txid}{where}"


class Place:
    """How far a partition has been read, and the transactions that still need records of it, oldest first."""

    __slots__ = ("buffered", "latest", "next_offset", "runs", "snapshots", "streaming", "table")

    def __init__(self, table: str | None, next_offset: int) -> None:
        self.table = table
        self.next_offset = next_offset
        self.buffered = 0
        self.streaming = False
        """A row from after the snapshot was read, so all of the snapshot's rows of this partition were."""
        self.runs: deque[tuple[int, OpenTransaction]] = deque()
        self.snapshots: KeptSnapshots | None = None
        """Rows of snapshots that the stream has not come to yet; None when there are none."""
        self.latest: OpenTransaction | None = None
        """The one whose row was read last."""

    def youngest(self) -> OpenTransaction | None:
        """The last transaction that still needs records of this partition."""
        return next((transaction for _, transaction in reversed(self.runs) if not transaction.done), None)

    def needed_from(self) -> int:
        """The offset from which it must be read again after a restart."""
        runs = self.runs
        while runs and runs[0][1].done:
            runs.popleft()
        first = runs[0][0] if runs else self.next_offset
        if self.snapshots is None or (kept := self.snapshots.needed_from()) is None:
            return first
        return min(first, kept)
