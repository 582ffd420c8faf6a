"""`JdbcSinkConnector`: from topics to tables, with the class and the options of the JDBC sink of Debezium. See `docs/sinks.md`."""

from collections.abc import Mapping
from importlib import import_module

from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask, TopicPartition
from tidings_sinks.jdbc.options import OPTIONS, REFUSED, check
from tidings_sinks.jdbc.settings import read_settings


class JdbcSinkConnector(SinkConnector):
    """Writes records to tables; exactly once, as the positions are written in the data's transactions."""

    class_name = "io.debezium.connector.jdbc.JdbcSinkConnector"
    task_class = "io.debezium.connector.jdbc.JdbcSinkConnectorTask"
    version = "3.6.0.Final"
    own_options = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        found = super().problems({name: value for name, value in config.items() if name not in REFUSED})
        for name in config.keys() & REFUSED.keys():
            found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        for name, texts in check(config).items():
            found.setdefault(name, []).extend(texts)
        return found

    def offsets_changed(
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """See `Connector.offsets_changed`."""
        from tidings_sinks.jdbc.positions import change_positions  # noqa: PLC0415 - needs a driver

        change_positions(read_settings(name, config), offsets)

    def preload(self) -> None:
        """See `Connector.preload`."""
        for name in ("task", "postgres"):
            import_module(f"tidings_sinks.jdbc.{name}")

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.jdbc.task import JdbcSinkTask  # noqa: PLC0415 - the worker itself needs no driver

        return JdbcSinkTask(read_settings(context.connector, config), context)
