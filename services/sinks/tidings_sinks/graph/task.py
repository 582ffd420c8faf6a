"""The task: a batch of records is one transaction, and the offsets after it are in it. See `tidings_sinks.positions`.

Neo4j has no savepoints. So when it refuses a record of a batch, the batch is written in halves, each of which is a transaction
with its own positions, until the record stands alone.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_service import get_logger
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.errors import BusyError, DataProblemError, LostError, RowError
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.constraints import make_constraints, warn_of_missing
from tidings_sinks.graph.operations import Operation, Operations
from tidings_sinks.graph.options import CYPHER
from tidings_sinks.graph.positions import GraphPositions
from tidings_sinks.graph.settings import Cypher, Settings
from tidings_sinks.graph.statements import cypher
from tidings_sinks.graph.writer import Writer, unwound
from tidings_sinks.positions import OwnPositions

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0

_log = get_logger(__name__)
_Prepared = tuple[SinkRecord, Operation | None]
_Offsets = Mapping[TopicPartition, int]


class GraphSinkTask(SinkTask):
    """A `SinkTask`."""

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._operations = Operations(settings)
        self._open: Client | None = None
        self._own = OwnPositions(settings.group)
        self._prepared_once = False
        self._deprecations = Deprecations()
        self._reported: set[tuple[TopicPartition, int]] = set()
        """Of a batch that comes again: which of its records are dead letters already."""

    # What the loop asks for

    def open(self, partitions: Collection[TopicPartition]) -> _Offsets:
        """See `SinkTask.open`."""
        return self._later(lambda: self._own.claim(self._store, partitions))

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._later(lambda: self._put(batch))

    def flush(self, offsets: _Offsets) -> _Offsets:
        """See `SinkTask.flush`. What was put is durable; what was left out since is not yet behind the positions."""
        behind = self._own.behind(offsets)
        if behind:
            self._later(lambda: self._moved_only(behind))
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._own.forget(partitions)

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        self._forget()

    # Attempts

    def _later(self, act: Callable[[], _Offsets]) -> _Offsets:
        """Do something; again, as long as the options say, while the server is busy."""
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
                self._own.look(GraphPositions(client, self._settings))
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
        for topic, strategy in self._settings.strategies.items():
            if isinstance(strategy, Cypher):
                text = cypher(
                    strategy.statement, self._settings.cypher_binds, as_event=self._settings.as_event
                )
                client.explain(unwound([text]).replace("$rows", "[]", 1), f"{CYPHER}{topic}")
        GraphPositions(client, self._settings).make()
        if self._settings.makes_constraints:
            make_constraints(client, self._settings)
        warn_of_missing(client, self._settings)
        self._prepared_once = True

    # A batch

    def _put(self, batch: Sequence[SinkRecord]) -> _Offsets:
        _ = self._client  # which knows, when it is another one, whether a COMMIT without an answer was done
        prepared = [(record, self._read(record)) for record in self._own.unwritten(batch)]
        self._write(prepared)
        self._own.finished()
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
            self._own.move(GraphPositions(client, self._settings), offsets)
            Writer(client, self._settings).write(
                operation for _, operation in prepared if operation is not None
            )
            self._commit(client, offsets)
        finally:
            client.rollback()

    def _moved_only(self, offsets: _Offsets) -> _Offsets:
        client = self._client
        self._context.settle()
        client.begin()
        try:
            self._own.move(GraphPositions(client, self._settings), offsets)
            self._commit(client, offsets)
        finally:
            client.rollback()
        self._own.finished()
        return offsets

    def _commit(self, client: Client, offsets: _Offsets) -> None:
        self._own.committing(offsets)
        client.commit()
        self._own.committed(offsets)
