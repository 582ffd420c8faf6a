"""How far a table has come: offsets that guard its appends, and commit positions.

The table's own commit notes them with the rows (`commits`), so they are exact also when the checkpoint was deleted or
the snapshots that recorded them have expired, and a start costs the same whatever the table holds. Where there is no note
of them, as in a table of a former release, they are read from the rows, once. They are kept by topic id and partition,
because a topic that was deleted and made again starts at offset 0 again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

NEVER = -1


class PartitionId(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: str
    partition: int


class Position(NamedTuple):
    """See `changes.py`; compares as a tuple."""

    commit_lsn: int
    lsn: int


def offsets_of(rows: DataFrame) -> dict[PartitionId, int]:
    """The largest offset per partition that a table holds."""
    found = rows.groupBy("topic_id", "partition").agg(sf.max("offset")).collect()
    return {PartitionId(row[0], row[1]): row[2] for row in found}


def note_of(offsets: Mapping[PartitionId, int]) -> dict[str, int]:
    """Offsets by partition as a table notes them."""
    return {f"{place.topic_id}/{place.partition}": offset for place, offset in sorted(offsets.items())}


def offsets_noted(note: Mapping[str, int]) -> dict[PartitionId, int]:
    """What `note_of` has noted."""
    return {_place(text): offset for text, offset in note.items()}


def _place(text: str) -> PartitionId:
    topic_id, _, partition = text.rpartition("/")
    return PartitionId(topic_id, int(partition))


def beyond(
    held: Mapping[PartitionId, int], topic_id: str, *, partition: str = "partition", offset: str = "offset"
) -> Column | None:
    """The condition on rows of a topic that the table does not hold yet; None when it holds none of the topic.

    Args:
        partition, offset: the columns that say where a row stands.
    """
    offsets = {key.partition: last for key, last in held.items() if key.topic_id == topic_id}
    if not offsets:
        return None
    pairs = sf.create_map(*[sf.lit(number) for pair in sorted(offsets.items()) for number in pair])
    return sf.col(offset) > sf.coalesce(sf.try_element_at(pairs, sf.col(partition)), sf.lit(NEVER))


def statistics() -> list[Column]:
    """Aggregates over rows of a log that `Span` is made of."""
    good = sf.col("reason").isNull()
    is_read = sf.col("snapshot") & ~sf.coalesce("incremental", sf.col("lsn").isNull())
    placed = good & sf.col("snapshot").isNotNull() & sf.col("last_commit_lsn").isNotNull()
    begins = good & sf.col("last_commit_lsn").isNull()
    snapshot, first = begins & is_read, begins & ~is_read
    lsn = sf.coalesce("lsn", sf.lit(0))
    at = sf.struct("last_commit_lsn", sf.when(is_read, sf.lit(0)).otherwise(lsn).cast("bigint").alias("lsn"))
    return [
        sf.count(sf.lit(1)).alias("records"),
        sf.count_if(~good).alias("failed"),
        sf.count_if(good & (sf.col("op") == "t")).alias("truncates"),
        sf.count_if(good & is_read).alias("snapshots"),
        sf.count_if(snapshot).alias("first_snapshots"),
        sf.min("offset").alias("first_offset"),
        sf.max("offset").alias("last_offset"),
        sf.max("changed_at").alias("changed_at"),
        sf.min(sf.when(snapshot, lsn)).alias("snapshot_min"),
        sf.max(sf.when(snapshot, lsn)).alias("snapshot_max"),
        sf.min(sf.when(first, lsn)).alias("first_min"),
        sf.max(sf.when(first, lsn)).alias("first_max"),
        sf.min(sf.when(placed, at)).alias("placed_min"),
        sf.max(sf.when(placed, at)).alias("placed_max"),
        sf.min(sf.when(placed, sf.col("offset"))).alias("begun"),
        sf.max(sf.when(snapshot & (lsn == 0), sf.col("offset"))).alias("unplaced"),
    ]


@dataclass(frozen=True)
class Span:
    """What a batch, or a whole table, holds of one partition."""

    first_offset: int
    last_offset: int
    snapshot_lsns: tuple[int, int] | None
    """Least and greatest LSN of rows of a stream's first snapshot."""
    first_lsns: tuple[int, int] | None
    """Of a stream's first transaction, and rows read before it ended, which do not know the last commit."""
    placed: tuple[Position, Position] | None
    """Of rows that know the last commit."""
    begun: int | None = None
    """Offset of the first of them."""

    @classmethod
    def of(cls, row: Any) -> Span:
        """From a row of `statistics`."""
        placed = None
        if row["placed_min"] is not None:
            placed = (Position(*row["placed_min"]), Position(*row["placed_max"]))
        return cls(
            row["first_offset"],
            row["last_offset"],
            _pair(row["snapshot_min"], row["snapshot_max"]),
            _pair(row["first_min"], row["first_max"]),
            placed,
            row["begun"],
        )

    def least(self, snapshot_lsn: int) -> Position | None:
        """The oldest position in it; `snapshot_lsn` is of the snapshot before it in the partition."""
        return min(self._positions(snapshot_lsn, 0), default=None)

    def greatest(self, snapshot_lsn: int) -> Position | None:
        """The newest position in it; `snapshot_lsn` is of the newest snapshot in the partition, its own included."""
        return max(self._positions(snapshot_lsn, 1), default=None)

    def _positions(self, snapshot_lsn: int, end: int) -> list[Position]:
        found = []
        if self.snapshot_lsns:
            found.append(Position(self.snapshot_lsns[end], 0))
        if self.first_lsns:
            lsn = self.first_lsns[end]
            found.append(Position(max(snapshot_lsn, lsn), lsn))
        if self.placed:
            found.append(self.placed[end])
        return found


def _pair(least: int | None, greatest: int | None) -> tuple[int, int] | None:
    return None if least is None or greatest is None else (least, greatest)


@dataclass
class Progress:
    """How far one log has come."""

    offsets: dict[PartitionId, int] = field(default_factory=dict)
    newest: dict[PartitionId, Position] = field(default_factory=dict)
    complete: dict[PartitionId, int] = field(default_factory=dict)
    """Commit LSN up to which all of a partition's rows are there: the greatest last commit seen, because rows of one
    partition come in commit order and a row names the commit before its own transaction."""
    snapshots: dict[PartitionId, int] = field(default_factory=dict)
    """LSN of the newest first snapshot of a stream in each partition."""
    truncated: Position | None = None
    """Of the newest TRUNCATE: whatever is older is gone, also what comes later from another partition."""
    has_first: bool = False
    """Whether there are rows of a stream's first transaction."""
    topic_id: str = ""
    """The incarnation of the topic that was read last."""
    begun: dict[PartitionId, int] = field(default_factory=dict)
    """Offset of the first row in each partition that knows a commit before it."""

    def is_late(self, spans: Mapping[PartitionId, Span]) -> bool:
        """Whether some of a batch's rows are older than what the table has: redelivered, or read again."""
        for partition, span in spans.items():
            newest, least = self.newest.get(partition), span.least(self.snapshots.get(partition, 0))
            if newest is not None and least is not None and least < newest:
                return True
        # A partition of another incarnation of the topic: what is known says nothing about it.
        return any(partition not in self.newest for partition in spans) and bool(self.newest)

    def is_newer(self, spans: Mapping[PartitionId, Span]) -> bool:
        """Whether all of a batch's rows are certainly newer than all that the table has."""
        least = [span.least(self.snapshots.get(partition, 0)) for partition, span in spans.items()]
        newest = self.newest_position
        return newest is not None and all(one is None or one > newest for one in least)

    def is_older_than_truncate(self, spans: Mapping[PartitionId, Span]) -> bool:
        """Whether some of a batch's rows may be older than a TRUNCATE that is known."""
        if self.truncated is None:
            return False
        least = [span.least(self.snapshots.get(partition, 0)) for partition, span in spans.items()]
        return any(one is not None and one <= self.truncated for one in least)

    def note_truncate(self, position: Position | None) -> None:
        """Take in a TRUNCATE."""
        if position is not None:
            self.truncated = position if self.truncated is None else max(self.truncated, position)

    def advance(self, spans: Mapping[PartitionId, Span]) -> None:
        """Take in what a batch has written."""
        for partition, span in spans.items():
            self.topic_id = partition.topic_id
            self.offsets[partition] = max(self.offsets.get(partition, NEVER), span.last_offset)
            if span.snapshot_lsns:
                self.snapshots[partition] = max(self.snapshots.get(partition, 0), span.snapshot_lsns[1])
            self.has_first = self.has_first or span.first_lsns is not None
            greatest = span.greatest(self.snapshots.get(partition, 0))
            if greatest is not None:
                self.newest[partition] = max(self.newest.get(partition, greatest), greatest)
            if span.placed is not None:
                last_commit = span.placed[1].commit_lsn
                self.complete[partition] = max(self.complete.get(partition, 0), last_commit)
            if span.begun is not None:
                self.begun[partition] = min(self.begun.get(partition, span.begun), span.begun)

    def note(self, spans: Mapping[PartitionId, Span]) -> dict[str, Any]:
        """What a log is to note with rows, of which `spans` tell; see `of_note`."""
        after = copy.deepcopy(self)
        after.advance(spans)
        return {
            "topic_id": after.topic_id,
            "offsets": note_of(after.offsets),
            "newest": {f"{p.topic_id}/{p.partition}": list(at) for p, at in sorted(after.newest.items())},
            "complete": note_of(after.complete),
            "snapshots": note_of(after.snapshots),
            "truncated": None if after.truncated is None else list(after.truncated),
            "has_first": after.has_first,
            "begun": note_of(after.begun),
        }

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Progress:
        """From what a log has noted."""
        truncated = note["truncated"]
        return cls(
            offsets_noted(note["offsets"]),
            {_place(text): Position(*at) for text, at in note["newest"].items()},
            offsets_noted(note["complete"]),
            offsets_noted(note["snapshots"]),
            None if truncated is None else Position(*truncated),
            bool(note["has_first"]),
            note["topic_id"],
            offsets_noted(note.get("begun", {})),
        )

    def complete_lsn(self, partitions: Iterable[int]) -> int | None:
        """Commit LSN up to which the table is complete by its own rows; None as long as they do not say it.

        Args:
            partitions: all of the topic's.
        """
        found = [self.complete.get(PartitionId(self.topic_id, number)) for number in partitions]
        known = [lsn for lsn in found if lsn is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def newest_position(self) -> Position | None:
        """The newest position in the table."""
        return max(self.newest.values(), default=None)


def spans_of(rows: list[Any]) -> dict[PartitionId, Span]:
    """By partition, from collected rows of `statistics` grouped by topic_id and partition."""
    return {PartitionId(row["topic_id"], row["partition"]): Span.of(row) for row in rows}
