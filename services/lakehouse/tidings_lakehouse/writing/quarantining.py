"""What of a batch goes to the quarantine: what cannot be decoded, and changes of rows some values of which are not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.metrics import QUARANTINED
from tidings_lakehouse.tables.positions import PartitionId
from tidings_lakehouse.tables.system_tables import QuarantineTable
from tidings_lakehouse.writing.targets import Decoded
from tidings_lakehouse.writing.technical_rows import without_values


def put_in_quarantine(
    quarantine: QuarantineTable,
    decoded: list[Decoded],
    lacking: Mapping[str, DataFrame],
    ids: Mapping[str, str],
    found: Mapping[str, list[Any]],
    failpoint: Failpoint,
) -> None:
    """Write it, in one commit.

    Args:
        lacking: by topic, changes some values of which are not known.
        ids: of the topics.
        found: the statistics of the topics' rows.
    """
    frames: list[DataFrame] = []
    offsets: dict[PartitionId, int] = {}
    for one in decoded:
        topic, name = one.target.topic, one.target.current.name
        before = len(frames)
        if count := sum(row["failed"] for row in found.get(topic, [])):
            frames.append(quarantine.rows(one.changes, topic, ids[topic]))
            QUARANTINED.labels(topic).inc(count)
        if (unknown := lacking.get(topic)) is not None:
            frames.append(quarantine.rows(without_values(unknown, name), topic, ids[topic]))
            QUARANTINED.labels(topic).inc(unknown.count())
        if len(frames) > before:
            offsets |= one.survey.last_offsets(ids[topic])
    if frames:
        # In one commit: what it holds is known by its largest offset.
        quarantine.append(union(frames), offsets)
        failpoint("quarantine")
