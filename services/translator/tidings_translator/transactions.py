"""What assembling transactions is made of: transactions that wait for rows, how far each partition was read, and what must
survive a restart. Pure data; `assembly` has the logic.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidings_envelope.envelope import Envelope
from tidings_envelope.position import lsn_to_text
from tidings_translator.records import Partition
from tidings_translator.snapshot_hold import HeldSnapshots
from tidings_translator.spill import PlacedRow, SpilledRows


class CompleteTransaction(NamedTuple):
    """All rows of the tables that are read, by `total_order`; on disk until the next one is asked for, if they are many."""

    txid: int
    commit_lsn: int
    rows: list[Envelope] | SpilledRows
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


class LostTransaction(NamedTuple):
    """A transaction that can't be completed, because something of it is missing for good; for the dead letters as a whole."""

    txid: int
    commit_lsn: int | None
    rows: Iterable[PlacedRow]
    reason: str
    end: tuple[Partition, int] | None = None
    """Where its END marker was read."""


Assembled = CompleteTransaction | SnapshotRow | LostTransaction


class UnreadableRow(msgspec.Struct, frozen=True, array_like=True):
    """Where a row was that nobody could read, and what is known of its transaction."""

    topic: str
    partition: int
    offset: int
    after: int = 0
    """The last commit before the transaction of the row in front of it, so its own is not before that."""

    @property
    def at(self) -> tuple[Partition, int]:
        return Partition(self.topic, self.partition), self.offset

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} offset {self.offset}"


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Commit LSNs between which an unreadable marker was."""

    after: int
    upto: int | None = None
    """Included; None while no later END was read."""
    offset: int = -1
    """The marker's, in the transaction topic."""


class Beginning(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot with which a stream begins anew: the engine tells of nothing that was committed before it."""

    lsn: int
    """The position behind which the stream goes on; the snapshot's rows bear it."""
    after: int | None
    """The last commit that was told of before; None when there is none."""
    read_until_ms: int = 0
    """When its last row was read, by the connector's clock; 0 where all rows are as of `lsn`."""


class Progress(msgspec.Struct):
    """What must survive a restart; stored in the same Kafka transaction as what came out.

    Attributes:
        commit_lsn: of the last transaction that came out, None before the first.
        finished: txid to commit LSN of the last ones that came out, oldest first.
        began_lsn: commit LSN of the first END that was ever read.
        lost: txid to commit LSN of the last ones that were given up, oldest first.
        gaps: where unreadable markers were.
        unreadable: unreadable rows that no transaction was given up for yet.
        snapshot_open: snapshot rows came out, and it is not known yet that these were all.
        snapshot_lsn: the highest LSN of a snapshot's row.
        first_snapshot_lsn: of the rows of the stream's first snapshot; 0 where none was seen.
        beginning: the last snapshot with which the stream has begun anew.
        parts: (commit LSN, how many came out, of how many) of a transaction that is coming out in parts; its rows are
            read again after a restart, and give the same parts.
        part_sets: how many change sets of the part behind these came out, too.
        rows: ``topic/partition`` to (last commit LSN before it, LSN) of the last row; only where rows come out one by one.
    """

    commit_lsn: int | None = None
    finished: dict[int, int] = {}
    began_lsn: int = 0
    lost: dict[int, int] = {}
    gaps: list[Gap] = []
    unreadable: list[UnreadableRow] = []
    snapshot_open: bool = True
    snapshot_lsn: int = 0
    first_snapshot_lsn: int = 0
    beginning: Beginning | None = None
    parts: tuple[int, int, int] | None = None
    part_sets: int = 0
    rows: dict[str, tuple[int, int]] = {}


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
        self.snapshots: HeldSnapshots | None = None
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
