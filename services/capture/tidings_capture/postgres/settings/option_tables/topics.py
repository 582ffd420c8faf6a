"""Options about topics: their names, their creation, and the records beside those of rows."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.option_table import ADJUSTMENTS, HEADERS, STRATEGY, TAGS, TOPICS
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import not_negative_problem, topic_name_problem

OPTIONS: Final = (
    Option(
        "topic.prefix",
        required=True,
        check=topic_name_problem,
        documentation="What the names of all topics begin with; also the connector's name in offsets and events.",
    ),
    *ADJUSTMENTS,
    replace(
        STRATEGY,
        remark="With `Default` the schema is not in the topic's name: tables of one name in two schemas share a topic.",
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
        documentation="The transaction topic's name behind the prefix.",
    ),
    *TOPICS,
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
    *TAGS,
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
    HEADERS,
    Option(
        "heartbeat.interval.ms",
        "int",
        "0",
        check=not_negative_problem,
        documentation="How often a heartbeat is sent, in milliseconds; 0: never.",
    ),
)
