"""`tidings.transaction_log`: the records of the transaction topic, as they are, and what END markers say.

Without the END markers the logs cannot be put together to transactions again (see `history`): a row does not name its own
commit. They are few and small.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_envelope.gtid import Gtid, gtid_of
from tidings_envelope.headers.commit import HEADER as COMMIT
from tidings_lakehouse.decoding.batches import TopicSurvey
from tidings_lakehouse.decoding.binlog import (
    NUMBERED,
    GtidColumns,
    domain_of,
    number_of_commit,
    numbered_commit_position,
)
from tidings_lakehouse.decoding.schemas import Planner
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.formats.records import failure
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.positions import NEVER, PartitionId, beyond, note_of, offsets_noted, offsets_of
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.topics import TRANSACTION_LOG, domain_property, technical_topic, transaction_topic
from tidings_lakehouse.watermark.completeness import End
from tidings_lakehouse.watermark.server_order import ServerOrder
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.watermark.transactions")
_COLLECTIONS = st.ArrayType(
    st.StructType(
        [st.StructField("data_collection", st.StringType()), st.StructField("event_count", st.LongType())]
    )
)
SCHEMA = st.StructType(
    [
        st.StructField("topic", st.StringType()),
        st.StructField("topic_id", st.StringType()),
        st.StructField("partition", st.IntegerType()),
        st.StructField("offset", st.LongType()),
        st.StructField("timestamp", st.TimestampType()),
        st.StructField("key", st.BinaryType()),
        st.StructField("value", st.BinaryType()),
        st.StructField("status", st.StringType()),
        st.StructField("tx_id", st.LongType()),
        st.StructField("commit_lsn", st.LongType()),
        st.StructField("data_collections", _COLLECTIONS),
        st.StructField("left_out", st.StringType()),
        st.StructField("server", st.LongType()),
    ]
)
_HEADER = st.StructType([st.StructField("key", st.StringType()), st.StructField("value", st.BinaryType())])
_NOTED = "offsets"
_SERVERS = "servers"
"""By topic id, what `ServerOrder` knows."""
_LEFT_OUT = "tidings.left.out"
"""Header of an END record: JSON, by ``filtered`` and ``failed`` and by table how many of the counted events are not there."""


def is_of_a_binlog(session: SparkSession, source: str) -> bool:
    """Whether the transaction log says that a source is a MariaDB or a MySQL.

    Args:
        source: the topic prefix.
    """
    return _noted_domain(session, source) is not None


def replication_domain_of(session: SparkSession, source: str) -> int | None:
    """MariaDB's replication domain whose commits a source has; None of another database.

    Args:
        source: the topic prefix.
    """
    noted = _noted_domain(session, source)
    return None if noted in (None, str(NUMBERED)) else int(noted)


def end_markers(session: SparkSession, source: str) -> DataFrame:
    """The END markers of a source in the transaction log, those too that a crash has repeated; without those that say no position.

    Args:
        source: the topic prefix.
    """
    log = session.table(TRANSACTION_LOG).where(sf.col("topic") == transaction_topic(source))
    return log.where("status = 'END' AND commit_lsn IS NOT NULL AND tx_id IS NOT NULL")


def header_columns(session: SparkSession, source: str) -> Column:
    """The headers that rows of the transaction log had on the topic, as far as Tidings writes them.

    Args:
        source: the topic prefix.
    """
    none = sf.lit(None).cast(_HEADER)
    is_numbered = _noted_domain(session, source) == str(NUMBERED)
    number = sf.col("tx_id").cast("string") if is_numbered else sf.lit(None).cast("string")
    headers = [
        sf.when(
            text.isNotNull(), sf.struct(sf.lit(name).alias("key"), sf.encode(text, "UTF-8").alias("value"))
        )
        for name, text in ((COMMIT, number), (_LEFT_OUT, sf.col("left_out")))
    ]
    return sf.array_compact(sf.array(none, *headers))


def _noted_domain(session: SparkSession, source: str) -> str | None:
    if not session.catalog.tableExists(TRANSACTION_LOG):
        return None
    wanted = domain_property(transaction_topic(source))
    properties = session.sql(f"SHOW TBLPROPERTIES {TRANSACTION_LOG}").collect()
    return next((row["value"] for row in properties if row["key"] == wanted), None)


def check_marker(node: Node) -> str | None:
    """Why a schema is not that of a transaction marker, or None."""
    fields = ("status", "id", "event_count", "data_collections")
    if node.kind != "record" or any(node.field(name) is None for name in fields):
        return "is not that of a transaction marker"
    return None


@dataclass(frozen=True)
class Markers:
    """What a batch, or the table, says of transactions."""

    ends: list[End]
    unreadable: int
    """Records that could not be decoded."""
    gtids: tuple[Gtid, ...] = ()
    """Of MariaDB, those of the ends, in the order of the topic."""


class TransactionLog:
    """Appends the transaction topic's records; takes only offsets that the table does not hold.

    Args:
        topic: of the markers, ``<source>.transaction``.
        takes: whether the lakehouse takes a topic.
    """

    def __init__(
        self,
        session: SparkSession,
        topic: str,
        schemas: SchemaSource,
        takes: Callable[[str], bool],
        commits: Commits,
    ) -> None:
        self.topic = topic
        self._session = session
        self._takes = takes
        self._plans = Planner(schemas, check_marker)
        self._table = Table(session, TRANSACTION_LOG, "", commits)
        self._held: dict[PartitionId, int] = {}
        self._servers: dict[str, Any] = {}
        self.domain: int | None = None
        """MariaDB's replication domain, whose commits are the source's, or `binlog.NUMBERED` of MySQL's; None: not known yet, or of
        PostgreSQL."""
        self._is_postgres = False
        if self._table.exists:
            known = self._table.property(domain_property(topic))
            self.domain = int(known) if known else None
            noted = self._table.noted()
            held = session.table(TRANSACTION_LOG)
            self._held = offsets_noted(noted[_NOTED]) if _NOTED in noted else offsets_of(held)
            self._servers = noted.get(_SERVERS, {})

    def append(self, records: DataFrame, topic_id: str, survey: TopicSurvey) -> Markers:
        """Write the topic's part of a batch."""
        self._table.ensure(SCHEMA, partitioned_by=["days(timestamp)"])
        decoded = self._in_domain(self._decoded(records.where(sf.col("topic") == self.topic), survey))
        new = decoded.withColumn("topic_id", sf.lit(topic_id))
        condition = beyond(self._held, topic_id)
        if condition is not None:
            new = new.where(condition)
        held = dict(self._held)
        for partition, (_, last) in survey.offsets.items():
            key = PartitionId(topic_id, partition)
            held[key] = max(held.get(key, NEVER), last)
        markers = self._markers(decoded.where("NOT is_foreign"))
        if markers.gtids:
            order = ServerOrder(self.topic, self._servers.get(topic_id))
            order.read(markers.gtids)
            self._servers = {**self._servers, topic_id: order.note()}
        self._table.append(new.select(*SCHEMA.names), {_NOTED: note_of(held), _SERVERS: self._servers})
        self._held = held
        return markers

    def learn(self, domain: int) -> None:
        """Note the source's replication domain for ever, before anything of it is written: others do not compare with it."""
        self._table.ensure(SCHEMA, partitioned_by=["days(timestamp)"])
        self._table.set_property(domain_property(self.topic), str(domain))
        self.domain = domain

    def _in_domain(self, decoded: DataFrame) -> DataFrame:
        """Markers of another replication domain without what they say of positions, and `is_foreign`."""
        # Without an event it may be of a domain that does not count (`gtid.source.excludes`), and says nothing of the source.
        if self.domain is None and not self._is_postgres:
            tells = sf.col("has_events") | (sf.col("domain") == NUMBERED)
            first = sf.min_by(sf.when(tells, sf.col("domain")), sf.struct(~tells, "partition", "offset"))
            found, known = decoded.where("domain IS NOT NULL").agg(first, sf.count("*")).collect()[0]
            self._is_postgres = not known
            if found is not None:
                self.learn(found)
        own = sf.lit(self.domain).cast("bigint")
        is_foreign = sf.col("domain").isNotNull() & ~sf.col("domain").eqNullSafe(own)
        told = decoded.withColumn("is_foreign", is_foreign)
        left_out = told.where("is_foreign AND has_events").select("domain").distinct()
        if others := [row[0] for row in left_out.collect()]:
            _LOG.warning(
                "transactions of other replication domains are left out: their commits have no common order",
                topic=self.topic,
                domain=self.domain,
                others=sorted(others),
            )
        return told.withColumns(
            {
                name: sf.when(~sf.col("is_foreign"), sf.col(name))
                for name in ("tx_id", "commit_lsn", "data_collections", "server")
            }
        )

    def after(self, commit_lsn: int | None) -> list[End]:
        """The END markers in the table behind a commit."""
        if self._table.schema is None or "commit_lsn" not in self._table.schema.names:
            return []
        held = self._session.table(TRANSACTION_LOG).where(sf.col("topic") == self.topic)
        held = held.where(sf.col("commit_lsn") > sf.lit(commit_lsn or 0))
        return self._markers(held).ends

    def _decoded(self, records: DataFrame, survey: TopicSurvey) -> DataFrame:
        plan = self._plans.plan(f"{self.topic}-value", survey.value_ids)
        groups = [(group, f"m{number}") for number, group in enumerate(plan.groups)]
        decoded = records.select(
            "*", *[group.decode("value", "value_id").alias(name) for group, name in groups]
        ).withColumn("reason", failure("value", "value_id", groups, plan.refused))

        def part(name: str, type_: st.DataType) -> Column:
            found = [sf.col(f"{column}.{name}").cast(type_) for _, column in groups]
            return sf.coalesce(*found, sf.lit(None).cast(type_))

        id_ = sf.split(part("id", st.StringType()), ":")
        gtid = GtidColumns.of(part("id", st.StringType()))
        number = number_of_commit()
        numbered = numbered_commit_position(number, part("event_count", st.LongType()))
        tx_id, commit_lsn = (sf.get(id_, sf.lit(number)).try_cast("bigint") for number in (0, 1))
        return decoded.select(
            "*",
            sf.when(number.isNull() & gtid.sequence.isNotNull(), part("id", st.StringType())).alias("gtid"),
            part("status", st.StringType()).alias("status"),
            domain_of(number, gtid).alias("domain"),
            sf.coalesce(number, gtid.sequence, tx_id).alias("tx_id"),
            sf.when(number.isNull(), gtid.server).alias("server"),
            sf.when(
                part("status", st.StringType()) == "END",
                sf.coalesce(numbered, gtid.commit_position, commit_lsn),
            ).alias("commit_lsn"),
            (sf.coalesce(part("event_count", st.LongType()), sf.lit(0)) > 0).alias("has_events"),
            part("data_collections", _COLLECTIONS).alias("data_collections"),
            sf.expr(f"decode(get(filter(headers, h -> h.key = '{_LEFT_OUT}'), 0).value, 'UTF-8')").alias(
                "left_out"
            ),
        )

    def _markers(self, decoded: DataFrame) -> Markers:
        fields = ["partition", "tx_id", "commit_lsn", "data_collections", "left_out"]
        if "gtid" in decoded.columns:
            fields += ["offset", "gtid"]
        marker = sf.struct(*fields)
        told = decoded.where(
            (sf.col("status") == "END") | (sf.col("status").isNull() & sf.col("value").isNotNull())
        )
        rows = told.select(sf.when(sf.col("status") == "END", sf.to_json(marker))).collect()
        found = [json.loads(row[0]) for row in rows if row[0] is not None]
        ends = [self._end(one) for one in found if "commit_lsn" in one and "tx_id" in one]
        named = sorted(
            (one["partition"], one["offset"], one["gtid"])
            for one in found
            if "gtid" in one and "tx_id" in one
        )
        return Markers(ends, len(rows) - len(ends), tuple(gtid_of(text) for *_, text in named))

    def _end(self, marker: dict[str, Any]) -> End:
        left_out = _left_out(marker.get("left_out"))
        failed = left_out.get("failed", {})
        events: dict[str, int] = {}
        has_failed = False
        for one in marker.get("data_collections") or ():
            table, count = one["data_collection"], int(one["event_count"])
            topic = technical_topic(self.topic.removesuffix(".transaction"), table)
            if self._takes(topic):
                count -= left_out.get("filtered", {}).get(table, 0) + failed.get(table, 0)
                events[topic] = events.get(topic, 0) + count
                has_failed = has_failed or table in failed
        return End(
            int(marker["partition"]),
            int(marker["tx_id"]),
            int(marker["commit_lsn"]),
            {topic: count for topic, count in events.items() if count > 0},
            has_failed=has_failed,
        )


def _left_out(text: str | None) -> dict[str, dict[str, int]]:
    """What capture tells of events that it has counted and left out; real Debezium tells nothing."""
    found = {} if text is None else json.loads(text)
    return {kind: counts for kind, counts in found.items() if isinstance(counts, dict)}
