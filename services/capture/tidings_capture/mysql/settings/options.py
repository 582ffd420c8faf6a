"""The options of MariaDB's connector: those that are obeyed, those that take one value, and those that are refused by name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidings_capture.cdc.encoding.options import placeholder_bytes
from tidings_capture.cdc.filters import compile_keys, compile_list
from tidings_capture.cdc.naming import SCHEMA_STRATEGY
from tidings_capture.cdc.signals.option_table import OPTIONS as SIGNALS
from tidings_capture.cdc.signals.option_table import missing_partners
from tidings_capture.cdc.signals.options import SIGNAL_CONSUMER
from tidings_capture.cdc.snapshots.options import OVERRIDES, select_overrides
from tidings_capture.cdc.tls import MODES as TLS_MODES
from tidings_capture.mysql.history.options import (
    HISTORY,
    HISTORY_CLASS,
    HISTORY_SERVERS,
    HISTORY_TOPIC,
    history_problems,
)
from tidings_capture.mysql.settings.snapshot_option_table import SNAPSHOTS
from tidings_connect.config.framework import override_problem, unknown_option
from tidings_connect.config.option import Option, Passed, worded
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_problem,
    port_problem,
    refused_by,
)
from tidings_envelope.toast import UNAVAILABLE

_list_problem = refused_by(compile_list, "is ")
_key_problem = refused_by(compile_keys, "is ")


def _server_id_problem(value: str) -> str | None:
    return None if 0 < int(value) < 1 << 32 else "A number from 1 to 4294967295 is expected"


def _skipped_problem(value: str) -> str | None:
    parts = {part.strip().lower() for part in value.split(",") if part.strip()}
    if not parts <= {"c", "u", "d", "t", "none"}:
        return "takes c, u, d, t and none here"
    return "must not hold none beside others" if "none" in parts and len(parts) > 1 else None


_SIGNALS: Final = tuple(
    replace(option, documentation="The table that signals are written to, database.table.")
    if option.name == "signal.data.collection"
    else option
    for option in SIGNALS
)
SECTIONS: Final[Mapping[str, tuple[Option, ...]]] = {
    "The server": (
        Option("database.hostname", required=True, documentation="The server's name or address."),
        Option("database.port", "int", "3306", check=port_problem, documentation="The server's port."),
        Option("database.user", required=True, documentation="The user."),
        Option("database.password", "password", documentation="Its password."),
        Option(
            "database.server.id",
            "long",
            check=_server_id_problem,
            default_text="a random one",
            documentation="The number under which the connector reads the log, as a replica would; no other replica may have it.",
        ),
        Option(
            "database.ssl.mode",
            default="disable",
            values=TLS_MODES,
            documentation="Whether connections are encrypted, and the server's certificate is checked.",
            remark="Certificates are checked against the system's authorities, or those of the file that the environment names as `SSL_CERT_FILE`.",
        ),
        Option(
            "connect.timeout.ms",
            "int",
            "30000",
            check=at_least_one_problem,
            documentation="How long a connection may take to be made, in milliseconds.",
        ),
    ),
    "What is captured": (
        Option(
            "database.include.list", "list", check=_list_problem, documentation="Databases that are captured."
        ),
        Option(
            "database.exclude.list",
            "list",
            check=_list_problem,
            documentation="Databases that are not captured.",
        ),
        Option(
            "table.include.list",
            "list",
            check=_list_problem,
            documentation="Tables that are captured, as database.table.",
        ),
        Option(
            "table.exclude.list", "list", check=_list_problem, documentation="Tables that are not captured."
        ),
        Option(
            "column.include.list",
            "list",
            check=_list_problem,
            documentation="Columns that values have, as database.table.column.",
        ),
        Option(
            "column.exclude.list",
            "list",
            check=_list_problem,
            documentation="Columns that values do not have.",
        ),
        Option(
            "message.key.columns",
            check=_key_problem,
            documentation="The columns of keys in place of the primary key's, as database.table:column,column;...",
        ),
        Option(
            "skipped.operations",
            "list",
            "t",
            check=_skipped_problem,
            documentation="Operations that are left out: c, u, d, t (TRUNCATE); or none.",
        ),
    ),
    "Snapshots": SNAPSHOTS,
    "Signals and notifications": _SIGNALS,
    "Records": (
        Option(
            "topic.prefix",
            required=True,
            documentation="The beginning of the names of topics and schemas, and the connector's logical name.",
        ),
        Option(
            "topic.delimiter", default=".", documentation="What stands between the parts of a topic's name."
        ),
        Option(
            "topic.transaction",
            default="transaction",
            documentation="The end of the name of the topic of transactions.",
        ),
        Option(
            "decimal.handling.mode",
            default="precise",
            values=("precise", "string", "double"),
            documentation="What DECIMAL becomes.",
        ),
        Option(
            "bigint.unsigned.handling.mode",
            default="long",
            values=("long", "precise"),
            documentation="What BIGINT UNSIGNED becomes: a long, which is negative above 9223372036854775807, or a Decimal.",
        ),
        Option(
            "time.precision.mode",
            default="adaptive_time_microseconds",
            values=("adaptive_time_microseconds", "connect"),
            documentation="What DATE, TIME and DATETIME become.",
        ),
        Option(
            "binary.handling.mode",
            default="bytes",
            values=("bytes", "base64", "base64-url-safe", "hex"),
            documentation="What binary columns become.",
        ),
        Option(
            "unavailable.value.placeholder",
            default=UNAVAILABLE,
            check=refused_by(placeholder_bytes, "is not a placeholder: "),
            documentation="What stands for a text or bytes that the log does not tell.",
            remark="See [row images](#row-images).",
        ),
        Option(
            "tombstones.on.delete",
            "boolean",
            "true",
            documentation="Whether a delete is followed by a tombstone.",
        ),
        Option(
            "include.schema.changes",
            "boolean",
            "true",
            documentation="Whether definitions (DDL), and the tables behind them, are written to the topic that is named as the prefix.",
            remark="See [schema changes](#schema-changes).",
        ),
        Option(
            HISTORY_TOPIC,
            documentation="The topic of Debezium's schema history, which is written, and read where the log does not name columns; without one Debezium has to make it anew.",
            remark="See [moving](#moving-from-debezium-and-back).",
        ),
        Option(
            HISTORY_SERVERS,
            documentation="The brokers of that topic, as host:port,host:port; their logins stand below `schema.history.internal.producer.` and `.consumer.`.",
        ),
        Option(
            f"{HISTORY}.store.only.captured.tables.ddl",
            "boolean",
            "false",
            documentation="Whether history and topic of schema changes tell of captured tables only.",
        ),
        Option(
            f"{HISTORY}.store.only.captured.databases.ddl",
            "boolean",
            "false",
            documentation="Whether they tell of captured databases only; else of all that the user may see.",
        ),
        Option(
            "include.query",
            "boolean",
            "false",
            documentation="Whether records tell the statement; it may hold values.",
            remark="`binlog_annotate_row_events` must be on at the server.",
        ),
        Option(
            "provide.transaction.metadata",
            "boolean",
            "false",
            documentation="Whether transactions are numbered, and have a topic of their own.",
        ),
        Option(
            "heartbeat.interval.ms",
            "int",
            "0",
            check=not_negative_problem,
            documentation="How often a heartbeat is written, in milliseconds; 0: never.",
        ),
        Option(
            "heartbeat.topics.prefix",
            default="__debezium-heartbeat",
            documentation="The beginning of the name of the heartbeats' topic.",
        ),
        Option(
            "max.batch.size",
            "int",
            "2048",
            check=at_least_one_problem,
            documentation="After how many rows positions are looked after.",
        ),
    ),
}
FIXED: Final = (
    Option(HISTORY, "class", only=HISTORY_CLASS),
    Option("topic.naming.strategy", "class", only=SCHEMA_STRATEGY),
    Option("snapshot.query.mode", only="select_all"),
    Option("schema.name.adjustment.mode", only="none"),
    Option("field.name.adjustment.mode", only="none"),
    Option("event.processing.failure.handling.mode", only="fail"),
    Option("event.deserialization.failure.handling.mode", only="fail"),
    Option("inconsistent.schema.handling.mode", only="fail"),
    Option("enable.time.adjuster", "boolean", only="true"),
    Option("table.ignore.builtin", "boolean", only="true"),
    Option("extended.headers.enabled", "boolean", only="true"),
)
REFUSED: Final = (
    "database.query.timeout.ms", "database.initial.statements", "database.server.id.offset", "database.ssl.keystore",
    "database.ssl.keystore.password", "database.ssl.truststore", "database.ssl.truststore.password", "max.queue.size",
    "max.queue.size.in.bytes", "poll.interval.ms", "snapshot.max.threads.multiplier",
    "snapshot.mode.custom.name", "retriable.restart.connector.wait.ms", "query.fetch.size",
    "connection.validation.timeout.ms", "executor.shutdown.timeout.ms",
    "guardrail.collections.max", "guardrail.collections.limit.action", "custom.sanitize.pattern",
    "connect.keep.alive", "connect.keep.alive.interval.ms", "use.nongraceful.disconnect", "binlog.net.write.timeout",
    "binlog.net.read.timeout", "snapshot.query.mode.custom.name", "min.row.count.to.stream.results",
    "converters", "post.processors", "transaction.metadata.factory", "custom.metric.tags",
    "include.schema.comments", "column.propagate.source.type",
    "datatype.propagate.source.type", "heartbeat.action.query", "binlog.buffer.size",
    "gtid.source.filter.dml.events", "gtid.source.includes", "gtid.source.excludes", "sourceinfo.struct.maker",
    "topic.heartbeat.name", "topic.heartbeat.prefix", "topic.cache.size", "event.converting.failure.handling.mode",
    "skip.messages.without.change",
)  # fmt: skip
REFUSED_PREFIXES: Final = (
    "column.mask.", "column.truncate.", "openlineage.", "internal.", "driver.", "post.processors.",
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
OBEYED: Final = tuple(option for options in SECTIONS.values() for option in options)
_OBEYED: Final = frozenset(option.name for option in OBEYED)
_FIXED: Final = {option.name: option for option in FIXED}
_EXCLUSIVE: Final = (
    ("database.include.list", "database.exclude.list"),
    ("table.include.list", "table.exclude.list"),
    ("column.include.list", "column.exclude.list"),
)


def own_problem(name: str, value: str) -> str | None:
    """What is wrong with an option that is not obeyed; None: nothing, or it is none of ours."""
    if name in _FIXED:
        only = _FIXED[name].only or ""
        if value.strip().lower() == only.lower():
            return None
        return f"{name} is not implemented: the only value it takes here is {only}"
    if name.startswith(SIGNAL_CONSUMER):
        return override_problem(name)
    if name in REFUSED or name.startswith(REFUSED_PREFIXES):
        return f"{name} is an option of Debezium's that is not implemented here"
    return None


def is_ours(name: str) -> bool:
    """Whether an option is Debezium's, and taken care of here."""
    if name in _OBEYED:
        return False
    handed_on = (HISTORY, SIGNAL_CONSUMER, f"{OVERRIDES}.")
    return name in _FIXED or name in REFUSED or name.startswith((*REFUSED_PREFIXES, *handed_on))


def own_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with options beside those that are obeyed, and with those that do not go together."""
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = own_problem(name, value)
        if problem is not None:
            problems[name] = [problem]
    problems |= history_problems(config)
    for name, problem in missing_partners(config):
        problems.setdefault(name, []).append(problem)
    try:
        select_overrides(config)
    except ValueError as error:
        problems.setdefault(OVERRIDES, []).append(worded(OVERRIDES, str(error)))
    for include, exclude in _EXCLUSIVE:
        if config.get(include) and config.get(exclude):
            problems.setdefault(exclude, []).append(worded(exclude, f'"{include}" is already specified'))
    return problems


def unknown(name: str) -> str:
    """An option that nobody knows."""
    return unknown_option(name, [option.name for option in OBEYED] + list(_FIXED))
