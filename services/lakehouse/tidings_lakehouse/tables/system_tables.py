"""The job's own tables: `tidings.quarantine` and `tidings.watermark`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.metrics import FRESHNESS
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.positions import NEVER, PartitionId, beyond, note_of, offsets_noted, offsets_of
from tidings_lakehouse.tables.tables import Table, frame_of
from tidings_lakehouse.topics import QUARANTINE, TRANSACTION_LOG, WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUARANTINE_SCHEMA = st.StructType(
    [
        st.StructField("stream", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("topic_id", st.StringType()),
        st.StructField("partition", st.IntegerType()),
        st.StructField("offset", st.LongType()),
        st.StructField("timestamp", st.TimestampType()),
        st.StructField("reason", st.StringType()),
        st.StructField("key", st.BinaryType()),
        st.StructField("value", st.BinaryType()),
        st.StructField(
            "headers",
            st.ArrayType(
                st.StructType(
                    [st.StructField("key", st.StringType()), st.StructField("value", st.BinaryType())]
                )
            ),
        ),
    ]
)
WATERMARK_SCHEMA = st.StructType(
    [
        st.StructField("stream", st.StringType()),
        st.StructField("table_name", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("commit_lsn", st.LongType()),
        st.StructField("newest_commit_lsn", st.LongType()),
        st.StructField("newest_lsn", st.LongType()),
        st.StructField("newest_changed_at", st.TimestampType()),
        st.StructField("updated_at", st.TimestampType()),
        st.StructField("batch_id", st.LongType()),
    ]
)


@dataclass(frozen=True)
class Watermark:
    """How far a table is complete."""

    table: str
    topic: str
    commit_lsn: int | None
    """All changes of transactions that committed up to here are in the table; None when that is not known, and for business
    events."""
    newest_commit_lsn: int | None
    newest_lsn: int | None
    newest_changed_at: dt.datetime | None


class WatermarkTable:
    """One row per table, and of the transaction log one per source; the rows of one stream are replaced together, in one
    commit."""

    def __init__(self, session: SparkSession, stream: str, commits: Commits) -> None:
        self._session = session
        self._stream = stream
        self._table = table = Table(session, WATERMARK, "", commits)
        rows = session.table(WATERMARK).where(sf.col("stream") == stream).collect() if table.exists else []
        table.ensure(WATERMARK_SCHEMA, partitioned_by=["stream"])
        self._rows = {
            _key(row["table_name"], row["topic"]): (
                Watermark(
                    row["table_name"],
                    row["topic"],
                    row["commit_lsn"],
                    row["newest_commit_lsn"],
                    row["newest_lsn"],
                    row["newest_changed_at"],
                ),
                row["updated_at"],
                row["batch_id"],
            )
            for row in rows
        }

    def row(self, table: str, topic: str) -> Watermark | None:
        """What is known of a table, unless it belonged to another topic then."""
        found = self._rows.get(_key(table, topic))
        return found[0] if found is not None and found[0].topic == topic else None

    def complete(self, source: str, commit_lsn: int | None) -> None:
        """Say of all tables of a source, also of those that rest, up to where they are complete."""
        now = dt.datetime.now(dt.UTC)
        for key, (watermark, _, batch) in self._rows.items():
            if watermark.topic.startswith(f"{source}.") and watermark.commit_lsn != commit_lsn:
                self._rows[key] = (replace(watermark, commit_lsn=commit_lsn), now, batch)

    def take(self, watermarks: Iterable[Watermark], batch_id: int) -> None:
        """Take over what changed."""
        now = dt.datetime.now(dt.UTC)
        for watermark in watermarks:
            self._rows[_key(watermark.table, watermark.topic)] = (watermark, now, batch_id)
            if watermark.newest_changed_at is not None:
                # Spark gives moments without a zone, in this process's.
                age = now - watermark.newest_changed_at.astimezone(dt.UTC)
                FRESHNESS.labels(watermark.table).set(max(0.0, age.total_seconds()))

    def write(self) -> None:
        """Write the stream's rows."""
        rows = [
            {
                "stream": self._stream,
                "table_name": w.table,
                "topic": w.topic,
                "commit_lsn": w.commit_lsn,
                "newest_commit_lsn": w.newest_commit_lsn,
                "newest_lsn": w.newest_lsn,
                "newest_changed_at": None if w.newest_changed_at is None else _iso(w.newest_changed_at),
                "updated_at": _iso(updated_at),
                "batch_id": batch,
            }
            for w, updated_at, batch in self._rows.values()
        ]
        frame = frame_of(self._session, rows, WATERMARK_SCHEMA)
        self._table.write(lambda name: frame.writeTo(name).overwrite(sf.col("stream") == self._stream))


def _key(table: str, topic: str) -> tuple[str, str]:
    """What a row is known by: a table belongs to one topic at a time, but all sources' markers are in one table."""
    return table, topic if table == TRANSACTION_LOG else ""


def _iso(moment: dt.datetime) -> str:
    """A moment as ISO 8601; one that Spark gave has no zone and is in this process's."""
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds")


class QuarantineTable:
    """Records that could not be decoded: where they were, why, and their bytes."""

    def __init__(self, session: SparkSession, stream: str, commits: Commits) -> None:
        self._table = Table(session, QUARANTINE, "", commits)
        self._held: dict[PartitionId, int] = {}
        if self._table.exists:
            noted = self._table.noted().get(stream)
            held = session.table(QUARANTINE).where(sf.col("stream") == stream)
            self._held = offsets_of(held) if noted is None else offsets_noted(noted)
        self._table.ensure(QUARANTINE_SCHEMA, partitioned_by=["days(timestamp)"])
        self._stream = stream

    def rows(self, failed: DataFrame, topic: str, topic_id: str) -> DataFrame:
        """The quarantine's rows of one topic that it does not hold yet.

        `failed` has topic_id, partition, offset, timestamp, reason, raw_key, raw_value and headers.
        """
        condition = beyond(self._held, topic_id)
        new = failed.where("reason IS NOT NULL")
        return (new if condition is None else new.where(condition)).select(
            sf.lit(self._stream).alias("stream"),
            sf.lit(topic).alias("topic"),
            "topic_id",
            "partition",
            "offset",
            "timestamp",
            "reason",
            sf.col("raw_key").alias("key"),
            sf.col("raw_value").alias("value"),
            "headers",
        )

    def append(self, rows: DataFrame, offsets: Mapping[PartitionId, int]) -> None:
        """Write rows made by `rows`.

        Args:
            offsets: by partition, the last one up to which they are all that is to be put here.
        """
        for place, last in offsets.items():
            self._held[place] = max(self._held.get(place, NEVER), last)
        self._table.append(rows, {self._stream: note_of(self._held)})
