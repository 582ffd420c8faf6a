"""The watermark of a source, driven by the END markers of its transaction topic: see `completeness`.

Without ``provide.transaction.metadata`` there are no markers; then a table has a watermark of its own (`Progress.complete_lsn`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.metrics import PASSED_WITH_MISSING_ROWS, WATERMARK_WAITING
from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.tables.system_tables import Watermark, WatermarkTable
from tidings_lakehouse.topics import TRANSACTION_LOG
from tidings_lakehouse.watermark.completeness import Completeness, Rows
from tidings_lakehouse.watermark.transactions import Markers, TransactionLog
from tidings_service import get_logger

_LOG = get_logger("tidings_lakehouse.watermark.source_watermark")


def is_ahead(passed: int) -> Column:
    """Whether a row's transaction may be behind the newest commit that the watermark has passed, so that it is counted."""
    # Not as one coalesce: so Iceberg leaves out the files of older commits.
    last = sf.col("last_commit_lsn")
    return (last >= passed) | (last.isNull() & (sf.col("lsn") >= passed))


@dataclass(frozen=True)
class Reached:
    """How far a source is in the tables."""

    commit_lsn: int | None
    passed: int | None
    """See `Completeness`."""

    def order(self) -> tuple[int, int]:
        """The less of two has the less of this."""
        return (
            -1 if self.passed is None else self.passed,
            -1 if self.commit_lsn is None else self.commit_lsn,
        )


class SourceWatermark:
    """Counts what a source's transactions have, and what of it is in the tables.

    Args:
        ends: asks for the present ends of the source's topics.
        deadline: see `Completeness`.
        is_paused: see `pause`.
    """

    def __init__(
        self,
        log: TransactionLog,
        persisted: WatermarkTable,
        ends: Callable[[], Offsets],
        deadline: float,
        *,
        is_paused: bool = False,
    ) -> None:
        self._log = log
        self._ask_ends = ends
        self._persisted = persisted
        self._deadline = deadline
        known = persisted.row(TRANSACTION_LOG, log.topic)
        self.is_new = known is None
        """Nothing was ever counted: not even by a former release, whose tables are not counted now, either."""
        self.has_markers = known is not None
        """Whether the source has transaction metadata, as far as one can see."""
        self._completeness = self._begin()
        self._held: Reached | None = None
        self._is_paused = is_paused
        if not is_paused:
            self.resume()

    def _begin(self) -> Completeness:
        known = self._persisted.row(TRANSACTION_LOG, self._log.topic)
        if known is None:
            return Completeness(None, None, self._deadline)
        return Completeness(known.commit_lsn, known.newest_commit_lsn, self._deadline)

    def pause(self) -> None:
        """Some topic's rows are left out: the watermark stays where it is, and nothing is counted or kept in memory."""
        self._is_paused = True
        self._completeness = self._begin()
        WATERMARK_WAITING.set(0)

    def resume(self) -> None:
        """Every topic is written: go on with what the tables hold behind the watermark, as at a start.

        The logs have to be counted again.
        """
        self._is_paused = False
        self._completeness = self._begin()
        known = self._persisted.row(TRANSACTION_LOG, self._log.topic)
        self.is_new = known is None
        if known is not None:
            self._take(Markers(self._log.after(known.newest_commit_lsn), 0))

    @property
    def awaited(self) -> frozenset[str]:
        """Topics whose rows some END marker counts."""
        return self._completeness.awaited

    @property
    def commit_lsn(self) -> int | None:
        """Up to here everything is in the tables."""
        return self.told.commit_lsn

    @property
    def reached(self) -> Reached:
        """How far the logs are."""
        return Reached(self._completeness.commit_lsn, self._completeness.passed)

    @property
    def told(self) -> Reached:
        """How far all tables are, as far as is told."""
        return self.reached if self._held is None else min(self._held, self.reached, key=Reached.order)

    def hold(self, reached: Reached | None) -> None:
        """Tell no more than this, because current states wait for what the logs have; None: nothing waits."""
        self._held = reached

    def count(self, changes: DataFrame) -> None:
        """Rows of logs that are in the tables, or will be when the watermark is written.

        Args:
            changes: with topic, partition, tx_id, total_order, last_commit_lsn, lsn; without what cannot be decoded.
        """
        if self._is_paused:
            return
        rows = changes.where("total_order IS NOT NULL")
        if (passed := self._completeness.passed) is not None:
            rows = rows.where(is_ahead(passed))
        self._completeness.count(_counted(rows), lambda again: _counted(rows.where(_behind(again))))

    def read(self, markers: Markers | None, found: dict[str, list[Any]]) -> None:
        """What a batch has read, after its rows were counted.

        Args:
            markers: of the transaction topic; None when the batch has none.
            found: the statistics of its rows by topic.
        """
        if self._is_paused:
            self.has_markers = self.has_markers or markers is not None
            return
        for topic, rows in found.items():
            for row in rows:
                if row["snapshots"]:
                    # Rows that know a commit before them were read in the middle of the stream.
                    is_first = row["snapshots"] == row["first_snapshots"]
                    self._completeness.shut(row["snapshot_max"] if is_first else None)
                if row["placed_max"] is not None:
                    self._completeness.beyond((topic, row["partition"]), row["placed_max"][0])
        if markers is not None:
            self._take(markers)

    def _take(self, markers: Markers) -> None:
        self.has_markers = True
        if markers.unreadable:
            _LOG.warning(
                "transaction markers could not be decoded, so the watermark waits until all topics have been read",
                topic=self._log.topic,
                records=markers.unreadable,
            )
            self._completeness.shut()
        now = time.monotonic()
        for end in markers.ends:
            self._completeness.end(end, now)

    @property
    def waits_for_position(self) -> bool:
        """Whether a position would bring the watermark on that no END marker gives."""
        return not self._is_paused and self._completeness.is_shut

    def claim(self, commit_lsn: int) -> None:
        """See `Completeness.claim`."""
        self.has_markers = True
        self._completeness.claim(commit_lsn)

    def advance(self, read: Offsets) -> list[Watermark]:
        """The source's row of the watermark table, when everything is in the tables up to some offsets."""
        if not self.has_markers:
            return []
        counted, now = self._completeness, time.monotonic()
        if self._is_paused:
            return [self._row()]
        if counted.is_asking():
            counted.await_ends(self._ask_ends())
        if counted.is_overdue(now):
            counted.rest_at(self._ask_ends(), now)
        missing, absent = counted.missing, set(counted.absent)
        counted.advance(read, len(read.get(self._log.topic, {})))
        if counted.missing > missing:
            PASSED_WITH_MISSING_ROWS.inc(counted.missing - missing)
            _LOG.warning(
                "the watermark has passed commits without all of the rows that their END markers count",
                commits=counted.missing - missing,
                given_up=sorted(counted.absent - absent),
            )
        WATERMARK_WAITING.set(counted.waiting_seconds(now))
        return [self._row()]

    def _row(self) -> Watermark:
        told = self.told
        return Watermark(TRANSACTION_LOG, self._log.topic, told.commit_lsn, told.passed, None, None)


def _counted(rows: DataFrame) -> Iterable[Rows]:
    groups = rows.groupBy("topic", "partition", "tx_id").agg(
        sf.count_distinct("total_order"), sf.min("total_order"), sf.max("total_order")
    )
    return [Rows(*row) for row in groups.collect()]


def _behind(again: list[tuple[Rows, int]]) -> Any:
    condition = sf.lit(False)
    for rows, last in again:
        condition = condition | (
            (sf.col("topic") == rows.topic)
            & (sf.col("partition") == rows.partition)
            & (sf.col("tx_id") == rows.tx_id)
            & (sf.col("total_order") > last)
        )
    return condition


def countable(changes: DataFrame, topic: str) -> DataFrame:
    """The columns of a log that `SourceWatermark.count` needs."""
    return changes.select(
        sf.lit(topic).alias("topic"), "partition", "tx_id", "total_order", "last_commit_lsn", "lsn"
    )
