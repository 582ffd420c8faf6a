"""Changes of MariaDB that have no place among the others: found by a batch's statistics, and refused by decoding it again.

A decoder refuses them by itself as soon as it knows what they are compared with (`binlog.Limits`): the source's replication
domain, and where the stream begins in each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings_lakehouse.decoding.binlog import Limits
from tidings_lakehouse.decoding.change_decoder import ChangeDecoder
from tidings_lakehouse.decoding.poison import survey_one
from tidings_lakehouse.tables.positions import PartitionId, Progress
from tidings_lakehouse.watermark.transactions import TransactionLog
from tidings_lakehouse.writing.targets import Decoded
from tidings_lakehouse.writing.technical_rows import statistics_of


def unordered(
    decoded: list[Decoded], found: Mapping[str, list[Any]], log: TransactionLog
) -> Iterator[tuple[Decoded, Limits]]:
    """Topics that have to be decoded again, and by what.

    Args:
        found: the statistics of a batch's rows by topic.
        log: knows the replication domain; is told of it if it does not.
    """
    is_new = log.domain is None
    rows_of = {one.target.topic: found.get(one.target.topic, []) for one in decoded}
    domains = {domain for rows in rows_of.values() for row in rows for domain in row["domains"]}
    if is_new and domains:
        log.learn(min(domains))
    for one in decoded:
        rows = rows_of[one.target.topic]
        begun = _begun_before_rows_without_position(rows, one.target.progress)
        is_mixed = is_new and any(set(row["domains"]) - {log.domain} for row in rows)
        if begun or is_mixed:
            yield one, Limits(log.domain, tuple(sorted(begun.items())))


def decoded_again(one: Decoded, limits: Limits) -> dict[str, list[Any]]:
    """Decode a topic's part of a batch anew; gives its statistics."""
    target = one.target
    if target.decoder is None:
        return {}
    target.decoder, target.plan = ChangeDecoder(*target.decoder.made_for[:-1], limits), None
    one.keep(target.decoder.decode(one.records))
    return survey_one(one, statistics_of)


def _begun_before_rows_without_position(rows: list[Any], progress: Progress) -> dict[int, int]:
    """By partition, where the stream began, if a row comes behind that of which nobody knows when it was read."""
    found = {}
    for row in rows:
        partition = row["partition"]
        known = row["begun"], progress.begun.get(PartitionId(row["topic_id"], partition))
        begun = min((offset for offset in known if offset is not None), default=None)
        if begun is not None and row["unplaced"] is not None and row["unplaced"] > begun:
            found[partition] = begun
    return found
