"""How far a table has come: offsets that guard its appends, and commit positions.

The offsets are read from the table itself once per start, so they are exact also when the checkpoint was deleted or
the snapshots that recorded them have expired. They are kept by topic id and partition, because a topic that was
deleted and made again starts at offset 0 again.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def beyond(held: Mapping[PartitionId, int], topic_id: str) -> Column | None:
    """The condition on rows of a topic that the table does not hold yet; None when it holds none of the topic."""
    offsets = {key.partition: offset for key, offset in held.items() if key.topic_id == topic_id}
    if not offsets:
        return None
    pairs = sf.create_map(*[sf.lit(number) for pair in sorted(offsets.items()) for number in pair])
    return sf.col("offset") > sf.coalesce(sf.try_element_at(pairs, sf.col("partition")), sf.lit(NEVER))


def statistics() -> list[Column]:
    """Aggregates over rows of a log that `Span` is made of."""
    good = sf.col("reason").isNull()
    streamed = good & ~sf.col("snapshot") & sf.col("last_commit_lsn").isNotNull()
    first = good & ~sf.col("snapshot") & sf.col("last_commit_lsn").isNull()
    at = sf.struct("last_commit_lsn", "lsn")
    return [
        sf.count(sf.lit(1)).alias("records"),
        sf.count_if(~good).alias("failed"),
        sf.count_if(good & (sf.col("op") == "t")).alias("truncates"),
        sf.min("offset").alias("first_offset"),
        sf.max("offset").alias("last_offset"),
        sf.max("changed_at").alias("changed_at"),
        sf.min(sf.when(sf.col("snapshot"), sf.col("lsn"))).alias("snapshot_min"),
        sf.max(sf.when(sf.col("snapshot"), sf.col("lsn"))).alias("snapshot_max"),
        sf.min(sf.when(first, sf.col("lsn"))).alias("first_min"),
        sf.max(sf.when(first, sf.col("lsn"))).alias("first_max"),
        sf.min(sf.when(streamed, at)).alias("streamed_min"),
        sf.max(sf.when(streamed, at)).alias("streamed_max"),
    ]


@dataclass(frozen=True)
class Span:
    """What a batch, or a whole table, holds of one partition."""

    first_offset: int
    last_offset: int
    snapshot_lsns: tuple[int, int] | None
    """Least and greatest LSN of snapshot rows."""
    first_lsns: tuple[int, int] | None
    """Of rows in the first transaction after a snapshot, which do not know the last commit."""
    streamed: tuple[Position, Position] | None

    @classmethod
    def of(cls, row: Any) -> Span:
        """From a row of `statistics`."""
        streamed = None
        if row["streamed_min"] is not None:
            streamed = (Position(*row["streamed_min"]), Position(*row["streamed_max"]))
        return cls(
            row["first_offset"],
            row["last_offset"],
            _pair(row["snapshot_min"], row["snapshot_max"]),
            _pair(row["first_min"], row["first_max"]),
            streamed,
        )

    def least(self, snapshot_lsn: int) -> Position | None:
        """The oldest position in it."""
        return min(self._positions(snapshot_lsn, 0), default=None)

    def greatest(self, snapshot_lsn: int) -> Position | None:
        """The newest position in it."""
        return max(self._positions(snapshot_lsn, 1), default=None)

    def _positions(self, snapshot_lsn: int, end: int) -> list[Position]:
        found = []
        if self.snapshot_lsns:
            found.append(Position(self.snapshot_lsns[end], 0))
        if self.first_lsns:
            found.append(Position(snapshot_lsn, self.first_lsns[end]))
        if self.streamed:
            found.append(self.streamed[end])
        return found


def _pair(least: int | None, greatest: int | None) -> tuple[int, int] | None:
    return None if least is None or greatest is None else (least, greatest)


@dataclass
class Progress:
    """How far one log has come."""

    offsets: dict[PartitionId, int] = field(default_factory=dict)
    newest: dict[PartitionId, Position] = field(default_factory=dict)
    complete: dict[PartitionId, int] = field(default_factory=dict)
    """Commit LSN up to which all of a partition's rows are there: the greatest sequence[0] seen, because rows of one
    partition come in commit order and a row names the commit before its own transaction."""
    snapshot_lsn: int = 0
    topic_id: str = ""
    """The incarnation of the topic that was read last."""

    def is_late(self, spans: Mapping[PartitionId, Span]) -> bool:
        """Whether some of a batch's rows are older than what the table has: redelivered, or read again."""
        snapshot_lsn = self.snapshot_with(spans)
        for partition, span in spans.items():
            newest, least = self.newest.get(partition), span.least(snapshot_lsn)
            if newest is not None and least is not None and least < newest:
                return True
        # A partition of another incarnation of the topic: what is known says nothing about it.
        return any(partition not in self.newest for partition in spans) and bool(self.newest)

    def snapshot_with(self, spans: Mapping[PartitionId, Span]) -> int:
        """LSN of the newest snapshot, that of a batch included."""
        return max(
            [self.snapshot_lsn, *[span.snapshot_lsns[1] for span in spans.values() if span.snapshot_lsns]]
        )

    def advance(self, spans: Mapping[PartitionId, Span]) -> None:
        """Take in what a batch has written."""
        self.snapshot_lsn = self.snapshot_with(spans)
        for partition, span in spans.items():
            self.topic_id = partition.topic_id
            self.offsets[partition] = max(self.offsets.get(partition, NEVER), span.last_offset)
            greatest = span.greatest(self.snapshot_lsn)
            if greatest is not None:
                self.newest[partition] = max(self.newest.get(partition, greatest), greatest)
                self.complete[partition] = max(self.complete.get(partition, 0), greatest.commit_lsn)

    @property
    def complete_lsn(self) -> int | None:
        """Commit LSN up to which the table is complete; None before the first change."""
        return min(
            (lsn for partition, lsn in self.complete.items() if partition.topic_id == self.topic_id),
            default=None,
        )

    @property
    def newest_position(self) -> Position | None:
        """The newest position in the table."""
        return max(self.newest.values(), default=None)


def spans_of(rows: list[Any]) -> dict[PartitionId, Span]:
    """By partition, from collected rows of `statistics` grouped by topic_id and partition."""
    return {PartitionId(row["topic_id"], row["partition"]): Span.of(row) for row in rows}
