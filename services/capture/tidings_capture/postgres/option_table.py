"""Connector options: Debezium's PostgreSQL connector's names, with what is implemented here, in one table.

Three kinds: implemented (`OPTIONS`), known to Debezium but not implemented (`NOT_IMPLEMENTED`: refused by name, never
ignored), and accepted without effect because the default is the only behaviour (`FIXED`: any other value is refused).
``docs/debezium-compatibility.md`` shows the same table.
"""

from typing import Final

from tidings_capture.cdc.naming import SCHEMA_STRATEGY, STRATEGIES, NameAdjustment
from tidings_capture.cdc.signal_file import DEFAULT_FILE
from tidings_capture.cdc.snapshot_options import OVERRIDES
from tidings_capture.postgres.option_checks import (
    channels_among,
    chunk_problem,
    identities_problem,
    limit_problem,
    message_keys_problem,
    operations_problem,
    patterns_problem,
    placeholder_problem,
    queue_problem,
    require_auth_problem,
    slot_name_problem,
    table_problem,
    topic_prefix_problem,
)
from tidings_capture.postgres.wal.options import GUARD, ON_LOSS, PAUSED_CONNECTORS, STEPS, VOLUME
from tidings_connect.config.class_names import aliases
from tidings_connect.config.framework import (
    FRAMEWORK_OPTIONS,
    FRAMEWORK_PREFIXES,
)
from tidings_connect.config.metric_tags import OPTION as METRIC_TAGS
from tidings_connect.config.metric_tags import problem as metric_tags_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    java_pattern_problem,
    not_negative_long_problem,
    not_negative_problem,
    port_problem,
    positive_long_problem,
    positive_problem,
    size_problem,
)
from tidings_envelope.toast import UNAVAILABLE

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
CONNECTOR_NAMES: Final = (CONNECTOR_CLASS, *aliases(CONNECTOR_CLASS))
"""Every name of the connector's class."""
REQUIRE_AUTH: Final = "tidings.database.require.auth"
CONNECTOR_VERSION: Final = "3.7.0.Final"


_TABLE: Final = (
    Option("connector.class", "class", required=True, values=CONNECTOR_NAMES),
    Option("tasks.max", "int", "1", check=at_least_one_problem, documentation="A WAL is serial: one task runs whatever this says."),
    Option("plugin.name", default="decoderbufs", values=("pgoutput",)),
    Option("database.hostname", required=True),
    Option("database.port", "int", "5432", check=port_problem),
    Option("database.user", required=True),
    Option("database.password", "password", ""),
    Option("database.dbname", required=True),
    Option("database.sslmode", default="prefer", values=("allow", "prefer", "disable", "verify-ca", "require", "verify-full")),
    Option("database.sslcert"),
    Option("database.sslkey"),
    Option("database.sslpassword", "password"),
    Option("database.sslrootcert"),
    Option("topic.prefix", required=True, check=topic_prefix_problem),
    Option("slot.name", default="debezium", check=slot_name_problem, may_be_empty=False),
    Option("slot.drop.on.stop", "boolean", "false"),
    Option("slot.failover", "boolean", "false"),
    Option("slot.max.retries", "int", "6", check=not_negative_problem),
    Option("slot.retry.delay.ms", "long", "10000", check=not_negative_problem),
    Option("publication.name", default="dbz_publication"),
    Option("publication.autocreate.mode", default="all_tables", values=("no_tables", "filtered", "disabled", "all_tables")),
    Option("publish.via.partition.root", "boolean", "false"),
    Option("schema.include.list", "list", check=patterns_problem),
    Option("schema.exclude.list", "list", check=patterns_problem),
    Option("table.include.list", "list", check=patterns_problem),
    Option("table.exclude.list", "list", check=patterns_problem),
    Option("column.include.list", "list", check=patterns_problem),
    Option("column.exclude.list", "list", check=patterns_problem),
    Option("message.key.columns", check=message_keys_problem),
    Option("replica.identity.autoset.values", "list", check=identities_problem),
    Option("database.initial.statements"),
    Option("database.query.timeout.ms", "int", "600000", check=not_negative_problem),
    Option("schema.name.adjustment.mode", default="none", values=tuple(NameAdjustment)),
    Option("field.name.adjustment.mode", default="none", values=tuple(NameAdjustment)),
    Option("skip.messages.without.change", "boolean", "false"),
    Option("topic.naming.strategy", "class", SCHEMA_STRATEGY, values=STRATEGIES),
    Option("topic.delimiter", default=".", check=topic_prefix_problem),
    Option("topic.transaction", default="transaction", check=topic_prefix_problem),
    Option("topic.heartbeat.prefix", default="__debezium-heartbeat", check=topic_prefix_problem),
    Option("topic.heartbeat.name", check=topic_prefix_problem),
    Option("topic.cache.size", "int", "10000", documentation="Names are kept per table: accepted, without effect."),
    Option("topic.regex"),
    Option("topic.replacement"),
    Option("topic.key.enforce.uniqueness", "boolean", "true"),
    Option("topic.key.field.name", default="__dbz__physicalTableIdentifier"),
    Option("topic.key.field.regex"),
    Option("topic.key.field.replacement"),
    Option("topic.creation.groups", "list"),
    Option("heartbeat.action.query"),
    Option(METRIC_TAGS, check=metric_tags_problem),
    Option("custom.sanitize.pattern", check=java_pattern_problem, documentation="Also in answers of the REST API."),
    Option("snapshot.mode", default="initial", values=("always", "initial_only", "configuration_based", "when_needed", "initial", "no_data", "never")),
    Option("snapshot.mode.configuration.based.snapshot.data", "boolean", "false"),
    Option("snapshot.mode.configuration.based.snapshot.schema", "boolean", "false", documentation="The schema is read with the data: accepted, without effect."),
    Option("snapshot.mode.configuration.based.start.stream", "boolean", "false"),
    Option("snapshot.mode.configuration.based.snapshot.on.schema.error", "boolean", "false", documentation="There is no schema history: accepted, without effect."),
    Option("snapshot.mode.configuration.based.snapshot.on.data.error", "boolean", "false"),
    Option("snapshot.delay.ms", "long", "0", check=not_negative_long_problem),
    Option("streaming.delay.ms", "long", "0", check=not_negative_long_problem),
    Option("snapshot.max.threads", "int", "1", check=positive_problem),
    Option("snapshot.tables.order.by.row.count", default="disabled", values=("disabled", "ascending", "descending")),
    Option("snapshot.include.collection.list", "list", check=patterns_problem),
    Option(OVERRIDES, "list"),
    Option("message.prefix.include.list", "list", check=patterns_problem),
    Option("message.prefix.exclude.list", "list", check=patterns_problem),
    Option("signal.data.collection", check=table_problem),
    Option("signal.enabled.channels", "list", "source", check=channels_among({"source", "kafka", "file"})),
    Option("signal.file", default=DEFAULT_FILE, documentation="Within the worker's tidings.signal.directory."),
    Option("signal.kafka.topic"),
    Option("signal.kafka.groupId", default="kafka-signal"),
    Option("signal.kafka.bootstrap.servers"),
    Option("signal.kafka.poll.timeout.ms", "int", "0", documentation="The loop never waits for signals: accepted, without effect."),
    Option("signal.poll.interval.ms", "long", "5000", check=positive_problem),
    Option("incremental.snapshot.chunk.size", "int", "1024", check=chunk_problem),
    Option("incremental.snapshot.watermarking.strategy", default="insert_insert", values=("insert_delete", "insert_insert")),
    Option("read.only", "boolean", "false"),
    Option("notification.enabled.channels", "list", "", check=channels_among({"log", "sink"})),
    Option("notification.sink.topic.name"),
    Option("snapshot.isolation.mode", default="serializable", values=("serializable", "repeatable_read"), documentation="All sessions read one exported snapshot."),
    Option("snapshot.fetch.size", "int", check=not_negative_problem, documentation="COPY streams: accepted, without effect."),
    Option("snapshot.lock.timeout.ms", "long", "10000", documentation="No locks are taken: accepted, without effect."),
    Option("tombstones.on.delete", "boolean", "true"),
    Option("decimal.handling.mode", default="precise", values=("string", "double", "precise")),
    Option("time.precision.mode", default="adaptive", values=("adaptive", "adaptive_time_microseconds", "isostring", "structured",
                                                              "microseconds", "nanoseconds", "connect")),
    Option("hstore.handling.mode", default="json", values=("json", "map")),
    Option("money.fraction.digits", "int", "2", check=not_negative_problem),
    Option("event.converting.failure.handling.mode", default="warn", values=("warn", "fail", "skip")),
    Option("binary.handling.mode", default="bytes", values=("bytes", "base64", "hex", "base64-url-safe")),
    Option("interval.handling.mode", default="numeric", values=("string", "numeric")),
    Option("include.unknown.datatypes", "boolean", "false"),
    Option("column.propagate.source.type", "list", check=patterns_problem),
    Option("datatype.propagate.source.type", "list", check=patterns_problem),
    Option("include.schema.comments", "boolean", "false", documentation="Debezium does not read PostgreSQL's comments."),
    Option(
        "unavailable.value.placeholder", default=UNAVAILABLE, check=placeholder_problem
    ),
    Option("provide.transaction.metadata", "boolean", "false"),
    Option("extended.headers.enabled", "boolean", "true"),
    Option("skipped.operations", "list", "t", check=operations_problem, may_be_empty=False),
    Option("heartbeat.interval.ms", "int", "0", check=not_negative_problem),
    Option("status.update.interval.ms", "int", "10000", check=positive_problem),
    Option("xmin.fetch.interval.ms", "long", "0", values=("0",)),
    Option("errors.deadletterqueue.topic.name", documentation="Where to keep what errors.tolerance=all leaves out; Kafka Connect has it for sinks only."),
    Option("retriable.restart.connector.wait.ms", "long", "10000", check=positive_long_problem),
    Option("max.batch.size", "int", "2048", check=positive_problem, documentation="Batches follow what has arrived: accepted, without effect."),
    Option("max.queue.size", "int", "8192", check=queue_problem, documentation="The producer's queue is the only one: accepted, without effect."),
    Option("poll.interval.ms", "long", "500", check=positive_problem, documentation="Nothing is polled: accepted, without effect."),
    Option(REQUIRE_AUTH, check=require_auth_problem, documentation="How the server may ask for a login, as libpq's require_auth. Default: no password in the clear unless database.sslmode is verify-ca or verify-full."),
    Option("tidings.receive.timeout.ms", "int", "300000", check=not_negative_problem),
    Option("tidings.managed.by"),
    Option("tidings.schema.changes", "boolean", "false"),
    Option("tidings.streaming.mode", default="off", values=("off", "on", "parallel")),
    Option("tidings.streaming.memory.bytes", "int", "16777216", check=not_negative_problem),
    Option("tidings.two.phase", "boolean", "false"),
    Option(ON_LOSS, values=("fail", "snapshot", "incremental", "continue"), documentation="Default: as snapshot.mode says; incremental where tidings.wal.guard.drop is set."),
    Option(VOLUME, check=size_problem, documentation="The room for pg_wal on the database server, such as 100GB; for forecasts and percentages."),
    *(Option(f"{GUARD}{step}", check=limit_problem, documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.") for step in STEPS),
    Option(PAUSED_CONNECTORS, "list", check=patterns_problem, documentation="Connectors of this worker that rest from step pause on."),
)  # fmt: skip
OPTIONS: Final = {**FRAMEWORK_OPTIONS, **{option.name: option for option in _TABLE}}

SIGNAL_CONSUMER: Final = "signal.consumer."
PASS_THROUGH: Final = (
    *FRAMEWORK_PREFIXES,
    f"{OVERRIDES}.",
    SIGNAL_CONSUMER,
)
"""Prefixes whose options belong to somebody else: a converter, a topic, the producer, a table."""

FIXED: Final = {
    "database.tcpKeepAlive": "true",
    "event.processing.failure.handling.mode": "fail",
    "errors.retry.timeout": "0",
    "tasks.max.enforce": "true",
    "errors.log.include.messages": "false",
    "flush.lsn.source": "true",
    "lsn.flush.mode": "connector",
    "max.queue.size.in.bytes": "0",
    "schema.refresh.mode": "columns_diff",
    "slot.stream.params": "",
    "snapshot.locking.mode": "none",
    "snapshot.query.mode": "select_all",
    "table.ignore.builtin": "true",
}
"""Options whose only behaviour here is this value, which is accepted; any other is refused."""

NOT_IMPLEMENTED: Final = frozenset(
    {
        "connector.plugin.version",
        "database.exclude.list",
        "database.include.list",
        "heartbeat.topics.prefix",
        "memory.management.schemas.class",
        "memory.management.tables.class",
        "connection.validation.timeout.ms",
        "converters",
        "database.connection.factory.class",
        "database.sslfactory",
        "executor.shutdown.timeout.ms",
        "guardrail.collections.limit.action",
        "guardrail.collections.max",
        "incremental.snapshot.allow.schema.changes",
        "legacy.snapshot.max.threads",
        "lsn.flush.timeout.action",
        "lsn.flush.timeout.ms",
        "offset.mismatch.strategy",
        "offsets.storage.topic",
        "poll.dispatch.interval.ms",
        "post.processors",
        "query.fetch.size",
        "queue.provider.type",
        "signal.emit.failure.backoff.ms",
        "signal.emit.failure.max.retries",
        "snapshot.locking.mode.custom.name",
        "snapshot.max.threads.multiplier",
        "snapshot.mode.custom.name",
        "snapshot.query.mode.custom.name",
        "sourceinfo.struct.maker",
        "statistics.metrics.enabled",
        "transaction.metadata.factory",
    }
)
_NOT_IMPLEMENTED_PREFIXES: Final = (
    "driver.",  # of the JDBC driver
    "internal.",
    "notification.http.",
    "openlineage.",
)


def is_refused(name: str) -> bool:
    """Whether an option is one of Debezium's that is not implemented: any value of it is refused."""
    return name in NOT_IMPLEMENTED or name.startswith(_NOT_IMPLEMENTED_PREFIXES)
