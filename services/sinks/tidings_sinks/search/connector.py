"""The connector: from topics to documents. See `docs/search.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink, topics_of
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask
from tidings_sinks.search.options import OPTIONS, REFUSED, check_together
from tidings_sinks.search.settings import read_settings


class OpenSearchSink(SinkConnector):
    """Writes documents by bulk, with external versions; with the class and the options of Aiven's connector."""

    class_name = "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector"
    task_class = "io.aiven.kafka.connect.opensearch.OpenSearchSinkTask"
    version = "4.1.0"
    own_options: ClassVar[Sequence[Option]] = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options}
        known = {name: text for name, text in config.items() if name not in REFUSED}
        found = check_sink(known, self.options, SINK_OPTIONS.keys() | own)
        for name in config.keys() & REFUSED.keys():
            found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        return found or check_together(config)

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:  # noqa: ARG002
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.search.diagnosis import diagnose  # noqa: PLC0415 - needs a client

        return diagnose(read_settings(config), topics_of(config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.search.task import SearchSinkTask  # noqa: PLC0415 - the worker itself needs no client

        return SearchSinkTask(read_settings(config), context)
