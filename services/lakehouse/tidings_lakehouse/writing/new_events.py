"""Appends few events to a table of business events without a job of Spark's: which of them it has is asked of Iceberg's reader."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.events import REASON
from tidings_lakehouse.spark.held_rows import HeldRows
from tidings_lakehouse.spark.plans import Plans, told_of
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.tables import Table, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_EVENTS: Final = 200
_MOST_ROWS: Final = 200_000
"""Rows of the files of the events' times: one thread reads so many ids with less work than Spark plans to."""


class NewEvents:
    """Finds which of a batch's events a table lacks; each topic by one thread at a time."""

    def __init__(self, session: SparkSession, local: LocalRows) -> None:
        self._local = local
        self._held = HeldRows(session)
        self._plans = Plans(local)

    def of(self, table: Table, events: DataFrame, statistics: Any) -> DataFrame | None:
        """The first event of each id that the table lacks; None when Spark has to find them.

        Args:
            events: of the batch, in memory.
            statistics: of the batch's events, see `business`.
        """
        if table.schema is None or statistics["good"] > _MOST_EVENTS:
            return None
        names = [quoted(name) for name in table.schema.names]
        told = told_of(sf.col("ce_id"), sf.col("__partition_no"), sf.col("__offset"))
        found = self._plans.of(
            table.name,
            events,
            (table.schema,),
            lambda rows: rows.where(sf.col(REASON).isNull()).select(*names),
            lambda rows: rows.where(sf.col(REASON).isNull()).select(told),
        )
        if found is None:
            return None
        rows, places = found
        first: dict[str, tuple[int, int, int]] = {}
        for number, (id_, partition, offset) in enumerate(places):
            place = (partition, offset, number)
            first[id_] = min(place, first.get(id_, place))
        moments = [_micros(statistics[name]) for name in ("oldest", "newest")]
        known = table.looked_at(
            lambda held: self._held.known(
                held,
                "ce_id",
                list(first),
                "ce_time",
                moments,
                or_none=bool(statistics["timeless"]),
                most=_MOST_ROWS,
            )
        )
        if known is None:
            return None
        return self._local.picked(rows, sorted(first[id_][2] for id_ in first.keys() - known))


def _micros(moment: dt.datetime | None) -> int | None:
    """Microseconds since the epoch; Spark gives moments without a zone, in this process's."""
    if moment is None:
        return None
    return (moment.astimezone(dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
        microseconds=1
    )
