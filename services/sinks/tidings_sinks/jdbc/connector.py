"""The connectors of this engine: from topics to tables, with the classes and the options of Debezium's JDBC sink and of the two
well-known ones for flat records. See `docs/sinks.md`."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink, topics_of
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask, TopicPartition
from tidings_sinks.jdbc import flat_options
from tidings_sinks.jdbc.options import OPTIONS, REFUSED, check
from tidings_sinks.jdbc.settings import Settings, read_settings
from tidings_sinks.transactions.options import is_wanted


class JdbcSinkConnector(SinkConnector):
    """Writes records to tables; exactly once, as the positions are written in the data's transactions. As Debezium's."""

    class_name = "io.debezium.connector.jdbc.JdbcSinkConnector"
    task_class = "io.debezium.connector.jdbc.JdbcSinkConnectorTask"
    version = "3.6.0.Final"
    own_options: ClassVar[Sequence[Option]] = OPTIONS
    refused: ClassVar[Mapping[str, str]] = REFUSED
    """Options of the class that nobody obeys here, and why."""

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        found = self._of_options({name: text for name, text in config.items() if name not in self.refused})
        for name in config.keys() & self.refused.keys():
            found[name] = [f"{name} is not implemented: {self.refused[name]}"]
        for name, texts in self._together(config).items():
            found.setdefault(name, []).extend(texts)
        return found

    def _of_options(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        return super().problems(config)

    def _together(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        return check(config)

    def read(self, connector: str, config: Mapping[str, str]) -> Settings:
        """What a configuration without problems says."""
        return read_settings(connector, config)

    def offsets_changed(
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """See `Connector.offsets_changed`."""
        from tidings_sinks.jdbc.positions import change_positions  # noqa: PLC0415 - needs a driver

        change_positions(self.read(name, config), offsets)

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.jdbc.diagnosis import diagnose  # noqa: PLC0415 - needs a driver

        return diagnose(self.read(name, config), topics_of(config))

    def preload(self) -> None:
        """See `Connector.preload`."""
        for name in ("transactions_task", "databases.postgres"):
            import_module(f"tidings_sinks.jdbc.{name}")

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.jdbc.task import JdbcSinkTask  # noqa: PLC0415 - the worker itself needs no driver
        from tidings_sinks.jdbc.transactions_task import SourceTransactionsTask  # noqa: PLC0415 - as above

        settings = self.read(context.connector, config)
        kind = JdbcSinkTask if settings.transactions is None else SourceTransactionsTask
        return kind(settings, context)

    def task_configs(self, config: dict[str, str], most: int) -> Sequence[dict[str, str]]:
        """See `SinkConnector.task_configs`; one, where transactions are kept together."""
        return super().task_configs(config, 1 if is_wanted(config) else most)


class ConfluentJdbcSink(JdbcSinkConnector):
    """The same for flat records, with the class and the options of Confluent's connector, and its answers."""

    class_name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    task_class = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
    version = "10.8.0"
    own_options: ClassVar[Sequence[Option]] = flat_options.CONFLUENT
    refused: ClassVar[Mapping[str, str]] = flat_options.REFUSED

    def _of_options(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        own = {option.name for option in self.own_options}
        return check_sink(config, self.options, SINK_OPTIONS.keys() | own)

    def _together(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        return flat_options.check_together(config, self.own_options)

    def read(self, connector: str, config: Mapping[str, str]) -> Settings:
        """See `JdbcSinkConnector.read`."""
        return flat_options.read_flat_settings(connector, config, self.own_options)


class AivenJdbcSink(ConfluentJdbcSink):
    """The same by the name of Aiven's connector."""

    class_name = "io.aiven.connect.jdbc.JdbcSinkConnector"
    task_class = "io.aiven.connect.jdbc.sink.JdbcSinkTask"
    version = "6.12.0"
    own_options: ClassVar[Sequence[Option]] = flat_options.AIVEN
