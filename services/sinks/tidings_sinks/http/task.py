"""The task: as of any sink whose system answers for each record; what its receiver refuses for good is reported."""

from collections.abc import Sequence

from tidings_connect.task.sink import SinkContext, SinkRecord
from tidings_sinks.errors import RowError
from tidings_sinks.http.client import Client
from tidings_sinks.http.delivery import Delivery
from tidings_sinks.http.messages import Message, Messages
from tidings_sinks.http.settings import Settings
from tidings_sinks.record_task import RecordSinkTask


class HttpSinkTask(RecordSinkTask[Message]):
    """One task."""

    def __init__(self, settings: Settings, context: SinkContext) -> None:
        self._settings, self._client, self._messages = settings, Client(settings), Messages(settings)
        super().__init__(context, self._client, self._messages.read)

    def _run(self, operations: Sequence[Message]) -> None:
        delivery = Delivery(self._client, self._settings, self._messages, self._finished)
        self._client.run(delivery.run(operations))

    def _refused(self, record: SinkRecord, error: RowError) -> None:
        self._context.report(record, error)

    def _finished(self, message: Message, error: RowError | None) -> None:
        if error is not None:
            self._context.report(message.record, error)
        self._done_with(message.record)
