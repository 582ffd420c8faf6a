"""What `tidings.accepted_losses` holds: offsets of topics that nobody waits for any more, and the metrics that tell of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from tidings_lakehouse.metrics import ACCEPTED_LOSS_RECORDS, ACCEPTED_LOSSES
from tidings_lakehouse.topics import ACCEPTED_LOSSES as TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = st.StructType(
    [
        st.StructField("topic", st.StringType()),
        st.StructField("topic_id", st.StringType()),
        st.StructField("partition", st.IntegerType()),
        st.StructField("first_offset", st.LongType()),
        st.StructField("next_offset", st.LongType()),
        st.StructField("code", st.StringType()),
        st.StructField("accepted_at", st.TimestampType()),
    ]
)


@dataclass(frozen=True)
class Loss:
    """Offsets of a partition that will not be read."""

    topic: str
    topic_id: str
    partition: int
    first: int
    next: int | None
    """The first offset that is read again; None when the topic has been deleted."""
    code: str
    """Why the topic is set aside."""


def accepted_losses(session: SparkSession) -> list[Loss]:
    """All losses that a person has accepted, in their order; the metrics tell of them from now on."""
    if not session.catalog.tableExists(TABLE):
        return []
    rows = session.table(TABLE).orderBy("accepted_at").collect()
    found = [
        Loss(
            row["topic"],
            row["topic_id"],
            row["partition"],
            row["first_offset"],
            row["next_offset"],
            row["code"],
        )
        for row in rows
    ]
    tell(found)
    return found


def tell(losses: Iterable[Loss]) -> None:
    """Set the metrics to what all accepted losses are."""
    by_topic: dict[str, set[Loss]] = defaultdict(set)  # what is accepted twice is lost once
    for one in losses:
        by_topic[one.topic].add(one)
    for topic, those in by_topic.items():
        ACCEPTED_LOSSES.labels(topic).set(len(those))
        ACCEPTED_LOSS_RECORDS.labels(topic).set(_offsets(those))


def _offsets(losses: Iterable[Loss]) -> int:
    """How many offsets losses have together, where they overlap, too."""
    count = 0
    reached: dict[tuple[str, int], int] = {}
    for one in sorted(losses, key=lambda loss: loss.first):
        if one.next is None:
            continue
        place = one.topic_id, one.partition
        count += max(0, one.next - max(one.first, reached.get(place, 0)))
        reached[place] = max(one.next, reached.get(place, 0))
    return count
