"""Prepares the server for a connector: checks it, and sees to the publication and the slot.

All that can be wrong before the first row is found here and said in one line that names the option. What may have
been lost since the last run is the business of `losses`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidings_capture.postgres.client import Endpoint, Replication, Session, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError, SlotError
from tidings_capture.postgres.server.replica_identities import will_identify
from tidings_capture.postgres.server.updatable import by_updatable, shown
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_envelope.position import lsn_from_text, lsn_to_text
from tidings_service import get_logger

_log = get_logger(__name__)

_SLOT: Final = """
SELECT s.plugin, s.database, s.confirmed_flush_lsn::text, s.wal_status, s.active
  FROM pg_replication_slots s WHERE s.slot_name = %s
"""
_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind = 'p', c.relispartition
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_PUBLISHED: Final = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
_PUBLISHES: Final = "SELECT puballtables, pubupdate OR pubdelete FROM pg_publication WHERE pubname = %s"
_GIVE_IDENTITY: Final = "give them a primary key or ALTER TABLE ... REPLICA IDENTITY FULL"
_LEAVE_OUT: Final = "leave them out: publication.autocreate.mode=filtered with table.exclude.list"
_IN_USE: Final = "55006"
_UNDEFINED: Final = "42704"
_RELEASE_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class SlotState:
    """What the server says about the connector's slot."""

    confirmed_lsn: int
    wal_status: str | None
    active: bool


def check_server(session: Session) -> None:
    """Refuse a server that cannot decode its WAL.

    Raises:
        CatalogError: names wal_level.
    """
    level = session.value("SHOW wal_level")
    if level != "logical":
        raise CatalogError(
            f"the server has wal_level={level}, but capture needs wal_level=logical",
            hint="ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL",
        )


def captured_tables(session: Session, config: ConnectorConfig) -> list[tuple[str, str]]:
    """The tables the filters choose, in the order of a snapshot.

    Raises:
        CatalogError: a name in table.include.list is not a table of the database.
    """
    found = session.rows(_TABLES)
    missing = config.tables.missing((schema, table) for schema, table, _, _ in found)
    if missing:
        raise CatalogError(
            f"table.include.list names {', '.join(missing)}, which database.dbname={config.endpoint.database} "
            "does not have",
            hint="correct table.include.list, or create the table and restart the connector",
        )
    # Rows of a partitioned table are published once: as the root's, or as the partition's.
    by_root = config.publish_via_partition_root
    tables = [
        (schema, table)
        for schema, table, is_root, is_partition in found
        if not (is_partition if by_root else is_root)
    ]
    return config.tables.order(table for table in tables if config.tables.captures(*table))


def ensure_publication(session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]) -> None:
    """Create or complete the publication as publication.autocreate.mode says.

    Raises:
        CatalogError: it is missing and must not be created.
    """
    name, mode = config.publication, config.publication_autocreate
    row = session.rows("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,))
    if row:
        if mode == "filtered" and not row[0][0]:
            _complete_publication(session, name, tables)
        return
    parameters = ["publish_via_partition_root = true"] if config.publish_via_partition_root else []
    if config.published_operations:
        parameters.append(f"publish = '{config.published_operations}'")
    clause = f" WITH ({', '.join(parameters)})" if parameters else ""
    match mode:
        case "all_tables":
            session.execute(f"CREATE PUBLICATION {quote(name)} FOR ALL TABLES{clause}")
        case "filtered":
            if not tables:
                raise CatalogError(
                    "publication.autocreate.mode=filtered: the include and exclude lists leave no table to publish",
                    hint="correct table.include.list or schema.include.list",
                )
            session.execute(f"CREATE PUBLICATION {quote(name)} FOR TABLE {_names(tables)}{clause}")
        case "no_tables":
            session.execute(f"CREATE PUBLICATION {quote(name)}{clause}")
        case _:
            raise CatalogError(
                f"publication.name={name} does not exist, and publication.autocreate.mode=disabled forbids to create it",
                hint=f"CREATE PUBLICATION {name} FOR TABLE ..., or choose another publication.autocreate.mode",
            )


def warn_of_refused_updates(session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]) -> None:
    """Say which tables an application cannot update any more, because the connector's own publication has them.

    Args:
        tables: the captured ones.
    """
    without = refused_updates(session, config, tables)
    if without:
        _log.warning(
            "PostgreSQL refuses every UPDATE and DELETE of these tables, the application's too: they have no replica identity "
            "and are published with updates",
            connector=config.name,
            publication=config.publication,
            tables=shown(without),
            hint=f"{_GIVE_IDENTITY} (replica.identity.autoset.values does), or {_LEAVE_OUT}",
        )


def warning_of_refused_updates(
    session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]
) -> str | None:
    """What to tell whoever is about to create or change the connector: as `warn_of_refused_updates`, before its start.

    Tables that ``replica.identity.autoset.values`` will give an identity are not named.
    """
    captured = set(tables)
    without = [
        table
        for table in refused_updates(session, config, tables)
        if not (table in captured and will_identify(config.identities, table))
    ]
    if not without:
        return None
    return (
        f"publication.autocreate.mode={config.publication_autocreate}: with this connector PostgreSQL refuses every UPDATE "
        f"and DELETE of {shown(without)}, the application's too, because publication {config.publication} publishes updates "
        f"of them and they have no replica identity; {_GIVE_IDENTITY}, or {_LEAVE_OUT}"
    )


def refused_updates(
    session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The tables whose updates and deletes PostgreSQL refuses to everybody, because of the connector's own publication.

    Asked before the publication is made as well as after: then by what it is going to be.

    Args:
        tables: the captured ones.
    """
    mode = config.publication_autocreate
    if mode not in {"all_tables", "filtered"}:
        return []
    row = session.rows(_PUBLISHES, (config.publication,))
    everything, refuses = mode == "all_tables", not _only_inserts(config.published_operations)
    if row:
        everything, refuses = row[0]
    return by_updatable(session, None if everything else tables)[1] if refuses else []


def _only_inserts(operations: str) -> bool:
    return bool(operations) and not {"update", "delete"} & {one.strip() for one in operations.split(",")}


def _complete_publication(session: Session, name: str, tables: list[tuple[str, str]]) -> None:
    published = {(s, t) for s, t in session.rows(_PUBLISHED, (name,))}
    if published != set(tables) and tables:
        session.execute(f"ALTER PUBLICATION {quote(name)} SET TABLE {_names(tables)}")


def _names(tables: list[tuple[str, str]]) -> str:
    return ", ".join(f"{quote(schema)}.{quote(table)}" for schema, table in tables)


def read_slot(session: Session, config: ConnectorConfig) -> SlotState | None:
    """The connector's slot, None when there is none.

    Raises:
        SlotError: the slot belongs to another plugin or database.
    """
    rows = session.rows(_SLOT, (config.slot,))
    if not rows:
        return None
    plugin, database, confirmed, wal_status, active = rows[0]
    if plugin != "pgoutput" or database != config.endpoint.database:
        raise SlotError(
            f"slot.name={config.slot} exists, but for plugin {plugin} and database {database}",
            hint="choose another slot.name, or drop that slot",
        )
    return SlotState(lsn_from_text(confirmed) if confirmed else 0, wal_status, active)


def server_lsn(session: Session) -> int:
    """The end of the server's WAL."""
    found = session.value(
        "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_insert_lsn() END::text"
    )
    return lsn_from_text(found)


def start_streaming(
    replication: Replication, config: ConnectorConfig, start_lsn: int, wait: Callable[[float], None]
) -> None:
    """START_REPLICATION; waits for a former walsender of this slot to end, as slot.max.retries says.

    Args:
        wait: pauses for seconds; may raise to stop.
    """
    options = (
        *config.protocol.parameters(replication.server_version),
        ("publication_names", quote(config.publication)),
    )
    if config.protocol.two_phase:
        start_lsn = 0  # where the slot stands: before every prepared transaction that is not finished
    deadline = time.monotonic() + config.slot_attempts * config.slot_retry_seconds
    pause = 0.1
    while True:
        try:
            replication.start(config.slot, lsn_to_text(start_lsn), options)
        except PostgresError as error:
            if error.sqlstate != _IN_USE or time.monotonic() + pause > deadline:
                raise
            wait(pause)
            pause = min(pause * 2, config.slot_retry_seconds)
        else:
            return


def create_slot(replication: Replication, config: ConnectorConfig, breathe: Callable[[], None]) -> int:
    """Create the connector's slot without a snapshot; its consistent position.

    Args:
        breathe: called while the server waits; may raise to give up.

    Raises:
        PostgresError: the server refused.
    """
    created = replication.create_slot(
        config.slot,
        temporary=False,
        export=False,
        failover=fails_over(replication, config),
        meanwhile=patience(config.name, breathe),
    )
    return lsn_from_text(created.consistent_lsn)


def patience(connector: str, breathe: Callable[[], None]) -> Callable[[float], None]:
    """What to do while the server makes a slot: breathe, and say once what it waits for."""
    told = False

    def meanwhile(seconds: float) -> None:
        nonlocal told
        if seconds > _PATIENCE_SECONDS and not told:
            told = True
            _log.warning(
                "a slot begins behind the transactions that are open: the server waits for them to end",
                connector=connector,
            )
        breathe()

    return meanwhile


def fails_over(replication: Replication, config: ConnectorConfig) -> bool:
    """Whether a new slot is one that replicas keep; a server that has none gets another, with a warning, as by Debezium."""
    if config.slot_failover and not replication.can_fail_over:
        _log.warning(
            "slot.failover=true needs a primary with PostgreSQL 17 or newer; the slot is none that replicas keep",
            connector=config.name,
            slot=config.slot,
        )
        return False
    return config.slot_failover


def drop_slot(endpoint: Endpoint, slot: str) -> None:
    """Drop a slot whose consumer has just ended; the server needs a moment to notice.

    Raises:
        PostgresError: another consumer holds it.
    """
    session = Session(endpoint)
    try:
        deadline = time.monotonic() + _RELEASE_SECONDS
        while True:
            try:
                session.rows("SELECT pg_drop_replication_slot(%s)", (slot,))
            except PostgresError as error:
                if error.sqlstate == _UNDEFINED:
                    return
                if error.sqlstate != _IN_USE or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return
    finally:
        session.close()
