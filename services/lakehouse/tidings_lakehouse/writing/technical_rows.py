"""What a batch's rows say of their topics: statistics, watermarks, what is to be put aside."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.decoding.change_decoder import HEADERS
from tidings_lakehouse.decoding.changes import PLACE
from tidings_lakehouse.decoding.poison import survey_one
from tidings_lakehouse.metrics import FRESHNESS
from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.spark.small import is_local
from tidings_lakehouse.tables.positions import statistics
from tidings_lakehouse.tables.system_tables import Watermark
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.tables.troubles import trouble_of_topic
from tidings_lakehouse.writing.targets import Decoded, Target


def without_values(lacking: DataFrame, table: str) -> DataFrame:
    """Changes that `incomplete` gives, as the quarantine takes them: the record itself is in the log."""
    names = sf.transform("unknown", lambda name: sf.concat(sf.lit("after."), name))
    why = sf.concat(
        sf.concat_ws(", ", names),
        sf.lit(
            f": PostgreSQL did not log it, and {table} has no row with this key; the record is in the log"
        ),
    )
    return lacking.select(
        *PLACE,
        why.alias("reason"),
        sf.lit(None).cast("binary").alias("raw_key"),
        sf.lit(None).cast("binary").alias("raw_value"),
        sf.lit(None).cast(HEADERS).alias("headers"),
    )


def statistics_of(decoded: list[Decoded]) -> dict[str, list[Any]]:
    """Statistics of every topic and partition, in one job, which also decodes and keeps the rows of all topics."""
    frames = [
        one.changes.select(
            sf.lit(one.target.topic).alias("topic"),
            "topic_id",
            "partition",
            "offset",
            "op",
            "snapshot",
            "incremental",
            "last_commit_lsn",
            "lsn",
            "changed_at",
            "reason",
            "unavailable",
            "domain",
        )
        for one in decoded
    ]
    whole = union(frames)
    if all(is_local(one.changes) for one in decoded):
        whole = whole.coalesce(1)
    rows = (
        whole.groupBy("topic", "topic_id", "partition")
        .agg(
            *statistics(),
            sf.array_distinct(sf.flatten(sf.collect_set("unavailable"))).alias("unavailable"),
            sf.collect_set("domain").alias("domains"),
        )
        .collect()
    )
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(row)
    return found


def statistics_of_all(
    decoded: list[Decoded], attempt: Callable[[Decoded, Callable[[], Any]], Any]
) -> dict[str, list[Any]]:
    """`statistics_of`; where what all topics have in common fails, those of one topic after the other.

    Args:
        attempt: does something for a topic, which is set aside if that fails by its own trouble; then it gives None.
    """
    if not decoded:
        return {}
    try:
        return statistics_of(decoded)
    except Exception as error:
        if trouble_of_topic(error) is None:
            raise
    found: dict[str, list[Any]] = {}
    for one in decoded:
        found |= attempt(one, functools.partial(survey_one, one, statistics_of)) or {}
    return found


def tell_freshness(one: Decoded, rows: list[Any]) -> dt.datetime | None:
    """Tell how old the newest change is that has become readable; gives its time, local as Spark gives times."""
    newest = _newest(rows)
    if newest is None:
        return None
    seconds = max(0.0, (dt.datetime.now() - newest).total_seconds())  # noqa: DTZ005
    for table in _readable(one.target):
        FRESHNESS.labels(table.name).set(seconds)
    return newest


def _newest(rows: list[Any]) -> dt.datetime | None:
    return max((row["changed_at"] for row in rows if row["changed_at"] is not None), default=None)


def watermarks_of(one: Decoded, rows: list[Any], read: Offsets) -> list[Watermark]:
    return [watermark_of(one.target, table, rows, read) for table in _readable(one.target) if table.exists]


def watermark_of(target: Target, table: Table, rows: list[Any], read: Offsets) -> Watermark:
    """How far one of a topic's tables is."""
    progress = target.progress
    newest = progress.newest_position
    return Watermark(
        table.name,
        target.topic,
        progress.complete_lsn(map(int, read.get(target.topic, {}))),
        None if newest is None else newest.commit_lsn,
        None if newest is None else newest.lsn,
        _newest(rows),
    )


def _readable(target: Target) -> list[Table]:
    """The tables that have everything that was read."""
    return [target.log] if target.waits else [target.current, target.log]
