"""The connector: from topics to HTTP requests. See `docs/webhooks.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink, topics_of
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask
from tidings_sinks.http.options import OPTIONS, check_together
from tidings_sinks.http.settings import read_settings


class HttpSink(SinkConnector):
    """Sends records as requests, signed, with CloudEvents; with the class and the options of Aiven's connector."""

    class_name = "io.aiven.kafka.connect.http.HttpSinkConnector"
    task_class = "io.aiven.kafka.connect.http.HttpSinkTask"
    version = "0.9.0"
    own_options: ClassVar[Sequence[Option]] = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options}
        return check_sink(config, self.options, SINK_OPTIONS.keys() | own) or check_together(config)

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:  # noqa: ARG002
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.http.diagnosis import diagnose  # noqa: PLC0415 - needs the client

        return diagnose(read_settings(config), topics_of(config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.http.task import HttpSinkTask  # noqa: PLC0415 - the worker itself needs no client

        return HttpSinkTask(read_settings(config), context)
