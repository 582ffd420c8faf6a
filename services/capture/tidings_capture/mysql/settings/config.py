"""A connector's options, checked and typed."""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_capture.cdc.encoding.column_mappers import read_mappers
from tidings_capture.cdc.encoding.options import (
    BinaryHandling,
    DecimalHandling,
    FailureHandling,
    TimePrecision,
    placeholder_bytes,
)
from tidings_capture.cdc.field_names import field_adjustment
from tidings_capture.cdc.filters import (
    ColumnFilter,
    KeyColumns,
    TableFilter,
    compile_keys,
    compile_list,
)
from tidings_capture.cdc.naming import NameAdjustment, TopicNames, adjusted
from tidings_capture.cdc.signals.options import SignalOptions, read_signal_options
from tidings_capture.cdc.snapshots.options import SnapshotOptions, select_overrides
from tidings_capture.cdc.sql_fragment import enclosed_mariadb, statements_of
from tidings_capture.mysql.binlog.gtid_sources import EXCLUDES, FILTERS_ROWS, INCLUDES, GtidSources
from tidings_capture.mysql.client import Endpoint
from tidings_capture.mysql.encoding.fields import FieldOptions
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.history.options import HISTORY, HistoryOptions, read_history
from tidings_capture.mysql.schemas.catalog import SYSTEM
from tidings_capture.mysql.settings.mysql_options import OBEYED_OF_MYSQL, TLS
from tidings_capture.mysql.settings.options import OBEYED
from tidings_capture.mysql.settings.snapshot_option_table import BASED


@dataclass(frozen=True, slots=True)
class MariaDbConfig:
    """What one connector is to do."""

    endpoint: Endpoint
    server_id: int
    prefix: str
    topics: TopicNames
    tables: TableFilter
    columns: ColumnFilter
    keys: KeyColumns
    skipped: frozenset[str]
    snapshot: SnapshotOptions
    recovers: bool
    """``snapshot.mode=recovery``: the schema history is begun anew at the stored position."""
    reads_all: bool
    """``snapshot.mode=never``: a first start reads the log from its beginning."""
    signals: SignalOptions
    locking: str
    """``snapshot.locking.mode``: ``minimal``, ``extended`` or ``none``."""
    lock_seconds: float
    """How long a lock is waited for."""
    fetch_rows: int
    batch_rows: int
    fields: FieldOptions
    tombstones: bool
    include_query: bool
    transactions: bool
    heartbeat_seconds: float
    schema_changes: bool
    """Whether the topic of schema changes is written."""
    history_tables: bool
    history_databases: bool
    """Whether it tells of captured tables only, and of captured databases."""
    history: HistoryOptions | None
    """Where Debezium's schema history is written."""
    flavour: Flavour = MARIADB
    """Which kind of server it is."""
    headers: tuple[tuple[str, str], ...] = field(default=())
    """``__debezium.context.*``: what every record of a row carries."""
    skips_unchanged: bool = False
    """``skip.messages.without.change``."""
    schema_names: NameAdjustment = NameAdjustment.NONE
    sources: GtidSources = GtidSources()
    """Whose transactions count."""
    heartbeat_action: str = field(default="", repr=False)
    """SQL that runs with every heartbeat; empty: none."""

    def schema_name(self, proposed: str) -> str:
        """The name of a schema, as far as ``schema.name.adjustment.mode`` lets it."""
        return adjusted(proposed, self.schema_names)

    def captures(self, database: str, table: str) -> bool:
        """Whether changes of a table are captured."""
        return database.lower() not in SYSTEM and self.tables.captures(database, table)


def read_config(config: Mapping[str, str], flavour: Flavour = MARIADB) -> MariaDbConfig:
    """Type a configuration that has no problems."""
    options = OBEYED if flavour is MARIADB else OBEYED_OF_MYSQL
    given = {
        option.name: (config.get(option.name) or "").strip() or option.default or "" for option in options
    }
    ssl_mode = given["database.ssl.mode"].lower()

    def is_true(name: str) -> bool:
        return given[name].lower() == "true"

    # A table of these servers has a database and no schema: the strategies without schemas tell it as those with do.
    names = {**given, "topic.naming.strategy": given["topic.naming.strategy"].replace(".Default", ".Schema")}
    signals = read_signal_options(
        config,
        lambda name: given[name],
        lambda name: int(given[name]),
        given["topic.prefix"],
        enclose=enclosed_mariadb,
        brief=True,
    )
    return MariaDbConfig(
        endpoint=Endpoint(
            host=given["database.hostname"],
            port=int(given["database.port"]),
            user=given["database.user"],
            password=config.get("database.password") or "",
            ssl_mode=TLS.get(ssl_mode, ssl_mode),
            connect_seconds=int(given["connect.timeout.ms"]) / 1000,
            initial_statements=statements_of(given["database.initial.statements"]),
            query_seconds=int(given["database.query.timeout.ms"]) / 1000,
            log_timeouts=(int(given["binlog.net.read.timeout"]), int(given["binlog.net.write.timeout"])),
            stores=_stores(config),
        ),
        server_id=int(given["database.server.id"] or random.randrange(1 << 24, 1 << 31)),  # noqa: S311
        prefix=given["topic.prefix"],
        topics=TopicNames(given["topic.prefix"], lambda name: names.get(name, "")),
        tables=TableFilter(
            compile_list(given["database.include.list"]),
            compile_list(given["database.exclude.list"]),
            compile_list(given["table.include.list"]),
            compile_list(given["table.exclude.list"]),
            signals.table,
        ),
        columns=ColumnFilter(
            compile_list(given["column.include.list"]), compile_list(given["column.exclude.list"])
        ),
        keys=compile_keys(given["message.key.columns"]),
        skipped=frozenset(part.strip().lower() for part in given["skipped.operations"].split(",")),
        snapshot=_snapshot(given, config),
        recovers=given["snapshot.mode"].lower() in {"recovery", "schema_only_recovery"},
        reads_all=given["snapshot.mode"].lower() == "never",
        signals=signals,
        locking=given["snapshot.locking.mode"].lower(),
        lock_seconds=int(given["snapshot.lock.timeout.ms"]) / 1000,
        fetch_rows=int(given["snapshot.fetch.size"]),
        batch_rows=int(given["max.batch.size"]),
        fields=FieldOptions(
            DecimalHandling(given["decimal.handling.mode"].lower()),
            TimePrecision(given["time.precision.mode"].lower()),
            given["bigint.unsigned.handling.mode"].lower(),
            BinaryHandling(given["binary.handling.mode"].lower()),
            placeholder_bytes(given["unavailable.value.placeholder"]),
            failures=FailureHandling(given["event.converting.failure.handling.mode"].lower()),
            names=field_adjustment(given["field.name.adjustment.mode"], config),
            comments=is_true("include.schema.comments"),
            mappers=read_mappers(config),
            propagated_columns=compile_list(given["column.propagate.source.type"]),
            propagated_types=compile_list(given["datatype.propagate.source.type"]),
        ),
        tombstones=is_true("tombstones.on.delete"),
        include_query=is_true("include.query"),
        transactions=is_true("provide.transaction.metadata"),
        heartbeat_seconds=int(given["heartbeat.interval.ms"]) / 1000,
        schema_changes=is_true("include.schema.changes"),
        history_tables=is_true(f"{HISTORY}.store.only.captured.tables.ddl"),
        history_databases=is_true(f"{HISTORY}.store.only.captured.databases.ddl"),
        history=read_history(config),
        flavour=flavour,
        headers=(
            ("__debezium.context.connectorLogicalName", given["topic.prefix"]),
            ("__debezium.context.taskId", "0"),
            ("__debezium.context.connectorName", flavour.name),
            ("__debezium.context.runId", str(uuid.uuid4())),
        )
        if is_true("extended.headers.enabled")
        else (),
        skips_unchanged=is_true("skip.messages.without.change"),
        schema_names=NameAdjustment(given["schema.name.adjustment.mode"].lower()),
        sources=GtidSources(
            compile_list(given[INCLUDES]), compile_list(given[EXCLUDES]), is_true(FILTERS_ROWS)
        ),
        heartbeat_action=given["heartbeat.action.query"],
    )


def _stores(config: Mapping[str, str]) -> dict[str, str]:
    """The options of certificates, by the names that they have for Kafka's clients."""
    names = {f"database.ssl.{kind}": f"ssl.{kind}" for kind in ("truststore", "keystore")}
    found = {}
    for option, setting in names.items():
        if config.get(option, "").strip():
            found[f"{setting}.location"] = config[option].strip()
            if config.get(f"{option}.password"):
                found[f"{setting}.password"] = config[f"{option}.password"]
    return found


_FORMER: Final = {
    "schema_only": "no_data",
    "never": "no_data",
    "recovery": "no_data",
    "schema_only_recovery": "no_data",
}


def _snapshot(given: Mapping[str, str], config: Mapping[str, str]) -> SnapshotOptions:
    mode = given["snapshot.mode"].lower()

    def is_true(name: str) -> bool:
        return given[f"{BASED}{name}"].lower() == "true"

    return SnapshotOptions(
        mode=_FORMER.get(mode, mode),
        based_data=is_true("snapshot.data"),
        based_stream=is_true("start.stream"),
        based_on_data_error=is_true("snapshot.on.data.error"),
        delay_seconds=int(given["snapshot.delay.ms"]) / 1000,
        streaming_delay_seconds=int(given["streaming.delay.ms"]) / 1000,
        threads=int(given["snapshot.max.threads"]),
        order=given["snapshot.tables.order.by.row.count"].lower(),
        include=compile_list(given["snapshot.include.collection.list"]),
        selects=select_overrides(config),
    )
