"""The connectors of MariaDB and MySQL, as the worker knows them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tidings_capture.cdc.recorded_definitions import DebeziumConnector, RecordedDefinitions
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.settings.definitions import OF_MARIADB, OF_MYSQL
from tidings_capture.mysql.settings.mysql_options import OBEYED_OF_MYSQL
from tidings_capture.mysql.settings.options import OBEYED, is_ours, own_problems
from tidings_capture.mysql.task import MariaDbTask
from tidings_connect.config.option import Option
from tidings_connect.config.plugins import connector_of
from tidings_connect.connector import CANNOT_CONNECT, Findings, Host
from tidings_connect.errors import ConnectError
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import SourceConnector, SourceTask

if TYPE_CHECKING:
    from tidings_capture.mysql.companion import BinlogCompanion
    from tidings_connect.series_bounds import SeriesBounds


class MariaDbConnector(DebeziumConnector, SourceConnector):
    """Change data capture of one server, as Debezium's connector does it."""

    class_name: ClassVar[str] = "io.debezium.connector.mariadb.MariaDbConnector"
    version: ClassVar[str] = MARIADB.version
    flavour: ClassVar[Flavour] = MARIADB
    own_options: ClassVar[Sequence[Option]] = OBEYED
    recorded: ClassVar[RecordedDefinitions] = OF_MARIADB

    def place(self, config: Mapping[str, str | None]) -> str:
        """The database server."""
        return f"{config.get('database.hostname')}:{config.get('database.port')}"

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with a configuration, by option."""
        found = super().problems({name: value for name, value in config.items() if not is_ours(name)})
        for name, texts in own_problems(config).items():
            found.setdefault(name, []).extend(texts)
        return found

    def partition(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """As Debezium's."""
        return {"server": config["topic.prefix"]}

    def examine(self, config: Mapping[str, str]) -> Findings:
        """Whether the server can be reached, and writes what is needed."""
        try:
            read = read_config(config, self.flavour)
            session = Session(read.endpoint)
            try:
                self.flavour.check_server(session, has_history=read.history is not None)
            finally:
                session.close()
        except ConnectError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return Findings({"database.hostname": [f"{CANNOT_CONNECT} {error}{hint}"]})
        return Findings({})

    def companion(self, host: Host, bounds: "SeriesBounds") -> "BinlogCompanion | None":  # noqa: ARG002 - its series are few
        """Watches how far connectors are from a purged binary log, those of MySQL among them."""
        from tidings_capture.mysql.companion import BinlogCompanion  # noqa: PLC0415 - tasks need no metrics

        return BinlogCompanion(host, flavour_of)

    def open_task(self, config: Mapping[str, str], output: Output) -> SourceTask:
        """See `SourceConnector`."""
        return MariaDbTask(read_config(config, self.flavour), output)


class MySqlConnector(MariaDbConnector):
    """The same of a MySQL server."""

    class_name: ClassVar[str] = "io.debezium.connector.mysql.MySqlConnector"
    version: ClassVar[str] = MYSQL.version
    flavour: ClassVar[Flavour] = MYSQL
    own_options: ClassVar[Sequence[Option]] = OBEYED_OF_MYSQL
    recorded: ClassVar[RecordedDefinitions] = OF_MYSQL

    def companion(self, host: Host, bounds: "SeriesBounds") -> None:
        """None of its own: that of MariaDB's connector, which each worker has, watches both."""


def flavour_of(config: Mapping[str, str]) -> Flavour | None:
    """Which database the connector of a configuration reads; None where it is of another kind."""
    connector = connector_of(config)
    return connector.flavour if isinstance(connector, MariaDbConnector) else None
