"""Writes the watermark of a source: behind each batch, and when the source has stored a position while nothing is left to be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.tables.system_tables import Watermark, WatermarkTable
from tidings_lakehouse.watermark.completeness import has_read
from tidings_lakehouse.watermark.source_watermark import Reached, SourceWatermark, countable
from tidings_lakehouse.watermark.transactions import Markers, TransactionLog
from tidings_lakehouse.writing.targets import Decoded

Batch = tuple[list[Decoded], dict[str, list[Any]], Markers | None]
"""What a batch has written, the statistics of its rows by topic, and its transaction markers."""


class WatermarkWriter:
    """Writes how far the tables of a source are complete.

    Args:
        complete: works it out.
        table: where it is written.
        waiting: asks up to where tables are complete whose changes are merged later; None: none wait.
        ends: asks for the topics' ends.
        position: asks for the commit up to which everything is on the topics, of the replication domain that is given; None when
            that is not known.
        source: the topic prefix.
    """

    def __init__(
        self,
        complete: SourceWatermark,
        table: WatermarkTable,
        transactions: TransactionLog,
        waiting: Callable[[], Reached | None],
        ends: Callable[[], Offsets],
        position: Callable[[int | None], int | None],
        *,
        source: str,
        failpoint: Failpoint,
    ) -> None:
        self._complete = complete
        self._table = table
        self._transactions = transactions
        self._waiting = waiting
        self._ends = ends
        self._position = position
        self._source = source
        self._failpoint = failpoint

    def write(
        self,
        read: Offsets,
        batch_id: int,
        watermarks: Sequence[Watermark] = (),
        batch: Batch | None = None,
    ) -> None:
        """Write how far the source's tables are.

        Args:
            read: up to where the topics have been read.
            watermarks: of the tables that were changed.
        """
        decoded, found, markers = ([], {}, None) if batch is None else batch
        complete = self._complete
        if decoded and self._transactions.topic in read:
            frames = [countable(one.changes.where("reason IS NULL"), one.target.topic) for one in decoded]
            complete.count(union(frames))
        complete.read(markers, found)
        complete.hold(self._waiting())
        self._table.take([*watermarks, *complete.advance(read)], batch_id)
        if complete.has_markers:
            self._table.complete(self._source, complete.commit_lsn)
        self._table.write()
        self._failpoint("watermark")

    def write_again(self) -> None:
        """Write what is known already, without what has been read since."""
        complete = self._complete
        complete.hold(self._waiting())
        if complete.has_markers:
            # A table claims no more than its source, also when nobody gets further than this write.
            self._table.complete(self._source, complete.commit_lsn)
        self._table.write()

    def follow(self, read: Offsets, batch_id: int) -> None:
        """Advance to the position that the source has stored, if everything before it has been read."""
        if self._transactions.topic not in read or not has_read(read, self._ends()):
            return
        position = self._position(self._transactions.domain)
        # What was committed up to there had been sent before the position was stored: so these ends are behind it.
        if position is None or not has_read(read, self._ends()):
            return
        self._complete.claim(position)
        self.write(read, batch_id)
