"""`tidings.transaction_log`: the records of the transaction topic, as they are.

Without the END markers the logs cannot be put together to transactions again (see `history`): a row does not name its own
commit. They are few and small, and nothing here has to understand them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.batches import TopicSurvey
from tidings_lakehouse.commits import Commits
from tidings_lakehouse.positions import PartitionId, beyond, offsets_of
from tidings_lakehouse.tables import Table
from tidings_lakehouse.topics import TRANSACTION_LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = st.StructType(
    [
        st.StructField("topic", st.StringType()),
        st.StructField("topic_id", st.StringType()),
        st.StructField("partition", st.IntegerType()),
        st.StructField("offset", st.LongType()),
        st.StructField("timestamp", st.TimestampType()),
        st.StructField("key", st.BinaryType()),
        st.StructField("value", st.BinaryType()),
    ]
)


class TransactionLog:
    """Appends the transaction topic's records; takes only offsets that the table does not hold."""

    def __init__(self, session: SparkSession, topic: str, commits: Commits) -> None:
        self.topic = topic
        self._table = Table(session, TRANSACTION_LOG, "", commits)
        self._held: dict[PartitionId, int] = {}
        if self._table.exists:
            self._held = offsets_of(session.table(TRANSACTION_LOG))

    def append(self, records: DataFrame, topic_id: str, survey: TopicSurvey) -> str:
        """Write the topic's part of a batch; gives the table's name."""
        self._table.ensure(SCHEMA)
        new = records.where(sf.col("topic") == self.topic).withColumn("topic_id", sf.lit(topic_id))
        condition = beyond(self._held, topic_id)
        if condition is not None:
            new = new.where(condition)
        self._table.append(new.select(*SCHEMA.names))
        for partition, (_, last) in survey.offsets.items():
            key = PartitionId(topic_id, partition)
            self._held[key] = max(self._held.get(key, -1), last)
        return TRANSACTION_LOG
