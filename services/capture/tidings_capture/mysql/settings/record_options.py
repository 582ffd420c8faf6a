"""Options about records: their topics, their names, their values."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.encoding.options import placeholder_bytes
from tidings_capture.cdc.option_table import (
    ADJUSTMENTS,
    CONVERTING_FAILURE,
    HEADERS,
    POLL_INTERVAL,
    QUEUE_SIZE,
    RESTART_WAIT,
    SOURCE_TYPES,
    STRATEGY,
    TAGS,
    TOPICS,
)
from tidings_capture.mysql.history.options import HISTORY, HISTORY_SERVERS, HISTORY_TOPIC
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_problem,
    refused_by,
    topic_name_problem,
)
from tidings_envelope.toast import UNAVAILABLE

_OTHER_PAGE: Final = "(debezium-compatibility.md#"
RECORDS: Final = (
    Option(
        "topic.prefix",
        required=True,
        check=topic_name_problem,
        documentation="The beginning of the names of topics and schemas, and the connector's logical name.",
    ),
    Option(
        "topic.delimiter",
        default=".",
        check=topic_name_problem,
        documentation="What stands between the parts of a topic's name.",
    ),
    Option(
        "topic.transaction",
        default="transaction",
        check=topic_name_problem,
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
        values=("adaptive_time_microseconds", "isostring", "microseconds", "nanoseconds", "connect"),
        documentation="What DATE, TIME and DATETIME become.",
        remark="`connect` and `isostring` have no place for a TIME that is negative or longer than a day, `nanoseconds` none for a year before 1678 or after 2262: see `event.converting.failure.handling.mode`.",
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
        documentation="topic.heartbeat.prefix counts: accepted, without effect.",
        remark="Accepted, without effect, as in Debezium: `topic.heartbeat.prefix` counts.",
    ),
    Option(
        "max.batch.size",
        "int",
        "2048",
        check=at_least_one_problem,
        documentation="After how many rows positions are looked after.",
    ),
    *ADJUSTMENTS,
    replace(STRATEGY, remark="`Schema` and `Default` are the same here: prefix, database and table."),
    *(replace(option, remark=option.remark.replace("(#", _OTHER_PAGE)) for option in TOPICS),
    Option(
        "heartbeat.action.query",
        documentation="SQL to run with each heartbeat; not while a snapshot of the connector has locked tables.",
        remark="A failure is logged, and the next heartbeat tries again.",
    ),
    HEADERS,
    *TAGS,
    Option(
        "include.schema.comments",
        "boolean",
        "false",
        documentation="Whether schemas have the comments of columns and tables.",
    ),
    *SOURCE_TYPES,
    replace(CONVERTING_FAILURE, remark="Null, where the column allows it; else the task stops."),
    QUEUE_SIZE,
    Option(
        "max.queue.size.in.bytes",
        "long",
        "0",
        documentation=QUEUE_SIZE.documentation,
        remark=QUEUE_SIZE.remark,
    ),
    POLL_INTERVAL,
    RESTART_WAIT,
    Option(
        "enable.time.adjuster",
        "boolean",
        "true",
        documentation="Years are told as the server has them: accepted, without effect.",
        remark="Accepted, without effect: years are told as the server has them.",
    ),
    *(
        Option(
            name,
            "int",
            default,
            documentation="Rows are read a few at a time always: accepted, without effect.",
            remark="Accepted, without effect: rows are read a few at a time always.",
        )
        for name, default in (
            ("binlog.buffer.size", "0"),
            ("min.row.count.to.stream.results", "1000"),
            ("query.fetch.size", "0"),
        )
    ),
)
