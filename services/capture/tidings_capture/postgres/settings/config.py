"""A connector's options, checked and typed; made once from its JSON by `read_connector_config`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings_capture.cdc.encoding.column_mappers import read_mappers
from tidings_capture.cdc.encoding.options import (
    BinaryHandling,
    ConversionOptions,
    DecimalHandling,
    FailureHandling,
    HstoreHandling,
    IntervalHandling,
    TimePrecision,
    placeholder_bytes,
)
from tidings_capture.cdc.field_names import field_adjustment
from tidings_capture.cdc.filters import (
    ColumnFilter,
    KeyColumns,
    MessageFilter,
    TableFilter,
    compile_keys,
    compile_list,
)
from tidings_capture.cdc.naming import NameAdjustment, TopicNames
from tidings_capture.cdc.signals.options import SignalOptions, read_signal_options, table_name
from tidings_capture.cdc.snapshots.options import SnapshotOptions, select_overrides
from tidings_capture.cdc.sql_fragment import statements_of
from tidings_capture.postgres.client import Endpoint
from tidings_capture.postgres.encoding.tolerance import ToleranceOptions
from tidings_capture.postgres.server.replica_identities import IdentityRule, compile_identities
from tidings_capture.postgres.settings.option_table import OPTIONS, REQUIRE_AUTH
from tidings_capture.postgres.settings.options import check_options
from tidings_capture.postgres.wal.options import WalOptions, read_wal_options
from tidings_capture.postgres.wire.protocol import ProtocolOptions
from tidings_connect.config.exactly_once import (
    REQUIRED,
    SUPPORT,
    TransactionBoundary,
)
from tidings_connect.config.task_options import boundary_of, converters_of, producer_overrides, transforms_of
from tidings_connect.errors import OptionError
from tidings_connect.java.regex import JavaPattern
from tidings_connect.kafka.topic_creation import TopicCreation, read_topic_creation


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """What one connector is to do. Times are seconds."""

    name: str
    endpoint: Endpoint
    topic_prefix: str
    slot: str
    slot_drop_on_stop: bool
    slot_failover: bool
    slot_attempts: int
    slot_retry_seconds: float
    publication: str
    publication_autocreate: str
    publish_via_partition_root: bool
    tables: TableFilter
    columns: ColumnFilter
    snapshot: SnapshotOptions
    messages: MessageFilter
    schema_changes: bool
    """``tidings.schema.changes``: publish ``<prefix>.schema-changes``."""
    signals: SignalOptions
    protocol: ProtocolOptions
    heartbeat_seconds: float
    status_update_seconds: float
    receive_timeout_seconds: float
    """How long the server may be silent on the replication connection before it counts as lost; 0: for ever."""
    conversion: ConversionOptions
    converters: dict[str, str] = field(repr=False)
    producer: dict[str, str] = field(repr=False)
    topics: TopicNames = field(repr=False)
    topic_creation: TopicCreation = field(default_factory=TopicCreation)
    keys: KeyColumns = field(default_factory=KeyColumns)
    wal: WalOptions = field(default_factory=WalOptions)
    published_operations: str = ""
    """What a publication that is created publishes; empty: everything, as when ``skipped.operations`` is not set."""
    identities: tuple[IdentityRule, ...] = ()
    heartbeat_action: str = field(default="", repr=False)
    """SQL that runs with every heartbeat; empty: none."""
    boundary: TransactionBoundary = field(default_factory=TransactionBoundary)
    """When a Kafka transaction ends, where the worker writes exactly once."""
    exactly_once_required: bool = False
    tolerance: ToleranceOptions = field(default_factory=ToleranceOptions)
    transforms: dict[str, str] = field(default_factory=dict, repr=False)
    """``transforms``, ``predicates`` and what is behind these prefixes; empty without transforms."""


def read_endpoint(config: Mapping[str, str]) -> Endpoint:
    """Where the connector's database is."""
    value = _Values(config)
    names = {"database.sslcert": "sslcert", "database.sslkey": "sslkey", "database.sslrootcert": "sslrootcert",
             "database.sslpassword": "sslpassword"}  # fmt: skip
    return Endpoint(
        host=value.text("database.hostname"),
        port=value.integer("database.port"),
        user=value.text("database.user"),
        database=value.text("database.dbname"),
        password=value.text("database.password"),
        sslmode=value.text("database.sslmode").lower(),
        initial_statements=statements_of(value.text("database.initial.statements")),
        query_timeout_ms=value.integer("database.query.timeout.ms"),
        answer_seconds=value.integer("tidings.receive.timeout.ms") / 1000,
        require_auth=value.text(REQUIRE_AUTH).lower(),
        extra=tuple((libpq, config[name]) for name, libpq in names.items() if config.get(name)),
    )


def read_slot_name(config: Mapping[str, str]) -> str:
    """The connector's slot."""
    return _Values(config).text("slot.name")


def read_connector_config(
    name: str, config: Mapping[str, str], worker_converters: Mapping[str, str], run_id: str, task: int = 0
) -> ConnectorConfig:
    """Type a connector's configuration.

    Raises:
        OptionError: naming every option that is missing or wrong.
    """
    problems = check_options(config)
    if problems:
        raise OptionError("; ".join(text for texts in problems.values() for text in texts))
    value = _Values(config)
    prefix = value.text("topic.prefix")
    topics = TopicNames(prefix, value.text)
    return ConnectorConfig(
        name=name,
        endpoint=read_endpoint(config),
        topic_prefix=prefix,
        slot=value.text("slot.name"),
        slot_drop_on_stop=value.boolean("slot.drop.on.stop"),
        slot_failover=value.boolean("slot.failover"),
        slot_attempts=value.integer("slot.max.retries"),
        slot_retry_seconds=value.integer("slot.retry.delay.ms") / 1000,
        publication=value.text("publication.name"),
        publication_autocreate=value.text("publication.autocreate.mode").lower(),
        publish_via_partition_root=value.boolean("publish.via.partition.root"),
        tables=TableFilter(
            value.patterns("schema.include.list"),
            value.patterns("schema.exclude.list"),
            value.patterns("table.include.list"),
            value.patterns("table.exclude.list"),
            table_name(value.text("signal.data.collection")),
        ),
        columns=ColumnFilter(value.patterns("column.include.list"), value.patterns("column.exclude.list")),
        snapshot=_snapshot(value, config),
        messages=MessageFilter(
            value.patterns("message.prefix.include.list"), value.patterns("message.prefix.exclude.list")
        ),
        schema_changes=value.boolean("tidings.schema.changes"),
        signals=read_signal_options(config, value.text, value.integer, prefix),
        protocol=ProtocolOptions(
            streaming=value.text("tidings.streaming.mode").lower(),
            memory_bytes=value.integer("tidings.streaming.memory.bytes"),
            two_phase=value.boolean("tidings.two.phase"),
        ),
        heartbeat_seconds=value.integer("heartbeat.interval.ms") / 1000,
        status_update_seconds=value.integer("status.update.interval.ms") / 1000,
        receive_timeout_seconds=value.integer("tidings.receive.timeout.ms") / 1000,
        conversion=_conversion(value, config, topics, run_id, task),
        converters=converters_of(config, worker_converters),
        producer=producer_overrides(config),
        topics=topics,
        topic_creation=read_topic_creation(config),
        keys=compile_keys(value.text("message.key.columns")),
        wal=read_wal_options(config),
        published_operations=_published_operations(value, config),
        identities=compile_identities(value.text("replica.identity.autoset.values")),
        heartbeat_action=value.text("heartbeat.action.query"),
        boundary=boundary_of(config),
        exactly_once_required=value.text(SUPPORT).lower() == REQUIRED,
        tolerance=ToleranceOptions(
            all=value.text("errors.tolerance").lower() == "all",
            log=value.boolean("errors.log.enable"),
            dead_letters=value.text("errors.deadletterqueue.topic.name"),
        ),
        transforms=transforms_of(config),
    )  # fmt: skip


def _snapshot(value: "_Values", config: Mapping[str, str]) -> SnapshotOptions:
    based = "snapshot.mode.configuration.based."
    return SnapshotOptions(
        mode=value.text("snapshot.mode").lower().replace("never", "no_data"),
        based_data=value.boolean(f"{based}snapshot.data"),
        based_stream=value.boolean(f"{based}start.stream"),
        based_on_data_error=value.boolean(f"{based}snapshot.on.data.error"),
        delay_seconds=value.integer("snapshot.delay.ms") / 1000,
        streaming_delay_seconds=value.integer("streaming.delay.ms") / 1000,
        threads=value.integer("snapshot.max.threads"),
        order=value.text("snapshot.tables.order.by.row.count").lower(),
        include=value.patterns("snapshot.include.collection.list"),
        selects=select_overrides(config),
    )


def _conversion(
    value: "_Values", config: Mapping[str, str], topics: TopicNames, run_id: str, task: int
) -> ConversionOptions:
    prefix = value.text("topic.prefix")
    headers: tuple[tuple[str, bytes], ...] = ()
    if value.boolean("extended.headers.enabled"):
        headers = (
            ("__debezium.context.connectorLogicalName", prefix.encode()),
            ("__debezium.context.taskId", str(task).encode()),
            ("__debezium.context.connectorName", b"postgresql"),
            ("__debezium.context.runId", run_id.encode()),
        )
    return ConversionOptions(
        topic_prefix=prefix,
        database=value.text("database.dbname"),
        decimal_handling=DecimalHandling(value.text("decimal.handling.mode").lower()),
        time_precision=TimePrecision(value.text("time.precision.mode").lower()),
        binary_handling=BinaryHandling(value.text("binary.handling.mode").lower()),
        hstore_handling=HstoreHandling(value.text("hstore.handling.mode").lower()),
        money_fraction_digits=value.integer("money.fraction.digits"),
        converting_failure=FailureHandling(value.text("event.converting.failure.handling.mode").lower()),
        interval_handling=IntervalHandling(value.text("interval.handling.mode").lower()),
        include_unknown_datatypes=value.boolean("include.unknown.datatypes"),
        propagated_columns=value.patterns("column.propagate.source.type"),
        propagated_types=value.patterns("datatype.propagate.source.type"),
        tombstones_on_delete=value.boolean("tombstones.on.delete"),
        provide_transaction_metadata=value.boolean("provide.transaction.metadata"),
        unavailable_value=placeholder_bytes(value.text("unavailable.value.placeholder")),
        context_headers=headers,
        transaction_topic=topics.transaction,
        heartbeat_topic=topics.heartbeat,
        schema_names=NameAdjustment(value.text("schema.name.adjustment.mode").lower()),
        field_names=field_adjustment(value.text("field.name.adjustment.mode"), config),
        skip_unchanged=value.boolean("skip.messages.without.change"),
        skipped_operations=frozenset(value.names("skipped.operations")) - {"none"},
        mappers=read_mappers(config),
    )


def _published_operations(value: "_Values", config: Mapping[str, str]) -> str:
    skipped = set(value.names("skipped.operations")) - {"none"}
    if "skipped.operations" not in config or not skipped:
        return ""
    names = {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}
    return ",".join(name for letter, name in names.items() if letter not in skipped)


class _Values:
    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config

    def text(self, name: str) -> str:
        found = self._config.get(name)
        if found is None:
            found = OPTIONS[name].default or ""
        return found.strip() if OPTIONS[name].kind != "password" else found

    def integer(self, name: str) -> int:
        return int(self.text(name) or OPTIONS[name].default or 0)

    def boolean(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def names(self, name: str) -> frozenset[str]:
        return frozenset(part.strip().lower() for part in self.text(name).split(",")) - {""}

    def patterns(self, name: str) -> tuple[JavaPattern, ...]:
        return compile_list(self.text(name))
