"""What END markers say of a MariaDB's servers: the last number of each, and commits whose numbers go back.

The sequencer knows the same of the markers that it has read (`tidings_envelope.server_numbers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from tidings_envelope.position import lsn_to_text
from tidings_envelope.server_numbers import ServerNumbers
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.watermark.transactions import end_markers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def server_numbers(session: SparkSession, source: str, newest: int) -> ServerNumbers:
    """What is known of the servers up to a commit.

    Markers that an earlier release has logged do not name their server, so that servers are known behind the last of these.

    Args:
        session: of the lakehouse.
        source: the topic prefix of a MariaDB.
        newest: the position of the commit.
    """
    told = _told(session, source).where(sf.col("commit_lsn") <= newest)
    first_known = _first_known(told)
    if first_known is None:
        return ServerNumbers()
    rows = told.where("is_new").groupBy("server").agg(sf.max("tx_id").alias("last")).collect()
    last = {row["server"]: row["last"] for row in rows if row["last"] >= first_known}
    return ServerNumbers(dict(sorted(last.items())), first_known)


def refuse_numbers_that_go_back(session: SparkSession, source: str, end: int) -> None:
    """See that no commit up to a position follows one of a higher number: the live service stops before such a commit, since
    commits have no order by their numbers then.

    Args:
        session: of the lakehouse.
        source: the topic prefix of a MariaDB.
        end: the last position.

    Raises:
        ReplayError: there is one.
    """
    told = _told(session, source)
    first_known = _first_known(told)
    if first_known is None:
        return
    back = told.where(~sf.col("is_new") & (sf.col("tx_id") >= first_known) & (sf.col("commit_lsn") <= end))
    back = back.where("last_of_server IS NULL OR last_of_server < tx_id")
    least = back.orderBy("commit_lsn").select("tx_id", "server", "before", "commit_lsn").first()
    if least is not None:
        number, server, before, position = least
        raise ReplayError(
            f"transaction {number} of server {server} follows number {before}, and was not told before: sequence numbers go back, and"
            " the live service stops there",
            hint=f"give a range that ends before it, such as --until {lsn_to_text(position - 1)}",
        )


def _told(session: SparkSession, source: str) -> DataFrame:
    """The END markers with `before`, the highest number that the topic has before each, `is_new` for those beyond it, and
    `last_of_server`, the last new number of the same server before it."""
    ends = end_markers(session, source)
    if "server" not in ends.columns:  # an earlier release's, which the job widens with its next batch
        ends = ends.withColumn("server", sf.lit(None).cast("bigint"))
    ends = ends.select("server", "tx_id", "commit_lsn", "offset")
    in_order = Window.orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    of_server = Window.partitionBy("server").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    placed = ends.withColumn("before", sf.max("tx_id").over(in_order))
    placed = placed.withColumn("is_new", sf.col("tx_id") > sf.coalesce("before", sf.lit(0)))
    new = sf.max(sf.when(sf.col("is_new"), sf.col("tx_id"))).over(of_server)
    return placed.withColumn("last_of_server", new)


def _first_known(told: DataFrame) -> int | None:
    """The number from which on each marker names its server; None where none does."""
    unnamed = told.where("server IS NULL").agg(sf.max("tx_id")).collect()[0][0]
    named = told.where(sf.col("server").isNotNull() & (sf.col("tx_id") > sf.lit(unnamed or 0)))
    first = named.agg(sf.min("tx_id")).collect()[0][0]
    return None if first is None else int(first)
