"""Runs the replay, and gives its events as a table or compares them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_domain.loading.domain import Domain
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.replay.arrow import map_in_arrow
from tidings_lakehouse.replay.logs import Range, range_of
from tidings_lakehouse.replay.rows import Shares, shared_rows
from tidings_lakehouse.replay.task import DDL, ReplayTask
from tidings_lakehouse.topics import REPLAYED
from tidings_lakehouse.watermark.transactions import is_of_a_binlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Told(NamedTuple):
    """How often something of a kind is told, and the first reason."""

    times: int
    reason: str


@dataclass(frozen=True)
class Replayed:
    """A replay that is done.

    Attributes:
        rows: of `task.SHAPE`.
        domain: whose rules.
        range: over which.
    """

    rows: DataFrame
    domain: Domain
    range: Range

    @property
    def events(self) -> DataFrame:
        """The events alone."""
        return self.rows.where("topic IS NOT NULL")

    def told(self) -> dict[str, Told]:
        """By kind what is told of aggregates and rows, each once, also where several shares tell it."""
        told = self.rows.where("told IS NOT NULL").select("told", "aggregate", "id", "commit_lsn", "reason")
        counted = (
            told.distinct()
            .groupBy("told")
            .agg(sf.count("*").alias("count"), sf.min("reason").alias("reason"))
        )
        return {row["told"]: Told(row["count"], row["reason"]) for row in counted.collect()}

    def notes(self) -> list[str]:
        """What a person should know, the range first."""
        notes = [*self.range.notes]
        if self.range.given_up:
            notes.append(
                f"{self.range.given_up} transactions lack rows and are left out, as the sequencer does when it gives one up"
            )
        notes += [f"{kind}: {one.times}, such as: {one.reason}" for kind, one in sorted(self.told().items())]
        return notes


@contextmanager
def replayed(
    session: SparkSession,
    source: str,
    domain: Domain,
    *,
    until: int | None = None,
    shares: int | None = None,
    gives_up: bool = False,
    trace_column: str | None = None,
    with_data: bool = False,
    with_state: bool = False,
) -> Iterator[Replayed]:
    """Evaluate a domain's rules over the lake's logs; the rows are Spark's until the context ends.

    Args:
        session: of the lakehouse.
        source: the topic prefix.
        domain: the rules.
        until: see `range_of`, as are `gives_up` and `trace_column`.
        shares: in how many parts the aggregates are evaluated; None: as many as Spark runs tasks at once.
        with_data: give each event as JSON, too.
        with_state: give what is known at the end of the range, too.

    Raises:
        ReplayError: something of the range is not known exactly.
    """
    count = shares or max(session.sparkContext.defaultParallelism, 1)
    found = range_of(session, source, domain, until=until, gives_up=gives_up, trace_column=trace_column)
    try:
        parted = Shares(domain, count)
        if is_of_a_binlog(session, source):
            for log in found.logs:
                parted.refuse_units(log)
        rows = shared_rows(found.logs, parted, count, found.transactions)
        task = ReplayTask(
            domain.package, count, tuple(str(Path(one).resolve()) for one in sys.path), with_data, with_state
        )
        result = map_in_arrow(rows, task.evaluate, DDL).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield Replayed(result, domain, found)
        finally:
            result.unpersist()
    finally:
        found.close()


def write_table(session: SparkSession, found: Replayed, name: str) -> str:
    """Write the events to a new table of `REPLAYED`; gives its name.

    Raises:
        ReplayError: the name cannot be used.
    """
    if not name.isidentifier() or not name.isascii():
        raise ReplayError(
            f"'{name}' is not a table's name", hint=f"letters, digits and _: it becomes {REPLAYED}.<name>"
        )
    table = f"{REPLAYED}.{name.lower()}"
    if session.catalog.tableExists(table):
        raise ReplayError(f"{table} is there already", hint="give another name, or drop it")
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {REPLAYED}")
    header = "decode(filter(headers, h -> h.key = '{0}')[0].value, 'UTF-8')"
    found.events.select(
        sf.col("topic").alias("event"),
        sf.expr(header.format("ce_id")).alias("ce_id"),
        sf.expr(header.format("ce_source")).alias("ce_source"),
        sf.col("id").alias("ce_subject"),
        sf.timestamp_micros("ts_us").alias("ce_time"),
        sf.expr(header.format("ce_sequence")).alias("ce_sequence"),
        "rule",
        "commit_lsn",
        "data",
        "headers",
        "body",
    ).writeTo(table).using("iceberg").create()
    return table
