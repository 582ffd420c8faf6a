"""What both streams' batch writers share: the survey of a batch, and how a commit is marked."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.formats.json_schemas import JsonSchemas
from tidings_lakehouse.formats.records import with_schema_ids
from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.positions import PartitionId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK = "spark.sql.iceberg.snapshot-property.tidings."
_WORTH_COMPILING = 10_000
"""Records from which on compiled plans are quicker."""


@dataclass
class TopicSurvey:
    """What a batch holds of one topic."""

    records: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition -> first and last offset."""
    value_ids: set[int] = field(default_factory=set)
    key_ids: set[int] = field(default_factory=set)

    def last_offsets(self, topic_id: str) -> dict[PartitionId, int]:
        """The last offset of each partition."""
        return {PartitionId(topic_id, number): last for number, (_, last) in self.offsets.items()}


@dataclass(frozen=True)
class Kept:
    """The records of a batch."""

    records: DataFrame
    here: DataFrame | None
    """The same in this process's JVM, if they are few."""

    @property
    def nearest(self) -> DataFrame:
        """Where they are read with the least work."""
        return self.records if self.here is None else self.here


@contextmanager
def surveyed(
    batch: DataFrame, local: LocalRows, schemas: JsonSchemas | None = None
) -> Iterator[tuple[Kept, dict[str, TopicSurvey]]]:
    """Read the batch from Kafka once, keep it, and say what is in it.

    Args:
        schemas: learns those that records bring, and has those that are given.
    """
    # Kafka's partitions are read one after the other by as many tasks as there are cores.
    tasks = batch.sparkSession.sparkContext.defaultParallelism
    given = None if schemas is None else schemas.given
    records = with_schema_ids(batch, given).coalesce(tasks).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = (
            records.groupBy("topic", "partition", "value_id", "key_id")
            .agg(
                sf.count(sf.lit(1)),
                sf.min("offset").alias("first_offset"),
                sf.max("offset"),
                sf.sum(_size()),
                sf.min(sf.unix_micros("timestamp")).alias("first_at"),
                sf.max(sf.unix_micros("timestamp")),
            )
            .collect()
        )
        topics: dict[str, TopicSurvey] = defaultdict(TopicSurvey)
        for topic, partition, value_id, key_id, count, first, last in (row[:7] for row in rows):
            survey = topics[topic]
            survey.records += count
            before = survey.offsets.get(partition, (first, last))
            survey.offsets[partition] = (min(first, before[0]), max(last, before[1]))
            if value_id is not None:
                survey.value_ids.add(value_id)
            if key_id is not None:
                survey.key_ids.add(key_id)
        if schemas is not None:
            _learn(schemas, records, rows)
        here = None
        if rows and local.takes(
            sum(row[4] for row in rows),
            sum(row[7] for row in rows),
            max(row[9] for row in rows) - min(row[8] for row in rows),
        ):
            here = local.collected(records.coalesce(1).sortWithinPartitions("partition", "offset"))
        yield Kept(records, here), dict(sorted(topics.items()))
    finally:
        records.unpersist()


def _learn(schemas: JsonSchemas, records: DataFrame, rows: list[Any]) -> None:
    ages: dict[int, tuple[int, int]] = {}
    for row in rows:
        for one in (row["value_id"], row["key_id"]):
            if one is not None:
                age = (row["first_at"], row["first_offset"])
                ages[one] = min(age, ages.get(one, age))
    unknown = schemas.unknown(ages)
    if unknown:
        schemas.learn(records, {one: ages[one] for one in unknown})


def _size() -> Column:
    """Bytes of a record's key, value and headers."""
    headers = "aggregate(headers, 0L, (sum, h) -> sum + length(h.key) + coalesce(length(h.value), 0))"
    parts = (sf.length("key"), sf.length("value"), sf.expr(headers))
    return functools.reduce(Column.__add__, [sf.coalesce(part, sf.lit(0)) for part in parts])


def tune(session: SparkSession, records: int) -> None:
    """Have Spark interpret the plans of a small batch: generating and compiling code for them costs more than it saves."""
    small = records < _WORTH_COMPILING
    session.conf.set("spark.sql.codegen.wholeStage", "false" if small else "true")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")


def mark_commits(
    session: SparkSession, *, query_id: str, batch_id: int, topics: dict[str, TopicSurvey]
) -> None:
    """Have every commit of this batch say, in its snapshot's summary, which batch and which offsets it is of."""
    offsets = {
        topic: {str(partition): list(ends) for partition, ends in sorted(survey.offsets.items())}
        for topic, survey in topics.items()
    }
    session.conf.set(f"{_MARK}query-id", query_id)
    session.conf.set(f"{_MARK}batch-id", str(batch_id))
    session.conf.set(f"{_MARK}offsets", json.dumps(offsets, separators=(",", ":")))


def planned_offsets(session: SparkSession, checkpoint: str, batch_id: int) -> Offsets:
    """Up to where a batch reads, by Spark's own note of it in the checkpoint, which it makes before the batch begins."""
    files, path = _in_checkpoint(session, f"{checkpoint}/offsets/{batch_id}")
    stream = files.open(path)
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    try:
        text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
    offsets: Offsets = json.loads(text.splitlines()[-1])
    return offsets


def committed_offsets(session: SparkSession, checkpoint: str) -> Offsets:
    """Up to where everything has been read, when no batch is under way; empty when that is not known."""
    files, path = _in_checkpoint(session, f"{checkpoint}/commits")
    if not files.exists(path):
        return {}
    names = [str(status.getPath().getName()) for status in files.listStatus(path)]
    batches = [int(name) for name in names if name.isdigit()]
    return planned_offsets(session, checkpoint, max(batches)) if batches else {}


def _in_checkpoint(session: SparkSession, uri: str) -> tuple[Any, Any]:
    """The file system of a path, and the path; the checkpoint may be in an object store."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), path  # noqa: SLF001


BatchWriter = Callable[[DataFrame, int, str], None]
"""Writes a batch, given its number and the query's id."""


def union(frames: list[DataFrame]) -> DataFrame:
    """All rows of frames with equal columns."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole
