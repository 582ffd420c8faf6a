"""The connector: from topics to a graph. See `docs/graph.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask, TopicPartition
from tidings_sinks.graph.options import FAMILIES, OPTIONS, REFUSED, check_families, check_together
from tidings_sinks.graph.settings import read_settings


class Neo4jSink(SinkConnector):
    """Writes nodes and relationships, exactly once; with the class and the options of Neo4j's own connector."""

    class_name = "org.neo4j.connectors.kafka.sink.Neo4jConnector"
    task_class = "org.neo4j.connectors.kafka.sink.Neo4jSinkTask"
    version = "5.5.2"
    own_options: ClassVar[Sequence[Option]] = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options}
        known = {
            name: text
            for name, text in config.items()
            if name not in REFUSED and not name.startswith(FAMILIES)
        }
        found = check_sink(known, self.options, SINK_OPTIONS.keys() | own)
        found |= check_families(config)
        for name in config.keys() & REFUSED.keys():
            if config[name].strip():
                found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        return found or check_together(config)

    def offsets_changed(
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """See `Connector.offsets_changed`."""
        from tidings_sinks.graph.positions import change_positions  # noqa: PLC0415 - needs the driver

        change_positions(read_settings(name, config), offsets)

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.graph.diagnosis import diagnose  # noqa: PLC0415 - needs the driver

        return diagnose(read_settings(name, config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.graph.task import GraphSinkTask  # noqa: PLC0415 - the worker itself needs no driver

        return GraphSinkTask(read_settings(context.connector, config), context)
