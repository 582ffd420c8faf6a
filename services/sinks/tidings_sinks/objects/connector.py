"""The connectors of object sinks. See `docs/object-storage.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask
from tidings_sinks.objects import settings
from tidings_sinks.objects.settings import REFUSED, check_together, read_settings, value_of

if TYPE_CHECKING:
    from tidings_sinks.objects.formats import Format
    from tidings_sinks.objects.store import Place


class ObjectStorageSink(SinkConnector):
    """Writes objects to S3, Google Cloud Storage, Azure or a directory; exactly once."""

    class_name = "tidings.ObjectStorageSinkConnector"
    version = "1.0"
    own_options: ClassVar[Sequence[Option]] = settings.OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        own = {option.name for option in self.own_options}
        known = {name: text for name, text in config.items() if name not in REFUSED}
        found = check_sink(known, self.options, SINK_OPTIONS.keys() | own)
        for name in config.keys() & REFUSED.keys():
            found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        return found or check_together(config, self.own_options)

    def store_of(self, config: Mapping[str, str]) -> "Place":
        """Where objects go."""
        return self._place(config, value_of(config, self.own_options, settings.URL))

    def _place(self, config: Mapping[str, str], url: str) -> "Place":
        from tidings_sinks.objects.store import Place  # noqa: PLC0415 - the worker itself needs no Arrow

        def value(name: str) -> str:
            return value_of(config, self.own_options, name)

        return Place(
            url,
            value(settings.REGION),
            value(settings.ENDPOINT).rstrip("/"),
            value(settings.KEY),
            value(settings.SECRET),
            path_style=value(settings.PATH_STYLE).lower() == "true",
        )

    def _format(self, config: Mapping[str, str]) -> "Format":
        from tidings_sinks.objects import formats  # noqa: PLC0415 - the worker itself needs no Arrow

        def value(name: str) -> str:
            return value_of(config, self.own_options, name)

        match value(settings.FORMAT).rpartition(".")[2]:
            case "ParquetFormat":
                return formats.ParquetFormat(value(settings.PARQUET_CODEC).lower())
            case "AvroFormat":
                return formats.AvroFormat(value(settings.AVRO_CODEC).lower())
            case _:
                return formats.JsonFormat(value(settings.COMPRESSION).lower(), value(settings.DECIMALS))

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:  # noqa: ARG002
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.objects.diagnosis import diagnose  # noqa: PLC0415 - needs Arrow

        return diagnose(self.store_of(config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.objects.store import open_store  # noqa: PLC0415 - the worker itself needs no Arrow
        from tidings_sinks.objects.task import ObjectSinkTask  # noqa: PLC0415

        read = read_settings(config, self.own_options)
        return ObjectSinkTask(read, self._format(config), open_store(self.store_of(config)), context)


class S3Sink(ObjectStorageSink):
    """The same for S3, with the class and the options of Confluent's connector."""

    class_name = "io.confluent.connect.s3.S3SinkConnector"
    task_class = "io.confluent.connect.s3.S3SinkTask"
    version = "10.5.0"
    own_options: ClassVar[Sequence[Option]] = settings.S3_OPTIONS

    def store_of(self, config: Mapping[str, str]) -> "Place":
        """See `ObjectStorageSink.store_of`."""
        return self._place(config, f"s3://{value_of(config, self.own_options, settings.BUCKET)}")
