"""The task: as of any sink whose system answers for each record, with behaviours by option for those that are refused."""

from collections.abc import Sequence

from tidings_connect.task.sink import SinkContext, SinkRecord
from tidings_sinks.errors import RowError
from tidings_sinks.record_task import RecordSinkTask, placed
from tidings_sinks.search import options as names
from tidings_sinks.search.bulk import Bulk
from tidings_sinks.search.client import Client
from tidings_sinks.search.operations import Operation, Operations
from tidings_sinks.search.settings import Behaviour, Settings
from tidings_sinks.search.targets import Targets


class SearchSinkTask(RecordSinkTask[Operation]):
    """One task."""

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        client = Client(settings)
        super().__init__(context, client, Operations(settings).read)
        self._settings = settings
        self._targets = Targets(client, settings)
        self._bulk = Bulk(client, settings)

    def _prepare(self, operation: Operation) -> None:
        self._targets.prepare(operation)

    def _run(self, operations: Sequence[Operation]) -> None:
        self._bulk.run(operations, self._finished, self._is_older)

    def _refused(self, record: SinkRecord, error: RowError) -> None:
        if self._settings.drops:
            self._warn_of_left_out(names.DROP, record, error)
        else:
            self._context.report(record, error)

    # What became of operations

    def _finished(self, operation: Operation, error: RowError | None) -> None:
        if error is not None:
            self._act(names.MALFORMED, self._settings.malformed, operation.record, error)
        self._done_with(operation.record)

    def _is_older(self, operation: Operation) -> None:
        self._warn_of_older(operation.record, operation.target)
        error = RowError(f"{operation.target} has the document already, of this version or a newer one")
        self._act(names.CONFLICTS, self._settings.conflicts, operation.record, error)
        self._done_with(operation.record)

    def _act(self, option: str, behaviour: Behaviour, record: SinkRecord, error: RowError) -> None:
        match behaviour:
            case Behaviour.WARN:
                self._warn_of_left_out(option, record, error)
            case Behaviour.REPORT:
                self._context.report(record, error)
            case Behaviour.FAIL:
                raise placed(record, error) from None
            case Behaviour.IGNORE:
                pass
