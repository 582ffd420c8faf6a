"""Finds the logs that a domain needs, and the range of commits over which they can be replayed exactly.

What cannot is refused by name: a transaction of which rows are missing, a row without its transaction, a snapshot in the middle of
the stream. `until` takes a range that ends before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tidings_domain.loading.domain import Domain
from tidings_envelope.position import lsn_to_text
from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.decoding.text_records import VALUE_TEXT
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.history.history import check_whole, logs_of_source
from tidings_lakehouse.replay.rows import DomainLog, headers_of_trace, placed
from tidings_lakehouse.replay.servers import refuse_numbers_that_go_back
from tidings_lakehouse.replay.task import AGAIN, FIRST, STREAMED
from tidings_lakehouse.tables.erased import ERASED_PROPERTY
from tidings_lakehouse.tables.tables import TOPIC_PROPERTY
from tidings_lakehouse.topics import QUARANTINE, TECHNICAL, TRANSACTION_LOG, WATERMARK
from tidings_lakehouse.watermark.transactions import end_markers, replication_domain_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMED = 5
"""Transactions that an error names."""


@dataclass(frozen=True)
class Range:
    """What is replayed.

    Attributes:
        logs: of the domain's tables, without what was committed behind `until`.
        until: the last commit position.
        snapshot: the position of the first snapshot; None where there is none.
        transactions: see `rows.shared_rows`.
        given_up: transactions that lack rows.
        notes: what a person should know.
        kept: what is known of each transaction.
        whole: the logs of the same tables with all that they have; `is_within` says what is in the range.
        newest: the last END marker in the range; None where there is none.
    """

    logs: list[DomainLog]
    until: int
    snapshot: int | None
    transactions: DataFrame | None
    given_up: int
    notes: list[str]
    kept: DataFrame
    whole: list[DomainLog]
    newest: int | None

    @property
    def is_within(self) -> Column:
        """Whether a change of `whole` is in the range."""
        return _is_within(self.until, self.newest)

    def close(self) -> None:
        """Give back what Spark keeps for it."""
        self.kept.unpersist()


def range_of(
    session: SparkSession,
    source: str,
    domain: Domain,
    *,
    until: int | None = None,
    gives_up: bool = False,
    trace_column: str | None = None,
) -> Range:
    """The logs of a domain's tables up to a commit.

    Args:
        session: of the lakehouse.
        source: the topic prefix.
        domain: the rules.
        until: the last commit position; None: the watermark of the domain's tables.
        gives_up: leave transactions out that lack rows, as the sequencer does, instead of refusing them.
        trace_column: as the translator's TIDINGS_TRACE_COLUMN.

    Raises:
        ReplayError: something of the range is not known exactly.
        HistoryError: old rows of a log have been let go, or a column has changed its type.
    """
    names = _names(session, source, domain)
    check_whole(session, names.values())
    _refuse_late_logs(session, names)
    watermark = _watermark(session, list(names.values()))
    if until is not None and until > watermark:
        raise ReplayError(
            f"the tables are complete up to {lsn_to_text(watermark)}, which is before {lsn_to_text(until)}",
            hint="leave --until out, or wait for the lakehouse to catch up",
        )
    end = watermark if until is None else until
    if replication_domain_of(session, source) is not None:
        refuse_numbers_that_go_back(session, source, end)
    ends = ends_of(session, source)
    begun, newest = ends.agg(
        sf.min("commit_lsn"), sf.max(sf.when(sf.col("commit_lsn") <= end, sf.col("commit_lsn")))
    ).collect()[0]
    commits = ends.groupBy("tx_id").agg(sf.collect_set("commit_lsn").alias("commits"))
    whole = [
        DomainLog(table, _topic(session, name), placed(session.table(name), commits))
        for table, name in names.items()
    ]
    logs = [replace(log, frame=log.frame.where(_is_within(end, newest))) for log in whole]
    rows = _count(logs)
    _refuse_rows(rows, begun)
    found = _transactions(logs, ends.where(sf.col("commit_lsn") <= end), trace_column).persist()
    try:
        given_up = _given_up(found, gives_up=gives_up)
    except ReplayError:
        found.unpersist()
        raise
    special = found.where("lost OR trace_headers IS NOT NULL OR trace_column IS NOT NULL OR times > 1")
    special = special.select(
        sf.col("commit").alias("position"), "ts_us", "trace_headers", "trace_column", "lost"
    )
    has_special = special.limit(1).count() > 0
    snapshot = max((row["last_read"] for row in rows if row["last_read"] is not None), default=None)
    return Range(
        logs,
        end,
        snapshot,
        special if has_special else None,
        given_up,
        _notes(rows, end),
        found,
        whole,
        newest,
    )


def _names(session: SparkSession, source: str, domain: Domain) -> dict[str, str]:
    if not session.catalog.tableExists(TRANSACTION_LOG) or not session.catalog.tableExists(WATERMARK):
        raise ReplayError(
            "the lakehouse has no transactions", hint="is it the warehouse that tidings-lakehouse run writes?"
        )
    found = {".".join(topic.split(".")[-2:]): name for name, topic in logs_of_source(session, source).items()}
    lacking = sorted(domain.tables.keys() - found.keys())
    if lacking:
        raise ReplayError(
            f"the lakehouse has no log of {', '.join(lacking)} of source {source}",
            hint="set TIDINGS_SOURCE to the connector's topic.prefix; the domain's tables must all be captured",
        )
    texts = sorted(table for table in domain.tables if VALUE_TEXT in session.table(found[table]).columns)
    if texts:
        raise ReplayError(
            f"records of {', '.join(texts)} are kept as text, which has no rows to be replayed",
            hint="type them by schemas (TIDINGS_LAKEHOUSE_SCHEMAS) in a warehouse of their own",
        )
    return {table: found[table] for table in sorted(domain.tables)}


def _topic(session: SparkSession, name: str) -> str:
    return str(session.sql(f"SHOW TBLPROPERTIES {name} ('{TOPIC_PROPERTY}')").collect()[0]["value"])


def _refuse_late_logs(session: SparkSession, names: dict[str, str]) -> None:
    """The transactions before a log's beginning are not counted as incomplete where the transaction log begins late, too."""
    frames = []
    for table, name in names.items():
        properties = {row["key"] for row in session.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        if ERASED_PROPERTY in properties:
            continue  # its first row may be one that was erased; then a transaction lacks it
        topic = _topic(session, name)
        places = [session.table(name).select("partition", "offset")]
        if session.catalog.tableExists(QUARANTINE):
            aside = session.table(QUARANTINE).where(
                (sf.col("stream") == TECHNICAL) & (sf.col("topic") == topic)
            )
            places.append(aside.select("partition", "offset"))
        frames += [one.select(sf.lit(table).alias("table"), "partition", "offset") for one in places]
    if not frames:
        return
    begins = (
        union(frames).groupBy("table", "partition").agg(sf.min("offset").alias("first")).where("first > 0")
    )
    late = begins.orderBy("table", "partition").first()
    if late is not None:
        table, partition, first = late["table"], late["partition"], late["first"]
        raise ReplayError(
            f"the log of {table} begins at offset {first} of partition {partition}: what came before is not in the lake",
            hint="the lakehouse was started after Kafka had deleted it; a source under another topic.prefix has a history of its own",
        )


def _watermark(session: SparkSession, names: list[str]) -> int:
    rows = session.table(WATERMARK).where((sf.col("stream") == TECHNICAL) & sf.col("table_name").isin(names))
    known = {row["table_name"]: row["commit_lsn"] for row in rows.collect()}
    unknown = sorted(name for name in names if known.get(name) is None)
    if unknown:
        raise ReplayError(
            f"up to which commit {', '.join(unknown)} is complete is not known yet",
            hint="let the lakehouse catch up; the connector needs provide.transaction.metadata=true",
        )
    return int(min(known.values()))


def ends_of(session: SparkSession, source: str) -> DataFrame:
    """The END markers of a source, each commit once."""
    ends = end_markers(session, source).select("tx_id", "commit_lsn", "data_collections", "left_out")
    return ends.dropDuplicates(["tx_id", "commit_lsn"])


def _is_within(end: int, newest: int | None) -> Column:
    """Whether a change is in the range.

    Args:
        end: the range's.
        newest: the last END marker in it. A change without a marker is behind the range, or its marker is lost: since commits are
            serial, one that knows only of commits before `newest` belongs to none behind it.
    """
    before = sf.coalesce("last_commit_lsn", "lsn", sf.lit(0))
    endless = sf.lit(False) if newest is None else before < newest
    streamed = sf.when(sf.col("commit").isNull(), endless).otherwise(sf.col("commit") <= end)
    return sf.when(sf.col("kind") == STREAMED, streamed).otherwise(before <= end)


def _count(logs: list[DomainLog]) -> list[Any]:
    """By table, what decides whether its rows can be replayed."""
    frames = [
        log.frame.select(
            sf.lit(log.table).alias("table"),
            *("kind", "op", "tx_id", "total_order", "last_commit_lsn", "lsn", "commit", "topic_id"),
        )
        for log in logs
    ]
    streamed, first = sf.col("kind") == STREAMED, sf.col("kind") == FIRST
    alone = streamed & (sf.col("tx_id").isNull() | sf.col("total_order").isNull())
    return sorted(
        union(frames)
        .groupBy("table")
        .agg(
            sf.count_if(alone).alias("alone"),
            sf.count_if(streamed & sf.col("commit").isNull()).alias("endless"),
            sf.count_if(sf.col("kind") == AGAIN).alias("again"),
            sf.count_if(sf.col("op") == "t").alias("truncated"),
            sf.min(sf.when(first, sf.col("lsn"))).alias("first_read"),
            sf.max(sf.when(first, sf.col("lsn"))).alias("last_read"),
            sf.min(sf.when(first, sf.col("last_commit_lsn"))).alias("late"),
            (sf.min("topic_id") != sf.max("topic_id")).alias("made_again"),
        )
        .collect()
    )


def _refuse_rows(found: list[Any], begun: int | None) -> None:
    reads = [row["first_read"] for row in found if row["first_read"] is not None]
    least = min(reads, default=0)
    for row in found:
        table = row["table"]
        if row["made_again"]:
            raise ReplayError(
                f"the topic of {table} was deleted and made again while it was logged, so its history may have a gap",
                hint="a source under another topic.prefix has a history of its own",
            )
        if row["alone"]:
            raise ReplayError(
                f"{row['alone']} rows of {table} do not say which transaction they belong to",
                hint="set provide.transaction.metadata=true in the connector; what was logged before cannot be replayed",
            )
        if row["endless"]:
            raise ReplayError(
                f"of {row['endless']} rows of {table} the END marker is not in {TRANSACTION_LOG}",
                hint="it was unreadable, or the transaction topic is not read from its beginning",
            )
        if row["late"] is not None or (row["last_read"] or 0) > least:
            at = row["last_read"] if row["late"] is None else row["late"]
            raise ReplayError(
                f"{table} was read by a second snapshot in the middle of the stream, at {lsn_to_text(at)}: between which"
                " commits its rows came is not in the log",
                hint=f"give a range that ends before it, such as --until {lsn_to_text(at - 1)}",
            )
    if reads and begun is not None and begun <= least:
        raise ReplayError(
            f"the stream has begun anew with a snapshot at {lsn_to_text(least)}, behind its first commit at"
            f" {lsn_to_text(begun)}",
            hint=f"give a range that ends before it, such as --until {lsn_to_text(least - 1)}",
        )


def _notes(found: list[Any], end: int) -> list[str]:
    notes = [f"up to commit {lsn_to_text(end)}"]
    for row in found:
        if row["truncated"]:
            notes.append(
                f"{row['table']} was truncated {row['truncated']} times: its aggregates stay as they were, as in the live service"
            )
        if row["again"]:
            notes.append(
                f"{row['again']} rows of {row['table']} were read by incremental snapshots: an aggregate that one of them has"
                " changed is told apart"
            )
    return notes


def _transactions(logs: list[DomainLog], ends: DataFrame, trace_column: str | None) -> DataFrame:
    """By `commit`: the time of its first row, the number of its times, whether it lacks rows, and its trace."""
    frames = [
        log.frame.where(sf.col("kind") == STREAMED).select(
            "commit",
            sf.lit(log.table).alias("table"),
            "total_order",
            sf.unix_micros("changed_at").alias("ts_us"),
        )
        for log in logs
    ]
    # One shuffle for all that follows. A row that was written again after a crash counts once.
    rows = union(frames).repartition("commit")
    rows = rows.groupBy("commit", "table", "total_order").agg(sf.min("ts_us").alias("ts_us"))
    by_table = rows.groupBy("commit", "table").agg(
        sf.count("*").alias("have"),
        sf.min("total_order").alias("total_order"),
        sf.min_by("ts_us", "total_order").alias("ts_us"),
        sf.min("ts_us").alias("least"),
        sf.max("ts_us").alias("most"),
    )
    counted = (
        by_table.join(_wanted(ends, [log.table for log in logs]), ["commit", "table"], "full_outer")
        .groupBy("commit")
        .agg(
            sf.bool_or(sf.coalesce("have", sf.lit(0)) < sf.coalesce("wanted", sf.lit(0))).alias("lost"),
            sf.min_by("ts_us", "total_order").alias("ts_us"),
            (sf.when(sf.min("least") < sf.max("most"), 2).otherwise(1)).alias("times"),
        )
    )
    return counted.join(_traces(logs, trace_column), "commit", "left")


def _traces(logs: list[DomainLog], trace_column: str | None) -> DataFrame:
    """By `commit`, the trace context in the headers, and in the column, of the first row that has one."""
    frames = []
    for log in logs:
        names = {field.name for field in getattr(log.frame.schema["after"].dataType, "fields", ())}
        has_column = trace_column is not None and trace_column in names
        traced = sf.col("after")[trace_column] if has_column else sf.lit(None)
        frames.append(
            log.frame.where(sf.col("kind") == STREAMED)
            .select(
                "commit",
                "total_order",
                headers_of_trace().alias("trace_headers"),
                traced.cast("string").alias("trace_column"),
            )
            .where("trace_headers IS NOT NULL OR trace_column IS NOT NULL")
        )

    def first(name: str) -> Column:
        known = sf.when(sf.col(name).isNotNull(), sf.col("total_order"))
        return sf.min_by(name, known).alias(name)

    return union(frames).groupBy("commit").agg(first("trace_headers"), first("trace_column"))


def _wanted(ends: DataFrame, tables: list[str]) -> DataFrame:
    """By commit and table, how many rows the END marker counts, without those that capture's filters have left out."""
    filtered = sf.from_json("left_out", "filtered map<string, bigint>")["filtered"]
    counted = ends.select(
        sf.col("commit_lsn").alias("commit"),
        filtered.alias("filtered"),
        sf.explode("data_collections").alias("one"),
    )
    counted = counted.where(sf.col("one.data_collection").isin(tables))
    left_out = sf.coalesce(sf.try_element_at("filtered", sf.col("one.data_collection")), sf.lit(0))
    return counted.groupBy("commit", sf.col("one.data_collection").alias("table")).agg(
        sf.sum(sf.col("one.event_count") - left_out).alias("wanted")
    )


def _given_up(transactions: DataFrame, *, gives_up: bool) -> int:
    lost = transactions.where("lost").select("commit")
    count = lost.count()
    if not count or gives_up:
        return count
    first = [row["commit"] for row in lost.orderBy("commit").limit(_NAMED).collect()]
    raise ReplayError(
        f"{count} transactions lack rows that their END marker counts, the first at {', '.join(map(lsn_to_text, first))}",
        hint=f"their rows were set aside, erased or lost. --until {lsn_to_text(first[0] - 1)} ends before; --give-up-incomplete"
        " leaves them out, as the sequencer does",
    )
