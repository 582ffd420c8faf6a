"""The options of source transactions, for any sink that can write several records at once. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem, not_negative_long_problem
from tidings_connect.config.sink_options import TOPICS_REGEX, topic_pattern, topics_of

TRANSACTIONS: Final = "tidings.transactions"
TOPIC: Final = "tidings.transactions.topic"
COLLECTIONS: Final = "tidings.transactions.collections"
BUFFER: Final = "tidings.transactions.buffer.bytes"
DISK: Final = "tidings.transactions.disk.bytes"
WAIT: Final = "tidings.transactions.wait.ms"
INCOMPLETE: Final = "tidings.transactions.incomplete"
SUFFIX: Final = ".transaction"
"""Of the topic's name, behind the prefix of the connector."""
POSITION: Final = -1
"""The partition of the transaction topic whose offset, among those that a target keeps, is the position of the last
transaction that was written."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
"""What Debezium makes an underscore in a topic's name."""
OPTIONS: Final = (
    Option(
        TRANSACTIONS,
        default="none",
        values=("none", "source"),
        documentation="Whether the changes of one transaction of the source become visible at once (source); then one task reads all partitions.",
    ),
    Option(
        TOPIC,
        default="",
        documentation="The transaction topic of the source's connector, which has to be among the topics that are read; empty: the one of them that ends in .transaction.",
    ),
    Option(
        COLLECTIONS,
        "list",
        "",
        documentation="The collections, as the transaction topic names them (schema.table, database.table), whose rows come by the topics that are read; empty: those whose topic is <prefix>.<collection>.",
    ),
    Option(
        BUFFER,
        "long",
        str(64 << 20),
        check=at_least_one_problem,
        documentation="The memory, in bytes, that rows of incomplete transactions may take, about; more are kept on disk.",
    ),
    Option(
        DISK,
        "long",
        str(10 << 30),
        check=not_negative_long_problem,
        documentation="The bytes on disk, in the directory of temporary files, that rows of incomplete transactions may take; beyond it the task fails.",
    ),
    Option(
        WAIT,
        "long",
        "60000",
        check=not_negative_long_problem,
        documentation="How long after its end a transaction may lack rows, although all partitions were read to their ends, in milliseconds.",
    ),
    Option(
        INCOMPLETE,
        default="fail",
        values=("fail", "write"),
        documentation="What becomes of a transaction whose rows or whose end are gone for good: the task fails, or what is there of it is written.",
    ),
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """What a configuration says."""

    topic: str
    counts: Callable[[str], bool]
    """Whether the rows of a collection come by the topics that are read."""
    carries: Callable[[str, str], bool]
    """Whether a topic may have rows of a collection."""
    buffer_bytes: int
    disk_bytes: int
    wait_seconds: float
    writes_incomplete: bool


def _value(config: Mapping[str, str], name: str) -> str:
    return config.get(name, "").strip() or _BY_NAME[name].default or ""


def is_wanted(config: Mapping[str, str]) -> bool:
    """Whether source transactions are kept together."""
    return _value(config, TRANSACTIONS).lower() == "source"


def read_transaction_settings(config: Mapping[str, str]) -> TransactionSettings | None:
    """What a configuration without problems says; None where transactions are not kept together."""
    if not is_wanted(config):
        return None
    topic, named, reads = _topic(config), _collections(config), _reads(config)

    def topic_of(collection: str) -> str:
        return f"{topic.removesuffix(SUFFIX)}.{_ODD.sub('_', collection)}"

    return TransactionSettings(
        topic,
        named.__contains__ if named else lambda collection: reads(topic_of(collection)),
        (lambda name, _: name != topic) if named else lambda name, collection: name == topic_of(collection),
        int(_value(config, BUFFER)),
        int(_value(config, DISK)),
        int(_value(config, WAIT)) / 1000,
        _value(config, INCOMPLETE).lower() == "write",
    )


def check_transactions(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the options that are right one by one, by option."""
    if not is_wanted(config):
        return {}
    topic = _topic(config)
    if not topic:
        text = "name the transaction topic: none of the topics ends in .transaction, or several do"
        return {TOPIC: [f"The '{TOPIC}' value is invalid: {text}"]}
    if not _reads(config)(topic):
        text = f"{topic} has to be among the topics that are read: add it to topics, or to topics.regex"
        return {TOPIC: [f"The '{TOPIC}' value is invalid: {text}"]}
    if not topic.endswith(SUFFIX) and not _collections(config):
        text = f"needed, because {topic} does not end in .transaction, so that nothing says which topic a collection has"
        return {COLLECTIONS: [f"The '{COLLECTIONS}' value is invalid: {text}"]}
    return {}


def _topic(config: Mapping[str, str]) -> str:
    named = _value(config, TOPIC)
    found = [topic for topic in topics_of(config) if topic.endswith(SUFFIX)]
    return named or (found[0] if len(found) == 1 else "")


def _collections(config: Mapping[str, str]) -> frozenset[str]:
    return frozenset(filter(None, (part.strip() for part in _value(config, COLLECTIONS).split(","))))


def _reads(config: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether a topic is read."""
    if config.get(TOPICS_REGEX, "").strip():
        pattern = topic_pattern(config)
        assert pattern is not None
        return pattern.matches
    return frozenset(topics_of(config)).__contains__
