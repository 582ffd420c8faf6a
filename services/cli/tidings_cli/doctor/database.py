"""PostgreSQL, as a connector will find it: what capture refuses, and what the server will refuse or lose later."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidings_capture.postgres.client import Endpoint, Session, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError
from tidings_capture.postgres.server.setup import captured_tables, check_server, read_slot
from tidings_capture.postgres.server.updatable import by_updatable
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wal.command import endangered
from tidings_capture.postgres.wal.forecast import LOST, ServerWal, SlotWal, safe_ratio
from tidings_capture.postgres.wal.server import ServerWatch
from tidings_cli.doctor import connection
from tidings_cli.doctor.findings import Finding, error, warning
from tidings_cli.doctor.registry import replacing_option
from tidings_connect.data.sizes import format_seconds, format_size
from tidings_connect.errors import ConnectError

_OLDEST: Final = 140000
_FAILOVER_SLOTS: Final = 170000
_PLACE: Final = "database"
_CLOCK_SECONDS: Final = 2.0
_LONG_SECONDS: Final = 3600.0
_SENDER_TIMEOUT_MS: Final = 10_000
_LITTLE_LEFT: Final = 0.2
_TOLD: Final = 3

_ROLE: Final = """
SELECT r.rolsuper, r.rolreplication,
       EXISTS (SELECT 1 FROM pg_roles m WHERE m.rolname IN ('rds_replication', 'cloudsqlsuperuser', 'azure_pg_admin')
                  AND pg_has_role(r.oid, m.oid, 'member')),
       has_database_privilege(current_database(), 'CREATE')
  FROM pg_roles r WHERE r.rolname = current_user
"""
_SETTINGS: Final = """
SELECT name, setting FROM pg_settings
 WHERE name IN ('max_replication_slots', 'max_wal_senders', 'wal_sender_timeout', 'idle_session_timeout',
                'idle_in_transaction_session_timeout', 'idle_replication_slot_timeout')
"""
_WITH_UPDATES: Final = """
SELECT DISTINCT p.schemaname::text, p.tablename::text
  FROM pg_publication_tables p JOIN pg_publication b ON b.pubname = p.pubname WHERE b.pubupdate OR b.pubdelete
"""
_UNREADABLE: Final = """
SELECT n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'USAGE')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
   AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))
 ORDER BY 1, 2
"""
_NOT_OWNED: Final = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[])) AND NOT pg_has_role(c.relowner, 'USAGE')
 ORDER BY 1, 2
"""
_PUBLICATION: Final = """
SELECT puballtables, pubinsert, pubupdate, pubdelete, pubviaroot FROM pg_publication WHERE pubname = %s
"""
_PUBLISHED: Final = "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s"
_NULL_WITH_DEFAULT: Final = """
SELECT n.nspname || '.' || c.relname || '.' || a.attname
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
  JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[])) AND NOT a.attnotnull AND a.attgenerated = ''
   AND pg_get_expr(d.adbin, d.adrelid) ~ '^(''|[-(]*[0-9]|true|false)'
 ORDER BY 1
"""
"""With a constant as default: records tell of no other."""
_STANDBYS: Final = """
SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND active
"""
_FAILOVER: Final = "SELECT coalesce((to_jsonb(s)->>'failover')::bool, false) FROM pg_replication_slots s WHERE slot_name = %s"
_OLD_TRANSACTION: Final = """
SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
 WHERE backend_xid IS NOT NULL AND datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at.

    Attributes:
        config: of the connector, where there is one; else the server and all tables.
        retained_bytes: an unused slot that retains more is told.
        idle_seconds: how long a session stays silent, to see whether it survives that; 0: none.
    """

    endpoint: Endpoint
    config: ConnectorConfig | None
    retained_bytes: float
    idle_seconds: float = 0.0


def look_at_database(look: Look) -> list[Finding]:
    """Everything that is wrong with the server, the role, the tables, the publication and the slots."""
    with contextlib.ExitStack() as opened:
        try:
            silence = connection.Silence(look.endpoint, look.idle_seconds) if look.idle_seconds else None
            if silence is not None:
                opened.callback(silence.close)
            session = opened.enter_context(contextlib.closing(Session(look.endpoint)))
        except PostgresError as problem:
            return [connection.unreachable(problem)]
        try:
            return [*_all(session, look), *(() if silence is None else silence.end())]
        except PostgresError as problem:
            return [_refused("refused", problem, "the server did not answer a question about itself")]


def _all(session: Session, look: Look) -> Iterator[Finding]:
    yield from connection.look_at_pooler(session)
    server, role = list(_server(session)), list(_role(session, look.endpoint))
    yield from server
    yield from role
    if not role and all(one.code != "no-sender-left" for one in server):
        yield from connection.look_at_stream(look.endpoint)
    yield from _timeouts(session)
    yield from _standbys(session, look.endpoint)
    tables: list[tuple[str, str]] | None = None
    if look.config is not None:
        try:
            tables = captured_tables(session, look.config)
        except CatalogError as problem:
            yield _refused("table-missing", problem, "the connector does not start")
        else:
            yield from _privileges(session, look.endpoint, tables)
            yield from _publication(session, look.config, tables)
            yield from _nulls(session, look.config, tables)
        yield from _slot(session, look.config)
    yield from _identities(session, tables)
    yield from _slots(look)


def _refused(code: str, problem: ConnectError, why: str) -> Finding:
    return error(_PLACE, code, str(problem), why, problem.hint or "see the message")


def _server(session: Session) -> Iterator[Finding]:
    version = session.server_version
    if version < _OLDEST:
        yield error(
            _PLACE, "version", f"PostgreSQL {version // 10000} is older than 14", "pgoutput lacks what capture needs",
            "upgrade to PostgreSQL 14 or newer",
        )  # fmt: skip
    try:
        check_server(session)
    except CatalogError as problem:
        yield _refused("wal-level", problem, "the WAL has no rows that could be decoded")
    settings = _settings(session)
    used = int(session.value("SELECT count(*) FROM pg_replication_slots"))
    slots, senders = settings["max_replication_slots"], settings["max_wal_senders"]
    if used >= slots:
        yield error(
            _PLACE, "no-slot-left", f"all {slots} replication slots are taken", "the connector cannot create one",
            f"drop one of pg_replication_slots that nobody reads, or ALTER SYSTEM SET max_replication_slots = {slots + 5}"
            " and restart",
        )  # fmt: skip
    sending = int(session.value("SELECT count(*) FROM pg_stat_replication"))
    if sending >= senders:
        yield error(
            _PLACE, "no-sender-left", f"all {senders} WAL senders are taken", "the connector is refused the stream",
            f"ALTER SYSTEM SET max_wal_senders = {senders + 5}, and restart",
        )  # fmt: skip
    drift = float(session.value("SELECT extract(epoch FROM clock_timestamp())::float8")) - time.time()
    if abs(drift) > _CLOCK_SECONDS:
        yield warning(
            "clock", "drift", f"the server's clock and this machine's are {abs(drift):.0f} s apart",
            "latencies in metrics and times in events are off by it", "synchronise both with NTP (chronyc tracking)",
        )  # fmt: skip
    age = session.value(_OLD_TRANSACTION)
    if age is not None and float(age) > _LONG_SECONDS:
        yield warning(
            _PLACE, "old-transaction", f"a transaction has been writing for {format_seconds(float(age))}",
            "a new slot begins only when it has ended, and every slot retains WAL from its begin on",
            "SELECT pid, xact_start, state FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start",
        )  # fmt: skip


def _standbys(session: Session, endpoint: Endpoint) -> Iterator[Finding]:
    names = str(session.value("SHOW synchronous_standby_names"))
    own = endpoint.parameters()["application_name"]
    if "*" in names or own in names.lower():
        yield warning(
            _PLACE, "standby", f"synchronous_standby_names is {names!r}, which takes a connector for a standby",
            "commits wait until the connector has stored what it has sent, and all of them while it is down",
            "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (<the standbys>)', and SELECT pg_reload_conf()",
        )  # fmt: skip


def _settings(session: Session) -> dict[str, int]:
    return {name: int(value) for name, value in session.rows(_SETTINGS)}


def _role(session: Session, endpoint: Endpoint) -> Iterator[Finding]:
    ((superuser, replicates, by_membership, _),) = session.rows(_ROLE)
    if not (superuser or replicates or by_membership):
        yield error(
            _PLACE, "no-replication", f"role {endpoint.user!r} may not read the WAL", "the connector is refused the stream",
            f"ALTER ROLE {quote(endpoint.user)} REPLICATION",
        )  # fmt: skip


def _timeouts(session: Session) -> Iterator[Finding]:
    settings, user = _settings(session), "the role"
    harm = {
        "idle_in_transaction_session_timeout": "a snapshot's transaction is cut while rows are on their way",
        "idle_session_timeout": "sessions that wait for work are cut, and each time a connection is made anew",
    }
    for name, why in harm.items():
        if settings.get(name, 0) > 0:
            yield warning(
                _PLACE, name.replace("_", "-"), f"{name} is {settings[name]} ms for {user}", why,
                f"ALTER ROLE CURRENT_USER SET {name} = 0",
            )  # fmt: skip
    if 0 < settings.get("wal_sender_timeout", 0) < _SENDER_TIMEOUT_MS:
        yield warning(
            _PLACE, "wal-sender-timeout", f"wal_sender_timeout is {settings['wal_sender_timeout']} ms",
            "a pause of the network or of Kafka ends the stream", "ALTER SYSTEM SET wal_sender_timeout = '60s'",
        )  # fmt: skip
    if settings.get("idle_replication_slot_timeout", 0) > 0:
        yield warning(
            _PLACE, "idle-slot-timeout", "idle_replication_slot_timeout is set",
            "a connector that is down for longer has lost its slot, and needs a new snapshot",
            "ALTER SYSTEM SET idle_replication_slot_timeout = 0, or a time longer than any outage",
        )  # fmt: skip


def _privileges(session: Session, endpoint: Endpoint, tables: list[tuple[str, str]]) -> Iterator[Finding]:
    for schema, table, may_use in session.rows(_UNREADABLE, _lists(tables)):
        use = "" if may_use else f"GRANT USAGE ON SCHEMA {quote(schema)} TO {quote(endpoint.user)}; "
        yield error(
            _PLACE, "no-select", f"role {endpoint.user!r} may not read {schema}.{table}", "its snapshot fails",
            f"{use}GRANT SELECT ON {quote(schema)}.{quote(table)} TO {quote(endpoint.user)}",
        )  # fmt: skip


def _nulls(session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]) -> Iterator[Finding]:
    """Columns whose nulls the connector's converter would not write."""
    option = replacing_option(config.converters)
    if option is None:
        return
    columns = [name for (name,) in session.rows(_NULL_WITH_DEFAULT, _lists(tables))]
    if columns:
        others = f" and {len(columns) - _TOLD} more" if len(columns) > _TOLD else ""
        yield warning(
            _PLACE, "null-as-default",
            f"{', '.join(columns[:_TOLD])}{others} may be null and have a default, which the converter of values writes for null",
            "rules, the lake and sinks see the default where the database has null", f"set {option}",
        )  # fmt: skip


def _lists(tables: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [schema for schema, _ in tables], [table for _, table in tables]


def _publication(
    session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]
) -> Iterator[Finding]:
    name, mode = config.publication, config.publication_autocreate
    found = session.rows(_PUBLICATION, (name,))
    listed = ", ".join(f"{quote(schema)}.{quote(table)}" for schema, table in tables)
    if not found:
        yield from _publication_to_be_made(session, config, tables)
        return
    ((every, inserts, updates, deletes, via_root),) = found
    missing = sorted(set(tables) - {(s, t) for s, t in session.rows(_PUBLISHED, (name,))})
    if missing and not every and mode != "filtered":
        yield error(
            _PLACE, "not-published", f"publication {name} lacks {_names(missing)}",
            "their changes never reach the connector, and nothing else says so",
            f"ALTER PUBLICATION {quote(name)} SET TABLE {listed}",
        )  # fmt: skip
    silent = [kind for kind, on in (("insert", inserts), ("update", updates), ("delete", deletes)) if not on]
    if silent and not config.published_operations:
        yield error(
            _PLACE, "operations-not-published", f"publication {name} does not publish {', '.join(silent)}",
            "these changes are missing, so that aggregates and the lake are wrong from then on",
            f"ALTER PUBLICATION {quote(name)} SET (publish = 'insert, update, delete, truncate')",
        )  # fmt: skip
    if via_root != config.publish_via_partition_root:
        yield warning(
            _PLACE, "partition-root", f"publication {name} has publish_via_partition_root = {str(via_root).lower()}, the connector"
            f" publish.via.partition.root={str(config.publish_via_partition_root).lower()}",
            "rows of partitioned tables come under a name that the connector does not look for",
            f"ALTER PUBLICATION {quote(name)} SET (publish_via_partition_root = {str(config.publish_via_partition_root).lower()})",
        )  # fmt: skip


def _publication_to_be_made(
    session: Session, config: ConnectorConfig, tables: list[tuple[str, str]]
) -> Iterator[Finding]:
    name, mode = config.publication, config.publication_autocreate
    ((superuser, _, _, creates),) = session.rows(_ROLE)
    listed = ", ".join(f"{quote(schema)}.{quote(table)}" for schema, table in tables) or "..."
    create = f"CREATE PUBLICATION {quote(name)} FOR TABLE {listed}, as a role that may"
    problem = None
    if mode == "disabled":
        problem = f"publication {name} does not exist, and publication.autocreate.mode=disabled"
    elif not superuser and mode == "all_tables":
        problem = f"publication {name} would be for all tables, which only a superuser may create"
    elif not superuser and not creates:
        problem = f"role {config.endpoint.user!r} may not create publication {name}: it lacks CREATE on the database"
    elif not superuser and mode == "filtered" and (foreign := session.rows(_NOT_OWNED, _lists(tables))):
        problem = f"role {config.endpoint.user!r} may not publish {_names(foreign)}: it does not own them"
    if problem is not None:
        yield error(_PLACE, "no-publication", problem, "the connector does not start", create)


def _names(tables: list[tuple[str, str]] | list[Any]) -> str:
    return ", ".join(f"{schema}.{table}" for schema, table in tables)


def _identities(session: Session, tables: list[tuple[str, str]] | None) -> Iterator[Finding]:
    """Tables whose UPDATE and DELETE PostgreSQL refuses from the moment they are published."""
    _, refusing = by_updatable(session, tables)
    published = {(schema, table) for schema, table in session.rows(_WITH_UPDATES)}
    for schema, table in refusing:
        name, now = f"{quote(schema)}.{quote(table)}", (schema, table) in published
        make = error if now or tables is not None else warning
        yield make(
            _PLACE, "no-replica-identity",
            f"{schema}.{table} has no replica identity: no primary key, NOTHING, or an index that is gone",
            "PostgreSQL refuses its UPDATE and DELETE, the application's too" + ("" if now else ", as soon as it is published"),
            f"ALTER TABLE {name} ADD PRIMARY KEY (...), or ALTER TABLE {name} REPLICA IDENTITY FULL",
        )  # fmt: skip


def _slot(session: Session, config: ConnectorConfig) -> Iterator[Finding]:
    try:
        state = read_slot(session, config)
    except ConnectError as problem:
        yield _refused("slot-of-another", problem, "the connector does not start")
        return
    standbys = int(session.value(_STANDBYS))
    if session.server_version >= _FAILOVER_SLOTS and standbys:
        kept = config.slot_failover if state is None else bool(session.value(_FAILOVER, (config.slot,)))
        if not kept:
            yield warning(
                _PLACE, "no-failover-slot", f"the server has {standbys} standby, and slot {config.slot} does not fail over",
                "after a failover the slot is gone, and with it what was not read yet", "slot.failover=true for the connector" if state is None
                else f"stop the connector; ALTER_REPLICATION_SLOT {quote(config.slot)} (FAILOVER true) on a connection with"
                " replication=database; slot.failover=true for the connector (docs/how-to/failover.md)",
            )  # fmt: skip


def _slots(look: Look) -> Iterator[Finding]:
    watch = ServerWatch(look.endpoint)
    try:
        server = watch.read()
    finally:
        watch.close()
    if server.keep_limit_bytes < 0:
        yield warning(
            _PLACE, "unlimited-wal", "max_slot_wal_keep_size is unlimited", "a slot that nobody reads fills the disk of the primary",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB' (what the disk can spare); SELECT pg_reload_conf()",
        )  # fmt: skip
    for slot in server.slots:
        yield from _one_slot(slot, server, look.retained_bytes)


def _one_slot(slot: SlotWal, server: ServerWal, retained: float) -> Iterator[Finding]:
    drop = f"SELECT pg_drop_replication_slot('{slot.name}')"
    if slot.wal_status == LOST:
        yield error(
            _PLACE, "slot-lost", f"slot {slot.name} has lost WAL" + (f" ({slot.invalidation})" if slot.invalidation else ""),
            "its reader cannot go on, and has missed changes", f"{drop}; a connector then needs a new snapshot (docs/runbooks.md)",
        )  # fmt: skip
        return
    ratio = safe_ratio(slot, server)
    if endangered(slot, server) or (ratio is not None and ratio < _LITTLE_LEFT):
        yield error(
            _PLACE, "slot-in-danger", f"slot {slot.name} retains {format_size(slot.retained_bytes)} and is about to be lost",
            "its reader will miss changes", f"start its reader; or {drop}",
        )  # fmt: skip
    elif not slot.active and (slot.retained_bytes or 0) > retained:
        who = f"{slot.plugin or slot.kind}{f' of database {slot.database}' if slot.database else ''}"
        yield warning(
            _PLACE, "slot-unused", f"slot {slot.name} ({who}) retains {format_size(slot.retained_bytes)} of WAL, and nobody reads it",
            "the primary's disk fills", f"start its reader; or {drop}",
        )  # fmt: skip
