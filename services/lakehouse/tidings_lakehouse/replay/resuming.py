"""Where a sequencer goes on in the topics behind a range of the logs, and what it has to know of what was before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from tidings_envelope.server_numbers import ServerNumbers
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.replay.logs import Range, ends_of
from tidings_lakehouse.replay.servers import server_numbers
from tidings_lakehouse.topics import TRANSACTION_LOG, transaction_topic
from tidings_lakehouse.watermark.transactions import replication_domain_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN = 256
"""As many of the last transactions the sequencer knows by their ids; it tells by them what comes again after a crash."""


@dataclass(frozen=True)
class Resumption:
    """What the sequencer would have come to.

    Attributes:
        commit_lsn: the last commit of the range.
        began_lsn: the first one of the stream.
        finished: id and commit position of the last transactions, oldest first.
        lost: the same of those that were given up.
        topics: by topic its id in Kafka, and by partition the first offset that is not in the range.
        replication_domain: MariaDB's; None of another database.
        servers: of that domain, which have committed up to `commit_lsn`.
    """

    commit_lsn: int
    began_lsn: int
    finished: list[tuple[int, int]]
    lost: list[tuple[int, int]]
    topics: dict[str, Any]
    replication_domain: int | None
    servers: ServerNumbers


def resumption_of(session: SparkSession, source: str, range_: Range) -> Resumption:
    """Where the stream goes on behind a range.

    Raises:
        ReplayError: no transaction is in it.
    """
    if range_.newest is None:
        raise ReplayError(
            "no transaction is in the range, so that it has no commit to go on from",
            hint="let the lakehouse catch up; the connector needs provide.transaction.metadata=true",
        )
    ends = ends_of(session, source)
    within = ends.where(sf.col("commit_lsn") <= range_.newest).select("tx_id", "commit_lsn")
    began = within.agg(sf.min("commit_lsn")).collect()[0][0]
    lost = range_.kept.where("lost").select(sf.col("commit").alias("commit_lsn"))
    topics = {log.topic: _rows_of(log.frame, range_) for log in range_.whole}
    topics[transaction_topic(source)] = _markers_of(session, source, range_.newest)
    domain = replication_domain_of(session, source)
    return Resumption(
        range_.newest,
        began,
        _last(within),
        _last(within.join(lost, "commit_lsn", "left_semi")),
        topics,
        domain,
        ServerNumbers() if domain is None else server_numbers(session, source, range_.newest),
    )


def _last(transactions: Any) -> list[tuple[int, int]]:
    rows = transactions.orderBy(sf.desc("commit_lsn")).limit(_KNOWN).collect()
    return [(row["tx_id"], row["commit_lsn"]) for row in reversed(rows)]


def _rows_of(log: Any, range_: Range) -> dict[str, Any]:
    behind = sf.when(~range_.is_within, sf.col("offset"))
    rows = (
        log.groupBy("partition")
        .agg(
            sf.max("topic_id").alias("id"),
            sf.coalesce(sf.min(behind), sf.max("offset") + 1).alias("next"),
        )
        .collect()
    )
    return _topic(rows)


def _markers_of(session: SparkSession, source: str, newest: int) -> dict[str, Any]:
    """What is read again after a crash of capture comes behind what it repeats, so the first END behind the range counts."""
    markers = session.table(TRANSACTION_LOG).where(
        (sf.col("topic") == transaction_topic(source)) & (sf.col("status") == "END")
    )
    behind = markers.where(sf.col("commit_lsn") > newest).agg(sf.min("offset")).collect()[0][0]
    before = markers.where(sf.col("commit_lsn") <= newest)
    if behind is not None:
        before = before.where(sf.col("offset") < behind)
    rows = (
        before.groupBy("partition")
        .agg(sf.max("topic_id").alias("id"), (sf.max("offset") + 1).alias("next"))
        .collect()
    )
    return _topic(rows)


def _topic(rows: list[Any]) -> dict[str, Any]:
    return {
        "id": next((row["id"] for row in rows), ""),
        "partitions": {str(row["partition"]): row["next"] for row in sorted(rows)},
    }
