"""The task of sinks whose system answers for each record: what a batch asks for is done, and answered for, when `put` returns;
so all of it is durable.

A batch that could not be finished comes again, whole. What the system has answered for is not sent, and not reported, twice.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_service import get_logger
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.errors import RowError

_log = get_logger(__name__)
_Place = tuple[TopicPartition, int]


class TargetClient(Protocol):
    """Speaks to the system."""

    def check(self) -> None:
        """See whether the system is the one that is meant, and takes the login; raises `RetriableError` or `TargetError`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RecordOperation(Protocol):
    """What the system is asked to do for a record."""

    @property
    def record(self) -> SinkRecord:
        """The record."""
        ...


OperationT = TypeVar("OperationT", bound=RecordOperation)


class RecordSinkTask(SinkTask, Generic[OperationT]):
    """One task.

    Args:
        read: what a record asks for; None for nothing. Raises `RowError`.
    """

    durable_at_put = True

    def __init__(
        self,
        context: SinkContext,
        client: TargetClient,
        read: Callable[[SinkRecord], OperationT | None],
    ) -> None:
        self._context, self._target, self._read = context, client, read
        self._deprecations = Deprecations()
        self._checked = False
        self._done: set[_Place] = set()
        """Of a batch that was not finished: which of its records are done with."""
        self._older: set[str] = set()
        """Topics of which a record was older than what the system has."""

    # What a sink does

    @abstractmethod
    def _run(self, operations: Sequence[OperationT]) -> None:
        """Have the system do them all; calls `_done_with` for each as soon as it is answered for.

        Raises:
            RetriableError: it is away or busy; the batch comes again.
        """

    @abstractmethod
    def _refused(self, record: SinkRecord, error: RowError) -> None:
        """A record cannot be made an operation, for good: report it, leave it out, or raise."""

    def _prepare(self, operation: OperationT) -> None:
        """Before operations are run: make what one of them needs."""

    def _take(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are this task's."""

    # What the loop asks for

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.open`. A system that is another, or refuses the login, is seen before the first record."""
        try:
            self._check()
            self._take(partitions)
        except RetriableError as error:
            _log.warning("the target is away", connector=self._context.connector, reason=str(error))

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._check()
        operations = []
        for record in batch:
            if self._done and _place(record) in self._done:
                continue
            self._deprecations.look(record)
            try:
                operation = self._read(record)
            except RowError as error:
                self._refused(record, error)
                self._done_with(record)
                continue
            if operation is not None:
                self._prepare(operation)
                operations.append(operation)
        self._run(operations)
        self._done.clear()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._done = {place for place in self._done if place[0] not in partitions}

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        self._target.close()

    def _check(self) -> None:
        if not self._checked:
            self._target.check()
            self._checked = True

    # What became of records

    def _done_with(self, record: SinkRecord) -> None:
        """A record is written, reported or left out: it is not sent once more, should its batch come again."""
        self._done.add(_place(record))

    def _warn_of_older(self, record: SinkRecord, target: str) -> None:
        """A record is older than what the system has: logged once for each topic."""
        if record.topic not in self._older:
            self._older.add(record.topic)
            _log.warning(
                "documents are newer than records, and are kept",
                connector=self._context.connector,
                topic=record.topic,
                target=target,
            )

    def _warn_of_left_out(self, option: str, record: SinkRecord, error: RowError) -> None:
        """A record is left out, as an option says."""
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


def placed(record: SinkRecord, error: RowError) -> RowError:
    """An error with its record's position before it, for a task that ends by it."""
    at = record.original
    return RowError(f"topic {at.topic}, partition {at.partition}, offset {record.offset}: {error}")


def _place(record: SinkRecord) -> _Place:
    return record.original, record.offset
