"""The task: a batch of records is one transaction, and the offsets after it are in it. See `tidings_sinks.positions`.

Neo4j has no savepoints. So when it refuses a record of a batch, the batch is written in halves, each of which is a transaction
with its own positions, until the record stands alone.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, TopicPartition
from tidings_service import get_logger
from tidings_sinks.errors import BusyError, DataProblemError, LostError, RowError
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.constraints import make_constraints, warn_of_missing
from tidings_sinks.graph.operations import Operation, Operations
from tidings_sinks.graph.positions import GraphPositions
from tidings_sinks.graph.settings import Settings
from tidings_sinks.graph.writer import Writer, explained
from tidings_sinks.positioned_task import Offsets, PositionedSinkTask

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0

_log = get_logger(__name__)
_Prepared = tuple[SinkRecord, Operation | None]


class GraphSinkTask(PositionedSinkTask):
    """A `SinkTask`."""

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        super().__init__(context, settings.group)
        self._settings = settings
        self._operations = Operations(settings)
        self._open: Client | None = None
        self._prepared_once = False
        self._reported: set[tuple[TopicPartition, int]] = set()
        """Of a batch that comes again: which of its records are dead letters already."""

    # Attempts

    def _later(self, act: Callable[[], Offsets]) -> Offsets:
        end, pause = time.monotonic() + self._settings.retry_seconds, _FIRST_PAUSE
        while True:
            try:
                return act()
            except LostError as error:
                self._forget()
                raise RetriableError(str(error)) from None
            except BusyError as error:
                if time.monotonic() + pause > end:
                    raise RetriableError(str(error)) from None
                _log.warning("the target is busy and is asked again", reason=str(error))
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _forget(self) -> None:
        found, self._open = self._open, None
        if found is not None:
            found.close()

    @property
    def _client(self) -> Client:
        if self._open is None:
            client = Client(self._settings)
            try:
                client.check()
                self._prepare(client)
                self._positions.look(GraphPositions(client, self._settings))
            except BaseException:
                client.close()
                raise
            self._open = client
        return self._open

    @property
    def _store(self) -> GraphPositions:
        return GraphPositions(self._client, self._settings)

    def _prepare(self, client: Client) -> None:
        """Once: have statements read, and make constraints."""
        if self._prepared_once:
            return
        for option, statement in explained(self._settings):
            client.explain(statement, option)
        GraphPositions(client, self._settings).make()
        if self._settings.makes_constraints:
            make_constraints(client, self._settings)
        warn_of_missing(client, self._settings)
        self._prepared_once = True

    # A batch

    def _put(self, batch: Sequence[SinkRecord]) -> Offsets:
        _ = self._client  # which knows, when it is another one, whether a COMMIT without an answer was done
        prepared = [(record, self._read(record)) for record in self._positions.unwritten(batch)]
        self._write(prepared)
        self._positions.finished()
        self._reported.clear()
        return {}

    def _read(self, record: SinkRecord) -> Operation | None:
        self._deprecations.look(record)
        try:
            return self._operations.read(record)
        except RowError as error:
            self._report(record, error)
            return None

    def _report(self, record: SinkRecord, error: RowError) -> None:
        place = record.original, record.offset
        if place not in self._reported:
            self._context.report(record, error)
            self._reported.add(place)

    def _write(self, prepared: Sequence[_Prepared]) -> None:
        """Write records; those that the server refuses are found, and the others are written."""
        if not prepared:
            return
        try:
            self._transaction(prepared)
        except DataProblemError as error:
            if len(prepared) == 1:
                self._alone(prepared[0], error)
                return
            middle = len(prepared) // 2
            self._write(prepared[:middle])
            self._write(prepared[middle:])

    def _alone(self, prepared: _Prepared, error: DataProblemError) -> None:
        """Once more, as a node may have been deleted under it by another task; then it is a bad record."""
        try:
            self._transaction([prepared])
        except DataProblemError:
            self._report(prepared[0], RowError(str(error)))
            self._transaction([(prepared[0], None)])

    def _transaction(self, prepared: Sequence[_Prepared]) -> None:
        client = self._client
        offsets = {record.original: record.offset + 1 for record, _ in prepared}
        self._context.settle()
        client.begin()
        try:
            self._positions.move(GraphPositions(client, self._settings), offsets)
            Writer(client, self._settings).write(
                operation for _, operation in prepared if operation is not None
            )
            self._commit(client, offsets)
        finally:
            client.rollback()

    def _moved_only(self, offsets: Offsets) -> Offsets:
        client = self._client
        self._context.settle()
        client.begin()
        try:
            self._positions.move(GraphPositions(client, self._settings), offsets)
            self._commit(client, offsets)
        finally:
            client.rollback()
        self._positions.finished()
        return offsets

    def _commit(self, client: Client, offsets: Offsets) -> None:
        self._positions.committing(offsets)
        client.commit()
        self._positions.committed(offsets)
