"""The task: as of any sink whose system answers for each record, with MongoDB's own tolerance of errors."""

from collections.abc import Collection, Sequence

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_sinks.errors import RowError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.bulk import Bulk
from tidings_sinks.mongo.client import Client
from tidings_sinks.mongo.operations import Operation, Operations
from tidings_sinks.mongo.settings import Settings, Tolerance
from tidings_sinks.record_task import RecordSinkTask, placed


class MongoSinkTask(RecordSinkTask[Operation]):
    """One task.

    Args:
        tolerates: whether ``errors.tolerance`` is all.
    """

    def __init__(self, settings: Settings, context: SinkContext, *, tolerates: bool) -> None:
        client = Client(settings)
        super().__init__(context, client, Operations(settings).read)
        self._settings, self._tolerates = settings, tolerates
        self._bulk = Bulk(client, settings)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        super().close(partitions)
        self._bulk.positions.forget(partitions)

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        try:
            self._bulk.positions.settle()
        finally:
            super().stop()

    def _take(self, partitions: Collection[TopicPartition]) -> None:
        self._bulk.positions.take([at for at in partitions if self._settings.of(at.topic).positions])

    def _run(self, operations: Sequence[Operation]) -> None:
        self._bulk.run(operations, self._finished, self._is_older)

    def _finished(self, operation: Operation, error: RowError | None) -> None:
        if error is not None:
            self._refused(operation.record, error)
        self._done_with(operation.record)

    def _is_older(self, operation: Operation) -> None:
        self._warn_of_older(operation.record, ".".join(operation.namespace))
        self._done_with(operation.record)

    def _refused(self, record: SinkRecord, error: RowError) -> None:
        """A record that cannot be written, for good."""
        topic = self._settings.of(record.topic)
        if topic.logs_errors or (topic.tolerance is Tolerance.ALL and not self._tolerates):
            self._warn_of_left_out(names.TOLERANCE, record, error)
        if topic.tolerance is Tolerance.NONE:
            raise placed(record, error) from None
        if topic.tolerance is Tolerance.FRAMEWORK or self._tolerates:
            self._context.report(record, error)
