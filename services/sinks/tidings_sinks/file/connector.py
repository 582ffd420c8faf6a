"""Kafka Connect's FileStream connectors, with their classes, options and answers. See `docs/sinks.md`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from tidings_connect.config.exactly_once import REQUIRED, SUPPORT
from tidings_connect.config.framework import check_framework
from tidings_connect.config.option import OF_FRAMEWORK, Definition, Option
from tidings_connect.config.plugins import KAFKA_CONNECT_VERSION
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import OffsetError
from tidings_connect.task.output import Output
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask
from tidings_connect.task.source_loop import PartitionedTask, SourceConnector
from tidings_sinks.diagnosis import of_file
from tidings_sinks.file.lines import POSITION
from tidings_sinks.file.sink import FileSinkTask
from tidings_sinks.file.source import FILENAME, FileSourceTask

FILE: Final = "file"
TOPIC: Final = "topic"
BATCH: Final = "batch.size"
_MOST_LONG: Final = (1 << 63) - 1


def _named(value: str) -> str | None:
    return None if value.strip() else "String must be non-empty"


SOURCE_OPTIONS: Final = (
    Option(FILE, documentation="The file to read; without it, the worker's standard input."),
    Option(
        TOPIC, required=True, check=_named, may_be_empty=False, documentation="The topic that lines go to."
    ),
    Option(
        BATCH,
        "int",
        "2000",
        documentation="How many lines are read before the task looks after other things.",
    ),
)
SINK_OPTIONS_OF_FILES: Final = (
    Option(FILE, documentation="The file to write to; without it, the worker's standard output."),
)
_IMPORTANCE: Final[Mapping[str, str]] = {BATCH: "LOW"}


def _file(config: Mapping[str, str]) -> str:
    """Its path; empty where there is none."""
    return config.get(FILE, "").strip()


def _definitions(options: Sequence[Option]) -> list[Definition]:
    """As Kafka Connect shows options that were defined without a group."""
    kinds = {"int": "INT"}
    return [
        Definition(
            option.name,
            kinds.get(option.kind, "STRING"),
            option.required,
            option.default,
            _IMPORTANCE.get(option.name, "HIGH"),
            None,
            -1,
            "NONE",
            option.name,
        )
        for option in options
    ]


class FileStreamSourceConnector(SourceConnector):
    """Reads lines."""

    class_name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    task_class = "org.apache.kafka.connect.file.FileStreamSourceTask"
    version = KAFKA_CONNECT_VERSION
    own_options: ClassVar[Sequence[Option]] = SOURCE_OPTIONS
    shows_values = True

    def definitions(self) -> Sequence[Definition]:
        """See `Connector.definitions`."""
        return _definitions(self.own_options)

    def groups(self) -> Sequence[str]:
        """None: its options have none."""
        return []

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options}
        found = check_framework(config, self.options, OF_FRAMEWORK | own)
        if TOPIC not in config:
            found[TOPIC] = [f'Missing required configuration "{TOPIC}" which has no default value.']
        elif not config[TOPIC].strip():
            found[TOPIC] = [f"Invalid value  for configuration {TOPIC}: String must be non-empty"]
        if config.get(SUPPORT, "").strip().lower() == REQUIRED and not _file(config):
            text = "The connector does not support exactly-once semantics with the provided configuration."
            found.setdefault(SUPPORT, []).append(text)
        return found

    def check_offsets(
        self,
        config: Mapping[str, str],
        offsets: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],
    ) -> bool:
        """See `Connector.check_offsets`. Each in Kafka Connect's words."""
        if not _file(config):
            raise OffsetError(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. This is because stdin is used for"
                " input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue  # so that whatever stands there can be deleted
            if POSITION not in offset:
                raise OffsetError(f"Offset objects should either be null or contain the key '{POSITION}'")
            position = offset[POSITION]
            if not isinstance(position, int) or isinstance(position, bool) or abs(position) > _MOST_LONG:
                raise OffsetError(
                    f"The value for the '{POSITION}' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise OffsetError(
                    f"The value for the '{POSITION}' key in the offset should be a non-negative value"
                )
            if partition is None:
                raise OffsetError("Partition objects cannot be null")
            if FILENAME not in partition:
                raise OffsetError(f"Partition objects should contain the key '{FILENAME}'")
        return True

    def open_task(self, config: Mapping[str, str], output: Output) -> PartitionedTask:
        """See `SourceConnector.open_task`."""
        lines = max(1, int(config.get(BATCH, "").strip() or "2000"))
        return FileSourceTask(_file(config), config[TOPIC].strip(), lines, output)


class FileStreamSinkConnector(SinkConnector):
    """Writes lines."""

    class_name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    task_class = "org.apache.kafka.connect.file.FileStreamSinkTask"
    version = KAFKA_CONNECT_VERSION
    own_options: ClassVar[Sequence[Option]] = SINK_OPTIONS_OF_FILES
    shows_values = True

    def definitions(self) -> Sequence[Definition]:
        """See `Connector.definitions`."""
        return _definitions(self.own_options)

    def groups(self) -> Sequence[str]:
        """None: its options have none."""
        return []

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        return check_sink(config, self.options, SINK_OPTIONS.keys() | {FILE})

    def check_offsets(
        self,
        config: Mapping[str, str],  # noqa: ARG002 - every offset of a topic will do
        offsets: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],  # noqa: ARG002
    ) -> bool:
        """See `Connector.check_offsets`."""
        return True

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:  # noqa: ARG002
        """See `SinkConnector.diagnose`."""
        file = _file(config)
        return () if not file else of_file(Path(file), FILE)

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        return FileSinkTask(_file(config), context.connector)
