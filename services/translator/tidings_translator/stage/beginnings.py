"""Decides where a stage reads on, and checks that nothing is missing there.

Compared at every assignment: the committed offset with the offsets at which the log begins and ends. What retention has
deleted before it was read is never passed in silence: the stage stops, and a person decides. A partition of which nothing
was ever committed is read from where its log begins; that is decided once and remembered in the stage's own state (in the
Kafka transaction that commits the partition's first offset), so that a group which Kafka has forgotten
(``offsets.retention.minutes``) is not taken for a new one.
"""

from collections.abc import Mapping

from tidings_service import get_logger
from tidings_translator.base import metrics
from tidings_translator.base.errors import GapError
from tidings_translator.base.records import Partition
from tidings_translator.kafka.offsets import PartitionOffsets

log = get_logger("tidings_translator.beginnings")

BEGUN_KEY = b"\0begun"
"""The key among a translator's states under which it is kept that a partition was read; no aggregate's begins like this."""
_RUNBOOK = "docs/runbooks.md, 'After a gap', has the ways to go on"


def position_of(partition: Partition, offsets: PartitionOffsets, *, known: bool) -> int:
    """The offset of the next record to read.

    Args:
        partition: that is assigned.
        offsets: those of the partition.
        known: the stage's state says that it was read before.

    Raises:
        GapError: records were deleted before they were read, or it is not known which were read.
    """
    committed, start, end = offsets
    if committed is None:
        if known:
            raise GapError(
                f"{partition}: the group has no committed offset any more, but its state holds what it has read; the log"
                f" is from offset {start} to {end}",
                hint=f"Kafka forgets the offsets of a group that is away for long, or of a topic that is deleted; {_RUNBOOK}",
            )
        return start
    if committed < start:
        raise GapError(
            f"{partition}: offset {committed} is to be read next, and the log begins at {start}: {start - committed}"
            " offsets were deleted before they were read",
            hint=f"retention was too short for how long this stage was away or late; {_RUNBOOK}",
        )
    if committed > end:
        raise GapError(
            f"{partition}: offset {committed} is to be read next, and the log ends at {end} already",
            hint=f"the topic was made again, or its brokers have lost records; {_RUNBOOK}",
        )
    return committed


def note_beginning(stage: str, partition: Partition, start: int) -> None:
    """Tell that a partition is read for the first time, and that what was before `start` will never be."""
    if start > 0:
        log.warning(
            "reads from the middle of history: what was before is deleted",
            partition=str(partition),
            offset=start,
        )
    metrics.CONSUMER_BEGAN.labels(stage, partition.topic, str(partition.partition)).set(start)


def note_distances(stage: str, committed: Mapping[Partition, int], starts: Mapping[Partition, int]) -> None:
    """Show how far consumers are from where logs begin."""
    for partition, start in starts.items():
        labels = (stage, partition.topic, str(partition.partition))
        metrics.CONSUMER_LOG_START.labels(*labels).set(start)
        if partition in committed:
            metrics.CONSUMER_DISTANCE.labels(*labels).set(committed[partition] - start)
