"""Options that connectors of every database have, by subject: each one's name, type, default, check and documentation."""

from collections.abc import Iterator, Mapping
from typing import Final

from tidings_capture.cdc.filters import compile_list
from tidings_capture.cdc.naming import SCHEMA_STRATEGY, STRATEGIES, NameAdjustment
from tidings_connect.config.metric_tags import OPTION as METRIC_TAGS
from tidings_connect.config.metric_tags import problem as metric_tags_problem
from tidings_connect.config.option import Family, Option, worded
from tidings_connect.config.option_checks import (
    java_pattern_problem,
    positive_long_problem,
    positive_problem,
    refused_by,
    topic_name_problem,
)

patterns_problem: Final = refused_by(
    compile_list, "A comma-separated list of valid regular expressions is expected, but "
)

ADJUSTMENTS: Final = (
    Option(
        "schema.name.adjustment.mode",
        default="none",
        values=tuple(NameAdjustment),
        documentation="How schema names are made fit for the converter.",
    ),
    Option(
        "field.name.adjustment.mode",
        default="none",
        values=tuple(NameAdjustment),
        documentation="How field names are made fit for the converter.",
        remark="`none` is `avro` where the connector's own converter is Avro's.",
    ),
)
STRATEGY: Final = Option(
    "topic.naming.strategy",
    "class",
    SCHEMA_STRATEGY,
    values=STRATEGIES,
    documentation="How topics are named.",
    form="Debezium's six: `Schema` or `Default`, then nothing, `Regex` or `Unicode`, then `TopicNamingStrategy`",
)
TOPICS: Final = (
    Option(
        "topic.heartbeat.prefix",
        default="__debezium-heartbeat",
        check=topic_name_problem,
        documentation="What the heartbeat topic's name begins with.",
    ),
    Option(
        "topic.heartbeat.name",
        check=topic_name_problem,
        documentation="The heartbeat topic's whole name, in place of prefix and topic.prefix.",
    ),
    Option(
        "topic.cache.size",
        "int",
        "10000",
        documentation="Names are kept per table: accepted, without effect.",
        remark="Accepted, without effect: names are kept per table.",
    ),
    Option(
        "topic.regex",
        remark="With a strategy of regular expressions; see [Regular expressions](#regular-expressions).",
        documentation="With a strategy of regular expressions: which topics are renamed.",
    ),
    Option(
        "topic.replacement",
        documentation="With a strategy of regular expressions: their new name, with groups as $1.",
    ),
    Option(
        "topic.key.enforce.uniqueness",
        "boolean",
        "true",
        documentation="With a strategy of regular expressions: whether keys get a field that tells the tables of one topic apart.",
    ),
    Option(
        "topic.key.field.name",
        default="__dbz__physicalTableIdentifier",
        documentation="The name of that field.",
    ),
    Option(
        "topic.key.field.regex",
        documentation="Which part of the table's topic the field holds, as a regular expression.",
    ),
    Option("topic.key.field.replacement", documentation="The field's value, with groups as $1."),
)
TAGS: Final = (
    Option(
        METRIC_TAGS,
        check=metric_tags_problem,
        remark="Labels on the connector's `debezium_metrics_*` and `tidings_capture_*`; a name that is not a label of Prometheus is refused.",
        form="`name=value` pairs",
        documentation="Labels of the connector's metrics.",
    ),
    Option(
        "custom.sanitize.pattern",
        check=java_pattern_problem,
        documentation="A regular expression of option names whose values are hidden in logs and answers.",
        remark="Options whose names match are hidden in the REST API's answers as well.",
    ),
)
HEADERS: Final = Option(
    "extended.headers.enabled",
    "boolean",
    "true",
    documentation="Whether records carry headers that say the connector and the run.",
)
SKIP_UNCHANGED: Final = Option(
    "skip.messages.without.change",
    "boolean",
    "false",
    documentation="Leave out updates in which no captured column has changed.",
)
SOURCE_TYPES: Final = (
    Option(
        "column.propagate.source.type",
        "list",
        check=patterns_problem,
        documentation="Columns whose schema also says their type in the database.",
    ),
    Option(
        "datatype.propagate.source.type",
        "list",
        check=patterns_problem,
        documentation="Types whose columns' schemas also say the type in the database.",
    ),
)
MASKS: Final = (
    Family(
        "column.mask.with.<length>.chars",
        "column.mask.with.(d+).chars",
        documentation="Columns whose text is replaced by that many asterisks.",
        remark="As many asterisks for text and enums, for nulls too. Of several rules for one column the first of this order "
        "counts: truncate, mask, hash, and then a source type is not told. Debezium tells it, and does not hash.",
    ),
    Family(
        "column.mask.hash.<algorithm>.with.salt.<salt>",
        "column.mask.hash.([^.]+).with.salt.(.+)",
        documentation="Columns whose text is replaced by a salted hash.",
        remark="MD5, SHA-1, SHA-2 and SHA-3 by Java's names. Keys are never masked.",
    ),
    Family(
        "column.mask.hash.v2.<algorithm>.with.salt.<salt>",
        documentation="The same, by a better hash.",
        remark="The value's own UTF-8 is hashed.",
    ),
    Family(
        "column.truncate.to.<length>.chars",
        "column.truncate.to.(d+).chars",
        documentation="Columns whose text is cut to that many characters.",
        remark="Text and bytes.",
    ),
)
CONVERTING_FAILURE: Final = Option(
    "event.converting.failure.handling.mode",
    default="warn",
    values=("warn", "fail", "skip"),
    documentation="What happens with a value that cannot be converted.",
)
RESTART_WAIT: Final = Option(
    "retriable.restart.connector.wait.ms",
    "long",
    "10000",
    check=positive_long_problem,
    documentation="How long to wait before a task is started again after an error that may pass, in milliseconds.",
    remark="Accepted; `errors.retry.delay.*` decide.",
)
POLL_INTERVAL: Final = Option(
    "poll.interval.ms",
    "long",
    "500",
    check=positive_problem,
    documentation="Nothing is polled: accepted, without effect.",
    remark="Accepted, without effect: nothing is polled.",
)
QUEUE_SIZE: Final = Option(
    "max.queue.size",
    "int",
    "8192",
    check=lambda value: None if int(value) >= 1 else "A positive queue size is required",
    documentation="The producer's queue is the only one: accepted, without effect.",
    remark="Accepted, without effect: the producer's queue is the only one (`producer.override.buffer.memory`).",
)


def queue_problems(config: Mapping[str, str], options: Mapping[str, Option]) -> Iterator[tuple[str, str]]:
    """A queue that could not hold a batch."""
    queue, batch = QUEUE_SIZE.name, "max.batch.size"
    sizes = [config.get(name) or options[name].default or "" for name in (queue, batch)]
    if all(size.isdigit() for size in sizes) and int(sizes[0]) <= int(sizes[1]):
        yield queue, worded(queue, "Must be larger than the maximum batch size")
