"""The tables of one technical topic, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.batches import TopicSurvey
from tidings_lakehouse.change_decoder import ChangeDecoder
from tidings_lakehouse.positions import Progress
from tidings_lakehouse.tables import Table

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
    filled: set[str] | None = None
    """Columns whose defaults all rows have; None: not asked yet."""


@dataclass
class Decoded:
    """One topic's part of a batch."""

    target: Target
    survey: TopicSurvey
    records: DataFrame
    """As they are on the topic."""
    changes: DataFrame


def held_rows(session: SparkSession, log: Table) -> DataFrame:
    """What a log holds; one of a former release does not say what an incremental snapshot has read."""
    held = session.table(log.name)
    if "incremental" not in held.columns:
        held = held.withColumn("incremental", sf.lit(None).cast("boolean"))
    return held
