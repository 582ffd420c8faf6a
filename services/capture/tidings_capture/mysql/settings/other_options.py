"""Options that are not obeyed: those with one value, those that go elsewhere, and those that are refused by name."""

from collections.abc import Mapping
from typing import Final

from tidings_capture.cdc.signals.options import SIGNAL_CONSUMER
from tidings_capture.cdc.snapshots.options import OVERRIDES
from tidings_capture.mysql.history.options import HISTORY, HISTORY_CLASS
from tidings_connect.config.option import Option, Passed

FIXED: Final = (
    Option(HISTORY, "class", only=HISTORY_CLASS),
    Option("snapshot.query.mode", only="select_all"),
    Option("event.processing.failure.handling.mode", only="fail"),
    Option("event.deserialization.failure.handling.mode", only="fail"),
    Option("inconsistent.schema.handling.mode", only="fail"),
    Option("table.ignore.builtin", "boolean", only="true"),
    Option("errors.log.include.messages", "boolean", only="false"),
    Option("errors.retry.timeout", "long", only="0"),
    Option("tasks.max.enforce", "boolean", only="true"),
)
REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "connector.plugin.version": ("3.5.0.Final",),
    "converters": (),
    "database.jdbc.driver": ("com.mysql.cj.jdbc.Driver",),
    "database.protocol": ("jdbc:mysql",),
    "executor.shutdown.timeout.ms": ("4000",),
    "guardrail.collections.limit.action": ("warn",),
    "guardrail.collections.max": ("0",),
    "internal.advanced.metrics.enable": ("false",),
    "internal.legacy.snapshot.max.threads": ("false",),
    "internal.log.position.check.enable": ("true",),
    "internal.snapshot.scan.all.columns.force": ("false",),
    "offsets.storage.topic": (),
    "openlineage.integration.config.file.path": ("./openlineage.yml",),
    "openlineage.integration.enabled": ("false",),
    "openlineage.integration.job.description": ("Debezium change data capture job",),
    "post.processors": (),
    "snapshot.max.threads.multiplier": ("1",),
    "snapshot.mode.custom.name": (),
    "snapshot.query.mode.custom.name": (),
    "transaction.metadata.factory": ("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",),
    "sourceinfo.struct.maker": (
        "io.debezium.connector.mariadb.MariaDbSourceInfoStructMaker",
        "io.debezium.connector.mysql.MySqlSourceInfoStructMaker",
    ),
}
"""Options that are not implemented, and the values that are Debezium's defaults, which are accepted."""
REFUSED_PREFIXES: Final = (
    "openlineage.", "internal.", "driver.", "post.processors.",
)  # fmt: skip
IGNORED: Final = (
    Passed(
        SIGNAL_CONSUMER,
        "the consumer of `signal.kafka.topic`; a setting without counterpart is refused, as by `producer.override.`",
    ),
    Passed(f"{OVERRIDES}.", "the snapshot: the statement of that table"),
    Passed(f"{HISTORY}.producer.", "the producer that writes the schema history"),
    Passed(f"{HISTORY}.consumer.", "the consumer that looks whether there is one"),
    Passed(
        f"{HISTORY}.",
        "nobody, but for those that are obeyed",
    ),
)
