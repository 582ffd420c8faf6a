"""The dead-letter topic: records that could not be used, as they were, with the reason in their headers.

The value (and key) are the original bytes, so that a letter can be replayed. Headers, all UTF-8 text:
``tidings_stage`` (decode, transaction, rows, rule, publish), ``tidings_reason``, ``tidings_error`` (the error's class),
``tidings_topic``, ``tidings_partition``, ``tidings_offset`` of the original, and where known ``tidings_rule``,
``tidings_aggregate``, ``tidings_id``, ``tidings_txid``, ``tidings_commit_lsn``.
"""

from tidings_service import get_logger
from tidings_translator import metrics
from tidings_translator.records import Headers, Output, Partition

log = get_logger(__name__)


def dead_letter(
    topic: str,
    *,
    stage: str,
    error: str,
    reason: str,
    partition: Partition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    **known: str | int | None,
) -> Output:
    """The record for the dead-letter topic; counted and logged (without key and value)."""
    metrics.DEAD_LETTERS.labels(stage, error).inc()
    log.warning(
        "dead letter", stage=stage, error=error, reason=reason, place=f"{partition}@{offset}", **known
    )
    headers: Headers = [
        ("tidings_stage", stage.encode()),
        ("tidings_reason", reason.encode()),
        ("tidings_error", error.encode()),
        ("tidings_topic", partition.topic.encode()),
        ("tidings_partition", str(partition.partition).encode()),
        ("tidings_offset", str(offset).encode()),
    ]
    headers += [(f"tidings_{name}", str(what).encode()) for name, what in known.items() if what is not None]
    return Output(topic, key, value, headers)
