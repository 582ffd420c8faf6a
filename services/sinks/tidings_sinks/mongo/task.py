"""The task: what a batch asks for is done, and answered for, when `put` returns; so all of it is durable.

A batch that could not be finished comes again, whole. What the server has answered for is not sent, and not reported, twice.
"""

from collections.abc import Collection, Mapping, Sequence

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_service import get_logger
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.errors import RowError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.bulk import Bulk
from tidings_sinks.mongo.client import Client
from tidings_sinks.mongo.operations import Operation, Operations
from tidings_sinks.mongo.settings import Settings, Tolerance

_log = get_logger(__name__)
_Place = tuple[TopicPartition, int]


class MongoSinkTask(SinkTask):
    """One task.

    Args:
        tolerates: whether ``errors.tolerance`` is all.
    """

    durable_at_put = True

    def __init__(self, settings: Settings, context: SinkContext, *, tolerates: bool) -> None:
        self._settings, self._context, self._tolerates = settings, context, tolerates
        self._client = Client(settings)
        self._operations = Operations(settings)
        self._bulk = Bulk(self._client, settings)
        self._deprecations = Deprecations()
        self._checked = False
        self._done: set[_Place] = set()
        """Of a batch that was not finished: which of its records are done with."""
        self._older: set[str] = set()
        """Topics of which a record was older than its document."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.open`. A server that refuses the login is seen before the first record."""
        try:
            self._check()
            own = [at for at in partitions if self._settings.of(at.topic).positions]
            self._bulk.positions.take(own)
        except RetriableError as error:
            _log.warning("the server is away", connector=self._context.connector, reason=str(error))

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._check()
        operations = []
        for record in batch:
            if self._done and _place(record) in self._done:
                continue
            self._deprecations.look(record)
            operation = self._read(record)
            if operation is not None:
                operations.append(operation)
        self._bulk.run(operations, self._finished, self._is_older)
        self._done.clear()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._done = {place for place in self._done if place[0] not in partitions}
        self._bulk.positions.forget(partitions)

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        self._client.close()

    def _check(self) -> None:
        if not self._checked:
            self._client.check()
            self._checked = True

    def _read(self, record: SinkRecord) -> Operation | None:
        try:
            return self._operations.read(record)
        except RowError as error:
            self._bad(record, error)
            return None

    # What became of operations

    def _finished(self, operation: Operation, error: RowError | None) -> None:
        if error is not None:
            self._bad(operation.record, error)
        else:
            self._done.add(_place(operation.record))

    def _is_older(self, operation: Operation) -> None:
        record = operation.record
        if record.topic not in self._older:
            self._older.add(record.topic)
            _log.warning(
                "documents are newer than records, and are kept",
                connector=self._context.connector,
                topic=record.topic,
                target=".".join(operation.namespace),
            )
        self._done.add(_place(record))

    def _bad(self, record: SinkRecord, error: RowError) -> None:
        """A record that cannot be written, for good."""
        at, topic = record.original, self._settings.of(record.topic)
        if topic.logs_errors or (topic.tolerance is Tolerance.ALL and not self._tolerates):
            _log.warning(
                "a record was left out",
                option=names.TOLERANCE,
                connector=self._context.connector,
                topic=at.topic,
                partition=at.partition,
                offset=record.offset,
                reason=str(error),
            )
        if topic.tolerance is Tolerance.NONE:
            place = f"topic {at.topic}, partition {at.partition}, offset {record.offset}"
            raise RowError(f"{place}: {error}") from None
        if topic.tolerance is Tolerance.FRAMEWORK or self._tolerates:
            self._context.report(record, error)
        self._done.add(_place(record))


def _place(record: SinkRecord) -> _Place:
    return record.original, record.offset
