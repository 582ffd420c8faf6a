"""What assembling transactions is made of: transactions that wait for rows, how far each partition was read, and what must
survive a restart. Pure data; `assembly` has the logic.
"""

from collections import deque
from typing import NamedTuple

import msgspec

from tidings_envelope.envelope import Envelope
from tidings_envelope.position import lsn_to_text
from tidings_translator.records import Partition


class CompleteTransaction(NamedTuple):
    """All rows of the tables that are read, by `total_order`."""

    txid: int
    commit_lsn: int
    rows: list[Envelope]


class SnapshotRow(NamedTuple):
    """A row that was read by a snapshot; belongs to no transaction."""

    envelope: Envelope


class PlacedRow(NamedTuple):
    """A row and where it was read."""

    envelope: Envelope
    partition: Partition
    offset: int


class LostTransaction(NamedTuple):
    """A transaction that can't be completed, because a record of it was unreadable; for the dead letters as a whole."""

    txid: int
    commit_lsn: int | None
    rows: list[PlacedRow]
    reason: str


Assembled = CompleteTransaction | SnapshotRow | LostTransaction


class Progress(msgspec.Struct):
    """What must survive a restart; stored in the same Kafka transaction as what came out.

    Attributes:
        commit_lsn: of the last transaction that came out, None before the first.
        finished: txid to commit LSN of the last ones that came out, oldest first.
        gaps: (after, up to and including) commit LSNs between which an unreadable marker was.
        unreadable: (topic, partition, offset) of unreadable rows that no transaction was given up for yet.
        snapshot_open: snapshot rows came out, and it is not known yet that these were all.
        snapshot_lsn: the highest LSN of a snapshot's row.
    """

    commit_lsn: int | None = None
    finished: dict[int, int] = {}
    gaps: list[tuple[int, int]] = []
    unreadable: list[tuple[str, int, int]] = []
    snapshot_open: bool = True
    snapshot_lsn: int = 0


class OpenTransaction:
    """A transaction of which something is missing."""

    __slots__ = (
        "counts",
        "done",
        "end_lsn",
        "last_commit_lsn",
        "missing",
        "needed",
        "places",
        "rows",
        "since",
        "txid",
    )

    def __init__(self, txid: int, since: float) -> None:
        self.txid = txid
        self.since = since
        self.rows: dict[int, PlacedRow] = {}
        self.counts: dict[str, int] = {}
        self.places: dict[Partition, list[int]] = {}
        """Partition to [number of rows, offset of the last one]."""
        self.last_commit_lsn: int | None = None
        self.end_lsn: int | None = None
        self.needed: dict[str, int] = {}
        self.missing = 0
        self.done = False

    def short(self) -> dict[str, int]:
        """Table to number of rows that have not come; only known after END."""
        counts = self.counts
        return {t: n - counts.get(t, 0) for t, n in self.needed.items() if n > counts.get(t, 0)}

    def __str__(self) -> str:
        where = "" if self.end_lsn is None else f" (commit {lsn_to_text(self.end_lsn)})"
        return f"transaction {self.txid}{where}"


class Place:
    """How far a partition has been read, and the transactions that still need records of it, oldest first."""

    __slots__ = ("buffered", "next_offset", "runs", "streaming", "table")

    def __init__(self, table: str | None, next_offset: int) -> None:
        self.table = table
        self.next_offset = next_offset
        self.buffered = 0
        self.streaming = False
        """A row from after the snapshot was read, so all of the snapshot's rows of this partition were."""
        self.runs: deque[tuple[int, OpenTransaction]] = deque()

    def needed_from(self) -> int:
        """The offset from which it must be read again after a restart."""
        runs = self.runs
        while runs and runs[0][1].done:
            runs.popleft()
        return runs[0][0] if runs else self.next_offset
