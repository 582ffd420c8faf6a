"""The connector of the warehouse sink. See `docs/warehouse.md`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.task.sink import SinkConnector, SinkContext, SinkTask, TopicPartition
from tidings_sinks.warehouse.options import OPTIONS, REFUSED, check
from tidings_sinks.warehouse.settings import read_settings


class WarehouseSink(SinkConnector):
    """Merges batches of records into a file of DuckDB; exactly once, as the positions are in the data's transactions."""

    class_name = "tidings.WarehouseSinkConnector"
    version = "1.0"
    own_options: ClassVar[Sequence[Option]] = OPTIONS

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """See `Connector.problems`."""
        known = {name: text for name, text in config.items() if name not in REFUSED}
        own = {option.name for option in self.own_options}
        found = check_sink(known, self.options, SINK_OPTIONS.keys() | own)
        for name in config.keys() & REFUSED.keys():
            found[name] = [f"{name} is not implemented: {REFUSED[name]}"]
        return found or check(config)

    def offsets_changed(
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """See `Connector.offsets_changed`."""
        from tidings_sinks.warehouse.positions import change_positions  # noqa: PLC0415 - needs DuckDB

        change_positions(read_settings(name, config), offsets)

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:
        """See `SinkConnector.diagnose`."""
        from tidings_sinks.warehouse.diagnosis import diagnose  # noqa: PLC0415 - needs DuckDB

        return diagnose(read_settings(name, config))

    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """See `SinkConnector.open_task`."""
        from tidings_sinks.warehouse.task import WarehouseTask  # noqa: PLC0415 - the worker itself needs no DuckDB

        return WarehouseTask(read_settings(context.connector, config), context)
