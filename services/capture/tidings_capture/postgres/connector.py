"""The PostgreSQL connector, as the worker knows it (entry point ``tidings.connectors``)."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from tidings_capture.cdc.recorded_definitions import DebeziumConnector, RecordedDefinitions
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.server.setup import (
    captured_tables,
    check_server,
    drop_slot,
    warning_of_refused_updates,
)
from tidings_capture.postgres.settings.config import read_connector_config, read_endpoint, read_slot_name
from tidings_capture.postgres.settings.definitions import DEFINITIONS
from tidings_capture.postgres.settings.option_table import CONNECTOR_CLASS, CONNECTOR_VERSION, OPTIONS
from tidings_capture.postgres.settings.options import check_options
from tidings_capture.postgres.settings.worker_options import WORKER_OPTIONS
from tidings_connect.config.option import Option
from tidings_connect.connector import CANNOT_CONNECT, Findings, Host, Kind
from tidings_connect.errors import ConnectError
from tidings_service import get_logger

if TYPE_CHECKING:
    from tidings_capture.postgres.companion import SlotCompanion
    from tidings_connect.series_bounds import SeriesBounds
    from tidings_connect.task.transport import TaskContext

_log = get_logger(__name__)


def _drop_slot(config: Mapping[str, str]) -> None:
    drop_slot(read_endpoint(config), read_slot_name(config))


_REMOVABLE: Final = {"slot": _drop_slot}


class PostgresConnector(DebeziumConnector):
    """Change data capture of one database, as Debezium's connector does it."""

    class_name: ClassVar[str] = CONNECTOR_CLASS
    version: ClassVar[str] = CONNECTOR_VERSION
    kind: ClassVar[Kind] = "source"
    writes_rows: ClassVar[bool] = True
    task_class: ClassVar[str] = "io.debezium.connector.postgresql.PostgresConnectorTask"
    worker_options: ClassVar[Sequence[Option]] = WORKER_OPTIONS
    removable: ClassVar[Mapping[str, Callable[[Mapping[str, str]], None]]] = _REMOVABLE
    recorded: ClassVar[RecordedDefinitions] = DEFINITIONS

    @property
    def options(self) -> Mapping[str, Option]:
        """Every option, by name."""
        return OPTIONS

    def place(self, config: Mapping[str, str | None]) -> str:
        """The database server."""
        return f"{config.get('database.hostname')}:{config.get('database.port')}"

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with a configuration, by option."""
        return check_options(config)

    def examine(self, config: Mapping[str, str]) -> Findings:
        """Debezium's connection test; and what the connector would do to others on its server."""
        try:
            session = Session(read_endpoint(config))
            try:
                check_server(session)
                return Findings({}, _warnings(session, config))
            finally:
                session.close()
        except ConnectError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return Findings({"database.hostname": [f"{CANNOT_CONNECT} {error}{hint}"]})

    def companion(self, host: Host, bounds: "SeriesBounds") -> "SlotCompanion":
        """Watches slots and WAL, and guards the servers' disks."""
        from tidings_capture.postgres.companion import SlotCompanion  # noqa: PLC0415 - tasks need no metrics

        return SlotCompanion(host, bounds)

    def deleted(self, name: str, config: Mapping[str, str]) -> None:
        """Its slot goes on retaining WAL."""
        if config.get("slot.drop.on.stop", "false").strip().lower() == "true":
            return
        slot = config.get("slot.name", "debezium")
        publication = config.get("publication.name", "dbz_publication")
        _log.warning(
            "the deleted connector's replication slot and publication stay in its database, and the slot"
            " retains WAL until somebody drops it",
            connector=name,
            slot=slot,
            publication=publication,
            hint=f"to go on later, create the connector again; else SELECT pg_drop_replication_slot('{slot}'); "
            f'DROP PUBLICATION "{publication}"',
        )

    def preload(self) -> None:
        """Import the task."""
        import tidings_capture.postgres.build  # noqa: PLC0415, F401

    def run_task(self, context: "TaskContext") -> None:
        """Prepare, take a snapshot when asked for, and stream until told to stop."""
        from tidings_capture.postgres.build import build_task  # noqa: PLC0415 - the worker does not run tasks

        job = context.job
        config = read_connector_config(
            job.connector, job.config, job.converters, run_id=str(uuid.uuid4()), task=job.task
        )
        build_task(context, config).run()


def _warnings(session: Session, options: Mapping[str, str]) -> tuple[str, ...]:
    try:
        config = read_connector_config(options["name"], options, {}, "validation")
        text = warning_of_refused_updates(session, config, captured_tables(session, config))
    except ConnectError as error:
        # No reason to refuse it: the task says it at its start, in full.
        _log.info("what a connector would do to its server is not known", reason=error.code)
        return ()
    return () if text is None else (text,)
