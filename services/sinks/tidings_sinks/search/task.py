"""The task: what a batch asks for is done, and answered for, when `put` returns; so all of it is durable.

A batch that could not be finished comes again, whole. What the server has answered for is not sent, and not reported, twice.
"""

from collections.abc import Collection, Mapping, Sequence

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_service import get_logger
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.errors import RowError
from tidings_sinks.search import options as names
from tidings_sinks.search.bulk import Bulk
from tidings_sinks.search.client import Client
from tidings_sinks.search.operations import Operation, Operations
from tidings_sinks.search.settings import Behaviour, Settings
from tidings_sinks.search.targets import Targets

_log = get_logger(__name__)
_Place = tuple[TopicPartition, int]


class SearchSinkTask(SinkTask):
    """One task."""

    durable_at_put = True

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._client = Client(settings)
        self._operations = Operations(settings)
        self._targets = Targets(self._client, settings)
        self._bulk = Bulk(self._client, settings)
        self._deprecations = Deprecations()
        self._checked = False
        self._done: set[_Place] = set()
        """Of a batch that was not finished: which of its records are done with."""
        self._older: set[str] = set()
        """Topics of which a record was older than its document."""

    def open(self, partitions: Collection[TopicPartition]) -> None:  # noqa: ARG002
        """See `SinkTask.open`. A server that is another, or refuses the login, is seen before the first record."""
        try:
            self._check()
        except RetriableError as error:
            _log.warning("the search server is away", connector=self._context.connector, reason=str(error))

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
                self._targets.prepare(operation)
                operations.append(operation)
        self._bulk.run(operations, self._finished, self._is_older)
        self._done.clear()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._done = {place for place in self._done if place[0] not in partitions}

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
            if self._settings.drops:
                self._warn(names.DROP, record, error)
            else:
                self._context.report(record, error)
            self._done.add(_place(record))
            return None

    # What became of operations

    def _finished(self, operation: Operation, error: RowError | None) -> None:
        if error is not None:
            self._act(names.MALFORMED, self._settings.malformed, operation.record, error)
        self._done.add(_place(operation.record))

    def _is_older(self, operation: Operation) -> None:
        record = operation.record
        if record.topic not in self._older:
            self._older.add(record.topic)
            _log.warning(
                "documents are newer than records, and are kept",
                connector=self._context.connector,
                topic=record.topic,
                target=operation.target,
            )
        error = RowError(f"{operation.target} has the document already, of this version or a newer one")
        self._act(names.CONFLICTS, self._settings.conflicts, record, error)
        self._done.add(_place(record))

    def _act(self, option: str, behaviour: Behaviour, record: SinkRecord, error: RowError) -> None:
        match behaviour:
            case Behaviour.WARN:
                self._warn(option, record, error)
            case Behaviour.REPORT:
                self._context.report(record, error)
            case Behaviour.FAIL:
                at = record.original
                place = f"topic {at.topic}, partition {at.partition}, offset {record.offset}"
                raise RowError(f"{place}: {error}") from None
            case Behaviour.IGNORE:
                pass

    def _warn(self, option: str, record: SinkRecord, error: RowError) -> None:
        at = record.original
        _log.warning(
            "a record was left out",
            option=option,
            connector=self._context.connector,
            topic=at.topic,
            partition=at.partition,
            offset=record.offset,
            reason=str(error),
        )


def _place(record: SinkRecord) -> _Place:
    return record.original, record.offset
