"""What an author of a sink connector imports: the connector, its task, and what a task is given. See ``docs/connectors.md``."""

from tidings_connect.data.subscription import TopicPartition, last_of_partitions
from tidings_connect.task.sink.connector import SinkConnector
from tidings_connect.task.sink.task import (
    LeftOut,
    RetriableError,
    SinkContext,
    SinkRecord,
    SinkTask,
    SlowError,
    TopicColumns,
)

__all__ = [
    "LeftOut",
    "RetriableError",
    "SinkConnector",
    "SinkContext",
    "SinkRecord",
    "SinkTask",
    "SlowError",
    "TopicColumns",
    "TopicPartition",
    "last_of_partitions",
]
