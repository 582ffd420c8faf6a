"""A connector's options, checked and typed."""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_capture.cdc.filters import (
    ColumnFilter,
    KeyColumns,
    TableFilter,
    compile_keys,
    compile_list,
)
from tidings_capture.cdc.naming import SCHEMA_STRATEGY, TopicNames
from tidings_capture.cdc.options import BinaryHandling, DecimalHandling, TimePrecision, placeholder_bytes
from tidings_capture.mysql.catalog import SYSTEM
from tidings_capture.mysql.client import Endpoint
from tidings_capture.mysql.fields import FieldOptions
from tidings_capture.mysql.history.options import HISTORY, HistoryOptions, read_history
from tidings_capture.mysql.options import OBEYED

VERSION: Final = "3.5.0.Final"
"""The release whose records these are; stands in ``source.version``."""


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
    snapshot_mode: str
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
    headers: tuple[tuple[str, str], ...] = field(default=())
    """``__debezium.context.*``: what every record of a row carries."""

    def captures(self, database: str, table: str) -> bool:
        """Whether changes of a table are captured."""
        return database.lower() not in SYSTEM and self.tables.captures(database, table)


def read_config(config: Mapping[str, str]) -> MariaDbConfig:
    """Type a configuration that has no problems."""
    given = {
        option.name: (config.get(option.name) or "").strip() or option.default or "" for option in OBEYED
    }

    def is_true(name: str) -> bool:
        return given[name].lower() == "true"

    names = {
        **given,
        "topic.naming.strategy": SCHEMA_STRATEGY,
        "topic.heartbeat.name": "",
        "topic.heartbeat.prefix": given["heartbeat.topics.prefix"],
    }
    return MariaDbConfig(
        endpoint=Endpoint(
            host=given["database.hostname"],
            port=int(given["database.port"]),
            user=given["database.user"],
            password=config.get("database.password") or "",
            ssl_mode=given["database.ssl.mode"].lower(),
            connect_seconds=int(given["connect.timeout.ms"]) / 1000,
        ),
        server_id=int(given["database.server.id"] or random.randrange(1 << 24, 1 << 31)),  # noqa: S311
        prefix=given["topic.prefix"],
        topics=TopicNames(given["topic.prefix"], lambda name: names.get(name, "")),
        tables=TableFilter(
            compile_list(given["database.include.list"]),
            compile_list(given["database.exclude.list"]),
            compile_list(given["table.include.list"]),
            compile_list(given["table.exclude.list"]),
        ),
        columns=ColumnFilter(
            compile_list(given["column.include.list"]), compile_list(given["column.exclude.list"])
        ),
        keys=compile_keys(given["message.key.columns"]),
        skipped=frozenset(part.strip().lower() for part in given["skipped.operations"].split(",")),
        snapshot_mode=given["snapshot.mode"].lower().replace("schema_only", "no_data"),
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
        ),
        tombstones=is_true("tombstones.on.delete"),
        include_query=is_true("include.query"),
        transactions=is_true("provide.transaction.metadata"),
        heartbeat_seconds=int(given["heartbeat.interval.ms"]) / 1000,
        schema_changes=is_true("include.schema.changes"),
        history_tables=is_true(f"{HISTORY}.store.only.captured.tables.ddl"),
        history_databases=is_true(f"{HISTORY}.store.only.captured.databases.ddl"),
        history=read_history(config),
        headers=(
            ("__debezium.context.connectorLogicalName", given["topic.prefix"]),
            ("__debezium.context.taskId", "0"),
            ("__debezium.context.connectorName", "mariadb"),
            ("__debezium.context.runId", str(uuid.uuid4())),
        ),
    )
