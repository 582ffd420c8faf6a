"""Options about topics: their names, their creation, and the records beside those of rows."""

from typing import Final

from tidings_capture.cdc.naming import SCHEMA_STRATEGY, STRATEGIES, NameAdjustment
from tidings_capture.postgres.settings.option_checks import topic_prefix_problem
from tidings_connect.config.metric_tags import OPTION as METRIC_TAGS
from tidings_connect.config.metric_tags import problem as metric_tags_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import java_pattern_problem, not_negative_problem

OPTIONS: Final = (
    Option(
        "topic.prefix",
        required=True,
        check=topic_prefix_problem,
        documentation="What the names of all topics begin with; also the connector's name in offsets and events.",
    ),
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
    Option(
        "topic.naming.strategy",
        "class",
        SCHEMA_STRATEGY,
        values=STRATEGIES,
        documentation="How topics are named.",
        remark="With `Default` the schema is not in the topic's name: tables of one name in two schemas share a topic.",
        form="Debezium's six: `Schema` or `Default`, then nothing, `Regex` or `Unicode`, then `TopicNamingStrategy`",
    ),
    Option(
        "topic.delimiter",
        default=".",
        check=topic_prefix_problem,
        documentation="What stands between the parts of a topic's name.",
    ),
    Option(
        "topic.transaction",
        default="transaction",
        check=topic_prefix_problem,
        documentation="The transaction topic's name behind the prefix.",
    ),
    Option(
        "topic.heartbeat.prefix",
        default="__debezium-heartbeat",
        check=topic_prefix_problem,
        documentation="What the heartbeat topic's name begins with.",
    ),
    Option(
        "topic.heartbeat.name",
        check=topic_prefix_problem,
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
    Option(
        "topic.creation.groups",
        "list",
        documentation="Groups of topics that are created with settings of their own.",
        remark="And `topic.creation.<group>.include`, `.exclude`, `.partitions`, `.replication.factor` and settings of topics.",
    ),
    Option(
        "heartbeat.action.query",
        documentation="SQL to run with each heartbeat, for example an update that keeps the slot moving.",
        remark="A failure is logged, and the next heartbeat tries again.",
    ),
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
    Option(
        "tombstones.on.delete",
        "boolean",
        "true",
        documentation="Whether a record with a null value follows each delete, so that compaction can forget the key.",
    ),
    Option(
        "provide.transaction.metadata",
        "boolean",
        "false",
        documentation="Whether events say their transaction, and a topic tells where transactions begin and end.",
    ),
    Option(
        "extended.headers.enabled",
        "boolean",
        "true",
        documentation="Whether records carry headers that say the connector and the run.",
    ),
    Option(
        "heartbeat.interval.ms",
        "int",
        "0",
        check=not_negative_problem,
        documentation="How often a heartbeat is sent, in milliseconds; 0: never.",
    ),
)
