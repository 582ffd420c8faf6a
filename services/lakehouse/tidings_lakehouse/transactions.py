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

from tidings_lakehouse.avro_nodes import Node
from tidings_lakehouse.batches import TopicSurvey
from tidings_lakehouse.commits import Commits
from tidings_lakehouse.completeness import End
from tidings_lakehouse.positions import NEVER, PartitionId, beyond, note_of, offsets_noted, offsets_of
from tidings_lakehouse.records import failure
from tidings_lakehouse.registry import SchemaSource
from tidings_lakehouse.schemas import Planner
from tidings_lakehouse.tables import Table
from tidings_lakehouse.topics import TRANSACTION_LOG, technical_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    ]
)
_NOTED = "offsets"
_LEFT_OUT = "tidings.left.out"
"""Header of an END record: JSON, by ``filtered`` and ``failed`` and by table how many of the counted events are not there."""


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
        if self._table.exists:
            noted = self._table.noted().get(_NOTED)
            held = session.table(TRANSACTION_LOG)
            self._held = offsets_of(held) if noted is None else offsets_noted(noted)

    def append(self, records: DataFrame, topic_id: str, survey: TopicSurvey) -> Markers:
        """Write the topic's part of a batch."""
        self._table.ensure(SCHEMA, partitioned_by=["days(timestamp)"])
        decoded = self._decoded(records.where(sf.col("topic") == self.topic), survey)
        new = decoded.withColumn("topic_id", sf.lit(topic_id))
        condition = beyond(self._held, topic_id)
        if condition is not None:
            new = new.where(condition)
        held = dict(self._held)
        for partition, (_, last) in survey.offsets.items():
            key = PartitionId(topic_id, partition)
            held[key] = max(held.get(key, NEVER), last)
        self._table.append(new.select(*SCHEMA.names), {_NOTED: note_of(held)})
        self._held = held
        return self._markers(decoded)

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
        return decoded.select(
            "*",
            part("status", st.StringType()).alias("status"),
            sf.get(id_, sf.lit(0)).try_cast("bigint").alias("tx_id"),
            sf.when(
                part("status", st.StringType()) == "END", sf.get(id_, sf.lit(1)).try_cast("bigint")
            ).alias("commit_lsn"),
            part("data_collections", _COLLECTIONS).alias("data_collections"),
            sf.expr(f"decode(get(filter(headers, h -> h.key = '{_LEFT_OUT}'), 0).value, 'UTF-8')").alias(
                "left_out"
            ),
        )

    def _markers(self, decoded: DataFrame) -> Markers:
        marker = sf.struct("partition", "tx_id", "commit_lsn", "data_collections", "left_out")
        told = decoded.where(
            (sf.col("status") == "END") | (sf.col("status").isNull() & sf.col("value").isNotNull())
        )
        rows = told.select(sf.when(sf.col("status") == "END", sf.to_json(marker))).collect()
        found = [json.loads(row[0]) for row in rows if row[0] is not None]
        ends = [self._end(one) for one in found if "commit_lsn" in one and "tx_id" in one]
        return Markers(ends, len(rows) - len(ends))

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
