"""The connectors of query sources, as the worker knows them: the two well-known JDBC source connectors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tidings_capture.query.config import check_together, read_query_config
from tidings_capture.query.options import FIXED, OPTIONS, SHARE, names_in
from tidings_capture.query.task import QueryTask, connect
from tidings_connect.config.option import Option
from tidings_connect.config.plugins import connector_of
from tidings_connect.connector import Findings, Host
from tidings_connect.errors import ConnectError
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import PartitionedTask, SourceConnector

if TYPE_CHECKING:
    from tidings_capture.query.companion import UnseenCompanion
    from tidings_connect.series_bounds import SeriesBounds


class JdbcSource(SourceConnector):
    """Reads tables by queries. As Aiven's connector."""

    class_name: ClassVar[str] = "io.aiven.connect.jdbc.JdbcSourceConnector"
    version: ClassVar[str] = "6.12.0"
    writes_rows: ClassVar[bool] = False
    own_options: ClassVar[Sequence[Option]] = (*OPTIONS, *FIXED)

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Of single options, and of those that do not go together."""
        return super().problems(config) or check_together(config)

    def task_configs(self, config: dict[str, str], most: int) -> Sequence[dict[str, str]]:
        """Tables are spread over the tasks by their names."""
        named = names_in(config.get("table.whitelist", ""))
        is_query = config.get("query", "").strip() or config.get("query.masked", "").strip()
        count = 1 if is_query else min(most, len(named) or most)
        return [{**config, SHARE: f"{number}/{count}"} for number in range(count)]

    def examine(self, config: Mapping[str, str]) -> Findings:
        """Whether the database can be reached."""
        read = read_query_config(config)
        try:
            connect(read.address, read).close()
        except ConnectError as error:
            return Findings({"connection.url": [str(error)]})
        return Findings({})

    def companion(self, host: Host, bounds: "SeriesBounds") -> "UnseenCompanion | None":  # noqa: ARG002 - its series are few
        """Tells what query sources do not see, those by the other name among them."""
        from tidings_capture.query.companion import UnseenCompanion  # noqa: PLC0415 - tasks need no metrics

        return UnseenCompanion(host, lambda config: isinstance(connector_of(config), JdbcSource))

    def open_task(self, config: Mapping[str, str], output: Output) -> PartitionedTask:
        """See `SourceConnector`."""
        return QueryTask(read_query_config(config), output)


class ConfluentJdbcSource(JdbcSource):
    """The same, by the name of Confluent's connector."""

    class_name: ClassVar[str] = "io.confluent.connect.jdbc.JdbcSourceConnector"

    def companion(self, host: Host, bounds: "SeriesBounds") -> None:
        """Its superclass's sees both."""
