"""Options that are none of the connector's: patterns of names, prefixes that go elsewhere, one-valued and refused ones."""

from typing import Final

from tidings_capture.cdc.signals.options import SIGNAL_CONSUMER
from tidings_capture.cdc.snapshots.options import OVERRIDES
from tidings_connect.config.option import Option, Passed

PREFIXES: Final = (
    Passed(
        SIGNAL_CONSUMER,
        "the consumer of `signal.kafka.topic`; a setting without counterpart is refused, as by `producer.override.`",
    ),
    Passed(f"{OVERRIDES}.", f"the table that follows, which `{OVERRIDES}` must name"),
)

FIXED: Final = (
    Option("database.tcpKeepAlive", "boolean", only="true"),
    Option("errors.log.include.messages", "boolean", only="false"),
    Option("errors.retry.timeout", "long", only="0"),
    Option("event.processing.failure.handling.mode", only="fail"),
    Option("flush.lsn.source", "boolean", only="true"),
    Option("lsn.flush.mode", only="connector"),
    Option("max.queue.size.in.bytes", "long", only="0"),
    Option("schema.refresh.mode", only="columns_diff"),
    Option("slot.stream.params", only=""),
    Option("snapshot.locking.mode", only="none"),
    Option("snapshot.query.mode", only="select_all"),
    Option("table.ignore.builtin", "boolean", only="true"),
    Option(
        "tasks.max.enforce",
        "boolean",
        only="true",
        documentation="Whether more tasks than tasks.max are an error; always.",
    ),
)

REFUSED: Final = (
    "connection.validation.timeout.ms",
    "connector.plugin.version",
    "converters",
    "database.connection.factory.class",
    "database.exclude.list",
    "database.include.list",
    "database.sslfactory",
    "executor.shutdown.timeout.ms",
    "guardrail.collections.limit.action",
    "guardrail.collections.max",
    "heartbeat.topics.prefix",
    "incremental.snapshot.allow.schema.changes",
    "legacy.snapshot.max.threads",
    "lsn.flush.timeout.action",
    "lsn.flush.timeout.ms",
    "memory.management.schemas.class",
    "memory.management.tables.class",
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
)
"""Options of Debezium's that are not implemented: any value of one but its default is refused."""
REFUSED_PREFIXES: Final = (
    Passed(
        "driver.",
        "properties of the JDBC driver; so are `database.autosave` and the like, which are unknown here",
    ),
    Passed("internal."),
    Passed("notification.http."),
    Passed("openlineage."),
)
