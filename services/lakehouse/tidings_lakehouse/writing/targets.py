"""The tables of one technical topic, and what is known of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.batches import TopicSurvey
from tidings_lakehouse.decoding.change_decoder import ChangeDecoder
from tidings_lakehouse.decoding.changes import newest_truncate, with_position
from tidings_lakehouse.decoding.never_null import NeverNull
from tidings_lakehouse.spark.small import KeptPlan
from tidings_lakehouse.tables.positions import NEVER, Progress, spans_of, statistics
from tidings_lakehouse.tables.snapshots import PROGRESS_PROPERTY
from tidings_lakehouse.tables.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Target:
    """The tables of one topic."""

    topic: str
    log: Table
    current: Table
    progress: Progress = field(default_factory=Progress)
    decoder: ChangeDecoder | None = None
    plan: KeptPlan | None = None
    """Of the decoder, for batches that are in memory."""
    never_null: NeverNull = NeverNull()
    """As the log has it."""
    comments: dict[str, str] = field(default_factory=dict)
    """What the newest record's schema says of the row's fields, by their present names; "" is the table. As the log has it."""
    filled: set[str] | None = None
    """Columns whose defaults all rows have; None: not asked yet."""
    is_erased: bool = False
    """Rows of the log were erased, see `erased`."""
    merged: Progress | None = None
    """How far of the log the current state has come; None: as far as the log, since it is merged with every batch."""
    merged_at: float = -math.inf
    """When it was merged last in this process, by the monotonic clock."""
    is_noted: bool = False
    """Whether the current state notes `merged`."""

    @property
    def waits(self) -> bool:
        """Whether the log has changes that are not merged."""
        merged = self.merged
        return merged is not None and any(
            last > merged.offsets.get(place, NEVER) for place, last in self.progress.offsets.items()
        )


@dataclass
class Decoded:
    """One topic's part of a batch."""

    target: Target
    survey: TopicSurvey
    records: DataFrame
    """As they are on the topic."""
    changes: DataFrame

    @property
    def decoder(self) -> ChangeDecoder | None:
        """The table's."""
        return self.target.decoder

    def keep(self, rows: DataFrame) -> None:
        """Have changes instead of those that it has."""
        self.changes.unpersist()
        self.changes = rows.persist(StorageLevel.MEMORY_AND_DISK)


def merged_of(target: Target) -> Progress | None:
    """How far a current state has come, as it notes; of one whose note is not true any more, nothing is known."""
    noted = target.current.noted().get(MERGED_NOTE)
    if noted is not None:
        target.is_noted = True
        return Progress.of_note(noted)
    return Progress() if f'"{MERGED_NOTE}"' in target.current.property(PROGRESS_PROPERTY) else None


MERGED_NOTE = "merged"
"""The name under which a current state notes how far of its log it has come."""
LOG_NOTE = "log"
"""The name under which a log notes how far it has come."""


def progress_of(session: SparkSession, log: Table) -> Progress:
    """How far a log has come: as it notes, or by its rows where it does not."""
    noted = log.noted().get(LOG_NOTE)
    if noted is not None:
        return Progress.of_note(noted)
    held = held_rows(session, log).withColumn("reason", sf.lit(None).cast("string"))
    rows = held.groupBy("topic_id", "partition").agg(*statistics()).collect()
    progress = Progress()
    progress.advance(spans_of(rows))
    if any(row["truncates"] for row in rows):
        progress.note_truncate(newest_truncate(with_position(held, {}, windowed=progress.has_first)))
    return progress


def held_rows(session: SparkSession, log: Table) -> DataFrame:
    """What a log holds; one of a former release does not say what an incremental snapshot has read."""
    held = session.table(log.name)
    if "incremental" not in held.columns:
        held = held.withColumn("incremental", sf.lit(None).cast("boolean"))
    return held
