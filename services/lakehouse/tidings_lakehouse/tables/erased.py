"""Rows that were erased, or that their retention let go, do not come back when their records are read again, as after a lost checkpoint.

The log and the quarantine note the offsets up to which they hold everything, so they take none of it twice. A current state and the
tables of business events are told by what they hold themselves, which is less afterwards. Therefore it is noted:

- on a log, that rows of it were erased. A record that the log has read and does not hold any more then changes no current state.
- on a table of business events, the offsets up to which everything had been written by then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.tables.positions import PartitionId, Span, beyond, note_of, offsets_noted, offsets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERASED_PROPERTY = "tidings.erased"
"""Property of a log: when rows of it went last, ISO 8601; of a table of business events: offsets as JSON, see `offsets_text`."""


def offsets_text(offsets: Mapping[PartitionId, int]) -> str:
    """The property of a table of business events."""
    return json.dumps(note_of(offsets), separators=(",", ":"))


def offsets_of_text(text: str) -> dict[PartitionId, int]:
    """What `offsets_text` says; nothing when the table has no such property."""
    return offsets_noted(json.loads(text)) if text else {}


def written_offsets(session: SparkSession, table: str) -> dict[PartitionId, int]:
    """The largest offset per partition that a table of business events holds."""
    places = session.table(table).select(
        sf.col("__topic_id").alias("topic_id"),
        sf.col("__partition_no").alias("partition"),
        sf.col("__offset").alias("offset"),
    )
    return offsets_of(places)


def has_read_again(spans: Mapping[PartitionId, Span], held: Mapping[PartitionId, int]) -> bool:
    """Whether some of a batch's records were read before."""
    return any(span.first_offset <= held.get(partition, -1) for partition, span in spans.items())


def without_erased(
    changes: DataFrame, log: DataFrame, spans: Mapping[PartitionId, Span], held: Mapping[PartitionId, int]
) -> DataFrame:
    """Drops changes that the log has read before and does not hold any more.

    Args:
        held: by partition, the last offset that the log had read before this batch.
    """
    topic_id = next(iter(spans)).topic_id
    is_new = beyond(held, topic_id)
    if is_new is None:
        return changes
    first = min(span.first_offset for span in spans.values())
    last = max(span.last_offset for span in spans.values())
    rows = log.where(
        (sf.col("topic_id") == topic_id) & (sf.col("offset") >= first) & (sf.col("offset") <= last)
    )
    places = rows.select(sf.col("partition").alias("held_partition"), sf.col("offset").alias("held_offset"))
    is_held = (sf.col("partition") == sf.col("held_partition")) & (sf.col("offset") == sf.col("held_offset"))
    found = changes.join(sf.broadcast(places), is_held, "left_outer")
    return found.where(is_new | sf.col("held_offset").isNotNull()).select(*changes.columns)


def beyond_erased(events: DataFrame, offsets: Mapping[PartitionId, int], topic_id: str) -> DataFrame:
    """Events that had not been written when some were erased."""
    is_new = beyond(offsets, topic_id, partition="__partition_no", offset="__offset")
    return events if is_new is None else events.where(is_new)
