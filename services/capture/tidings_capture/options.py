"""Connector options: Debezium's PostgreSQL connector's names, with what is implemented here, in one table.

Three kinds: implemented (`OPTIONS`), known to Debezium but not implemented (`NOT_IMPLEMENTED`: refused by name, never
ignored), and accepted without effect because the default is the only behaviour (`FIXED`: any other value is refused).
Anything else is an error that names the nearest known option. ``docs/debezium-compatibility.md`` shows the same table.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tidings_capture.byte_sizes import parse_size
from tidings_capture.column_mappers import PREFIXES, mapper_problem
from tidings_capture.config_providers import is_reference
from tidings_capture.exactly_once import boundary_problem
from tidings_capture.filters import compile_keys, compile_list
from tidings_capture.kafka_settings import unknown_settings
from tidings_capture.metric_tags import OPTION as METRIC_TAGS
from tidings_capture.metric_tags import problem as metric_tags_problem
from tidings_capture.naming import (
    SCHEMA_STRATEGY,
    STRATEGIES,
    NameAdjustment,
    java_pattern,
    topic_option_problems,
)
from tidings_capture.replica_identities import compile_identities
from tidings_capture.signal_options import table_name
from tidings_capture.snapshot_options import OVERRIDES, select_overrides
from tidings_capture.topic_creation import topic_creation_problems
from tidings_capture.transforms.chain import check_transforms
from tidings_capture.wal_options import (
    GUARD,
    ON_LOSS,
    PAUSED_CONNECTORS,
    STEPS,
    VOLUME,
    parse_limit,
    wal_option_problems,
)

Kind = Literal["string", "password", "int", "long", "boolean", "list", "class"]

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
CONNECTOR_VERSION: Final = "3.7.0.Final"
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_PREFIX = re.compile(r"[a-zA-Z0-9._-]+")
_SECRET_NAME = re.compile(
    r"password|secret|basic\.auth\.user\.info|sasl\.jaas\.config|ssl\.key$|ssl\.keystore\.key$|auth\.token$"
)
_URL_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""``https://user:password@host``"""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its type, its default, and what values it takes."""

    name: str
    kind: Kind = "string"
    default: str | None = None
    required: bool = False
    values: tuple[str, ...] = ()
    check: Callable[[str], str | None] | None = None
    """A further check; what is wrong, or None."""
    documentation: str = ""


def _slot_name(value: str) -> str | None:
    if _NAME.fullmatch(value):
        return None
    return "Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63"


def _topic_prefix(value: str) -> str | None:
    if _PREFIX.fullmatch(value):
        return None
    return f"{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"


def _patterns(value: str) -> str | None:
    try:
        compile_list(value)
    except ValueError as error:
        return f"A comma-separated list of valid regular expressions is expected, but {error}"
    return None


def _keys(value: str) -> str | None:
    try:
        compile_keys(value)
    except ValueError as error:
        return f"is {error}"
    return None


def _identities(value: str) -> str | None:
    try:
        compile_identities(value)
    except ValueError as error:
        return f"is wrong: {error}"
    return None


def _java_pattern(value: str) -> str | None:
    try:
        java_pattern(value)
    except re.error as error:
        return f"is not a regular expression: {error}"
    return None


def _topic_part(value: str) -> str | None:
    return _topic_prefix(value)


def _operations(value: str) -> str | None:
    wrong = {part.strip() for part in value.split(",")} - {"c", "u", "d", "t", "none"}
    return (
        f"Invalid operation: it takes c, u, d, t or none, not {', '.join(sorted(wrong))}" if wrong else None
    )


def _port(value: str) -> str | None:
    return None if value.isdigit() and 0 < int(value) < 65536 else "A port is expected, 1 to 65535"


def _not_negative(value: str) -> str | None:
    return None if int(value) >= 0 else "An non-negative integer is expected"  # Debezium's own words


def _one_task(value: str) -> str | None:
    return None if int(value) >= 1 else "Value must be at least 1"


def _positive(value: str) -> str | None:
    return None if int(value) >= 1 else "A positive, non-zero integer value is expected"


def _table(value: str) -> str | None:
    try:
        table_name(value)
    except ValueError as error:
        return str(error)
    return None


def _size(value: str) -> str | None:
    try:
        parse_size(value)
    except ValueError as error:
        return str(error)
    return None


def _limit(value: str) -> str | None:
    try:
        parse_limit(value)
    except ValueError as error:
        return str(error)
    return None


def _channels(known: set[str]) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        wrong = {part.strip().lower() for part in value.split(",")} - known - {""}
        return (
            f"takes {', '.join(sorted(known))}; {', '.join(sorted(wrong))} is not implemented"
            if wrong
            else None
        )

    return check


_TABLE: Final = (
    Option("name"),
    Option("connector.class", "class", required=True, values=(CONNECTOR_CLASS, "PostgresConnector", "PostgresSource")),
    Option("tasks.max", "int", "1", check=_one_task, documentation="A WAL is serial: one task runs whatever this says."),
    Option("plugin.name", default="decoderbufs", values=("pgoutput",)),
    Option("database.hostname", required=True),
    Option("database.port", "int", "5432", check=_port),
    Option("database.user", required=True),
    Option("database.password", "password", ""),
    Option("database.dbname", required=True),
    Option("database.sslmode", default="prefer", values=("allow", "prefer", "disable", "verify-ca", "require", "verify-full")),
    Option("database.sslcert"),
    Option("database.sslkey"),
    Option("database.sslpassword", "password"),
    Option("database.sslrootcert"),
    Option("topic.prefix", required=True, check=_topic_prefix),
    Option("slot.name", default="debezium", check=_slot_name),
    Option("slot.drop.on.stop", "boolean", "false"),
    Option("slot.failover", "boolean", "false"),
    Option("slot.max.retries", "int", "6", check=_not_negative),
    Option("slot.retry.delay.ms", "long", "10000", check=_not_negative),
    Option("publication.name", default="dbz_publication"),
    Option("publication.autocreate.mode", default="all_tables", values=("no_tables", "filtered", "disabled", "all_tables")),
    Option("publish.via.partition.root", "boolean", "false"),
    Option("schema.include.list", "list", check=_patterns),
    Option("schema.exclude.list", "list", check=_patterns),
    Option("table.include.list", "list", check=_patterns),
    Option("table.exclude.list", "list", check=_patterns),
    Option("column.include.list", "list", check=_patterns),
    Option("column.exclude.list", "list", check=_patterns),
    Option("message.key.columns", check=_keys),
    Option("replica.identity.autoset.values", "list", check=_identities),
    Option("database.initial.statements"),
    Option("database.query.timeout.ms", "int", "600000", check=_not_negative),
    Option("schema.name.adjustment.mode", default="none", values=tuple(NameAdjustment)),
    Option("field.name.adjustment.mode", default="none", values=tuple(NameAdjustment)),
    Option("skip.messages.without.change", "boolean", "false"),
    Option("topic.naming.strategy", "class", SCHEMA_STRATEGY, values=STRATEGIES),
    Option("topic.delimiter", default=".", check=_topic_part),
    Option("topic.transaction", default="transaction", check=_topic_part),
    Option("topic.heartbeat.prefix", default="__debezium-heartbeat", check=_topic_part),
    Option("topic.heartbeat.name", check=_topic_part),
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
    Option("custom.sanitize.pattern", check=_java_pattern, documentation="Also in answers of the REST API."),
    Option("snapshot.mode", default="initial", values=("always", "initial_only", "configuration_based", "when_needed", "initial", "no_data", "never")),
    Option("snapshot.mode.configuration.based.snapshot.data", "boolean", "false"),
    Option("snapshot.mode.configuration.based.snapshot.schema", "boolean", "false", documentation="The schema is read with the data: accepted, without effect."),
    Option("snapshot.mode.configuration.based.start.stream", "boolean", "false"),
    Option("snapshot.mode.configuration.based.snapshot.on.schema.error", "boolean", "false", documentation="There is no schema history: accepted, without effect."),
    Option("snapshot.mode.configuration.based.snapshot.on.data.error", "boolean", "false"),
    Option("snapshot.delay.ms", "long", "0", check=_not_negative),
    Option("streaming.delay.ms", "long", "0", check=_not_negative),
    Option("snapshot.max.threads", "int", "1", check=_positive),
    Option("snapshot.tables.order.by.row.count", default="disabled", values=("disabled", "ascending", "descending")),
    Option("snapshot.include.collection.list", "list", check=_patterns),
    Option(OVERRIDES, "list"),
    Option("message.prefix.include.list", "list", check=_patterns),
    Option("message.prefix.exclude.list", "list", check=_patterns),
    Option("signal.data.collection", check=_table),
    Option("signal.enabled.channels", "list", "source", check=_channels({"source", "kafka", "file"})),
    Option("signal.file", default="file-signals.txt"),
    Option("signal.kafka.topic"),
    Option("signal.kafka.groupId", default="kafka-signal"),
    Option("signal.kafka.bootstrap.servers"),
    Option("signal.kafka.poll.timeout.ms", "int", "0", documentation="The loop never waits for signals: accepted, without effect."),
    Option("signal.poll.interval.ms", "long", "5000", check=_not_negative),
    Option("incremental.snapshot.chunk.size", "int", "1024", check=_one_task),
    Option("incremental.snapshot.watermarking.strategy", default="insert_insert", values=("insert_delete", "insert_insert")),
    Option("read.only", "boolean", "false"),
    Option("notification.enabled.channels", "list", "", check=_channels({"log", "sink"})),
    Option("notification.sink.topic.name"),
    Option("snapshot.isolation.mode", default="serializable", values=("serializable", "repeatable_read"), documentation="All sessions read one exported snapshot."),
    Option("snapshot.fetch.size", "int", documentation="COPY streams: accepted, without effect."),
    Option("snapshot.lock.timeout.ms", "long", "10000", documentation="No locks are taken: accepted, without effect."),
    Option("tombstones.on.delete", "boolean", "true"),
    Option("decimal.handling.mode", default="precise", values=("string", "double", "precise")),
    Option("time.precision.mode", default="adaptive", values=("adaptive", "adaptive_time_microseconds", "isostring", "structured",
                                                              "microseconds", "nanoseconds", "connect")),
    Option("hstore.handling.mode", default="json", values=("json", "map")),
    Option("money.fraction.digits", "int", "2", check=_not_negative),
    Option("event.converting.failure.handling.mode", default="warn", values=("warn", "fail", "skip")),
    Option("binary.handling.mode", default="bytes", values=("bytes", "base64", "hex", "base64-url-safe")),
    Option("interval.handling.mode", default="numeric", values=("string", "numeric")),
    Option("include.unknown.datatypes", "boolean", "false"),
    Option("column.propagate.source.type", "list", check=_patterns),
    Option("datatype.propagate.source.type", "list", check=_patterns),
    Option("include.schema.comments", "boolean", "false", documentation="Debezium does not read PostgreSQL's comments."),
    Option("unavailable.value.placeholder", default="__debezium_unavailable_value"),
    Option("provide.transaction.metadata", "boolean", "false"),
    Option("extended.headers.enabled", "boolean", "true"),
    Option("skipped.operations", "list", "t", check=_operations),
    Option("heartbeat.interval.ms", "int", "0", check=_not_negative),
    Option("status.update.interval.ms", "int", "10000", check=_not_negative),
    Option("xmin.fetch.interval.ms", "long", "0", values=("0",)),
    Option("errors.max.retries", "int", "-1"),
    Option("errors.retry.delay.initial.ms", "long", "300", check=_not_negative),
    Option("errors.retry.delay.max.ms", "long", "10000", check=_not_negative),
    Option("errors.tolerance", default="none", values=("none", "all"), documentation="all: what cannot be converted or transformed is left out."),
    Option("errors.log.enable", "boolean", "false"),
    Option("errors.deadletterqueue.topic.name", documentation="Where to keep what errors.tolerance=all leaves out; Kafka Connect has it for sinks only."),
    Option("exactly.once.support", default="requested", values=("requested", "required"), documentation="The worker's exactly.once.source.support decides; required refuses workers where it is not enabled."),
    Option("transaction.boundary", default="poll", values=("poll", "interval", "connector"), check=boundary_problem),
    Option("transaction.boundary.interval.ms", "long", check=_not_negative, documentation="Default: the worker's offset.flush.interval.ms; at most a quarter of transaction.timeout.ms."),
    Option("retriable.restart.connector.wait.ms", "long", "10000", check=_not_negative),
    Option("max.batch.size", "int", "2048", documentation="Batches follow what has arrived: accepted, without effect."),
    Option("max.queue.size", "int", "8192", documentation="The producer's queue is the only one: accepted, without effect."),
    Option("poll.interval.ms", "long", "500", documentation="Nothing is polled: accepted, without effect."),
    Option("topic.creation.default.partitions", "int", "-1"),
    Option("topic.creation.default.replication.factor", "int", "-1"),
    Option("tidings.receive.timeout.ms", "int", "300000", check=_not_negative),
    Option("tidings.schema.changes", "boolean", "false"),
    Option("tidings.streaming.mode", default="off", values=("off", "on", "parallel")),
    Option("tidings.streaming.memory.bytes", "int", "16777216", check=_not_negative),
    Option("tidings.two.phase", "boolean", "false"),
    Option(ON_LOSS, values=("fail", "snapshot", "incremental", "continue"), documentation="Default: as snapshot.mode says; incremental where tidings.wal.guard.drop is set."),
    Option(VOLUME, check=_size, documentation="The room for pg_wal on the database server, such as 100GB; for forecasts and percentages."),
    *(Option(f"{GUARD}{step}", check=_limit, documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.") for step in STEPS),
    Option(PAUSED_CONNECTORS, "list", check=_patterns, documentation="Connectors of this worker that rest from step pause on."),
    Option("key.converter", "class"),
    Option("value.converter", "class"),
    Option("header.converter", "class"),
    Option("transforms", "list"),
    Option("predicates", "list"),
    Option("config.action.reload", default="restart", values=("none", "restart")),
)  # fmt: skip
OPTIONS: Final = {option.name: option for option in _TABLE}

PRODUCER_OVERRIDE: Final = "producer.override."
SIGNAL_CONSUMER: Final = "signal.consumer."
TRANSFORM_PREFIXES: Final = ("transforms.", "predicates.")
PASS_THROUGH: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "topic.creation.",
    *TRANSFORM_PREFIXES,
    PRODUCER_OVERRIDE,
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
    "internal.",
    "notification.http.",
    "openlineage.",
)
DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_EXCLUSIVE: Final = (
    ("schema.include.list", "schema.exclude.list"),
    ("table.include.list", "table.exclude.list"),
    ("column.include.list", "column.exclude.list"),
    ("message.prefix.include.list", "message.prefix.exclude.list"),
)


_OF_FRAMEWORK: Final = frozenset(
    {
        *("name", "connector.class", "tasks.max", "key.converter", "value.converter", "header.converter"),
        *(
            "transforms",
            "predicates",
            "config.action.reload",
            "errors.retry.delay.max.ms",
            "topic.creation.groups",
        ),
    }
)
"""Options that Kafka Connect checks, in its own words, before it asks the connector."""


def _worded(name: str, problem: str, value: str = "") -> str:
    """A problem as Debezium words it, or Kafka Connect where it is first to check the option."""
    if name in _OF_FRAMEWORK:
        return f"Invalid value {value} for configuration {name}: {problem}"
    return f"The '{name}' value is invalid: {problem}"


def check_options(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with a connector's configuration, by option; empty when nothing is."""
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = _check_one(name, value)
        if problem is not None:
            problems.setdefault(name, []).append(problem)
    for option in _TABLE:
        if option.required and not config.get(option.name, "").strip():
            problems.setdefault(option.name, []).append(_worded(option.name, "A value is required"))
    if "plugin.name" not in config:
        problems.setdefault("plugin.name", []).append(
            "plugin.name defaults to decoderbufs, which is not implemented: set plugin.name to pgoutput"
        )
    for name, problem in _missing_partners(config):
        problems.setdefault(name, []).append(problem)
    try:
        select_overrides(config)
    except ValueError as error:
        problems.setdefault(OVERRIDES, []).append(f"{OVERRIDES} {error}")
    for name, problem in {
        **topic_option_problems(config),
        **topic_creation_problems(config),
        **wal_option_problems(config),
    }.items():
        problems.setdefault(name, []).append(problem)
    for name, found in check_transforms(config).items():
        problems.setdefault(name, []).extend(found)
    for include, exclude in _EXCLUSIVE:
        if config.get(include) and config.get(exclude):
            problems.setdefault(exclude, []).append(_worded(exclude, f'"{include}" is already specified'))
    return problems


def _missing_partners(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Options that mean nothing without another."""
    topic = "notification.sink.topic.name"
    if "sink" in config.get("notification.enabled.channels", "") and not config.get(topic):
        yield (
            topic,
            _worded(
                topic, "Notification topic name must be provided when kafka notification channel is enabled"
            ),
        )
    if config.get(DEAD_LETTERS) and config.get("errors.tolerance", "").strip().lower() != "all":
        yield DEAD_LETTERS, f"{DEAD_LETTERS} needs errors.tolerance=all"


def _check_one(name: str, value: str) -> str | None:
    option = OPTIONS.get(name)
    if option is not None:
        wrong = _check_value(option, value)
        return None if wrong is None else _worded(name, wrong, value)
    if name.startswith((PRODUCER_OVERRIDE, SIGNAL_CONSUMER)):
        unknown = unknown_settings([name.removeprefix(PRODUCER_OVERRIDE).removeprefix(SIGNAL_CONSUMER)])
        return f"{name} has no counterpart in librdkafka" if unknown else None
    if name.startswith(PREFIXES):
        return mapper_problem(name, value)
    if name.startswith(PASS_THROUGH):
        return None
    if name in FIXED:
        if value.strip().lower() == FIXED[name].lower():
            return None
        shown = FIXED[name] or "an empty value"
        return f"{name} is not implemented: the only value it takes here is {shown}"
    if is_refused(name):
        return f"{name} is an option of Debezium's that is not implemented here"
    near = difflib.get_close_matches(name, [*OPTIONS, *FIXED, *NOT_IMPLEMENTED], n=1, cutoff=0.5)
    return f"{name} is no option of this connector" + (f"; did you mean {near[0]}?" if near else "")


def _check_value(option: Option, value: str) -> str | None:
    value = value.strip()
    if option.required and not value:
        return None  # reported as missing
    framework = option.name in _OF_FRAMEWORK
    if option.kind in {"int", "long"} and value and not re.fullmatch(r"[+-]?\d+", value):
        if framework:
            return f"Not a number of type {option.kind.upper()}"
        return "An integer is expected" if option.kind == "int" else "A long value is expected"
    if option.kind == "boolean" and value.lower() not in {"true", "false"}:
        return (
            "Expected value to be either true or false"
            if framework
            else "Either 'true' or 'false' is expected"
        )
    if option.values and value.lower() not in {v.lower() for v in option.values}:
        kind = "String must be one of:" if framework else "Value must be one of"
        return f"{kind} {', '.join(option.values)}"
    return option.check(value) if option.check is not None and value else None


def is_refused(name: str) -> bool:
    """Whether an option is one of Debezium's that is not implemented: any value of it is refused."""
    return name in NOT_IMPLEMENTED or name.startswith(_NOT_IMPLEMENTED_PREFIXES)


def passwords(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` whose values are secret; a reference to a secret is none."""
    names = secret_options(config) | {name for name, value in config.items() if _URL_PASSWORD.search(value)}
    return frozenset(name for name in names if not is_reference(config[name]))


def secret_options(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` that are there for secrets."""
    custom = config.get("custom.sanitize.pattern", "").strip()
    own = java_pattern(custom) if custom and _java_pattern(custom) is None else None
    return frozenset(
        name
        for name in config
        if (own is not None and own.fullmatch(name))
        or (name in OPTIONS and OPTIONS[name].kind == "password")
        or _SECRET_NAME.search(name)
    )
