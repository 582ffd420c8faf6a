"""Kafka Connect's own options of sink connectors. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from tidings_connect.config.framework import (
    DEAD_LETTERS,
    FRAMEWORK_OPTIONS,
    PRODUCER_OVERRIDE,
    TRANSFORM_PREFIXES,
    check_options,
    override_problem,
)
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem
from tidings_connect.java.regex import JavaPattern, compile_java, regex_problem
from tidings_connect.kafka.consumer_settings import unknown_consumer_settings
from tidings_connect.transforms.chain import check_transforms

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topics.regex"
LETTERS: Final = DEAD_LETTERS
LETTERS_REPLICATION: Final = "errors.deadletterqueue.topic.replication.factor"
LETTERS_CONTEXT: Final = "errors.deadletterqueue.context.headers.enable"
LOG_RECORDS: Final = "errors.log.include.messages"
RETRY_TIMEOUT: Final = "errors.retry.timeout"
CONSUMER_OVERRIDE: Final = "consumer.override."
_PREFIXES: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    *TRANSFORM_PREFIXES,
    CONSUMER_OVERRIDE,
    PRODUCER_OVERRIDE,
)
_OF_SOURCES: Final = ("exactly.once.", "transaction.boundary", "topic.creation.", "offsets.storage.")
_TABLE: Final = (
    Option(TOPICS, "list", "", documentation="The topics to read, separated by commas."),
    Option(
        TOPICS_REGEX,
        "string",
        "",
        check=regex_problem,
        documentation="A regular expression of Java's: topics whose whole name it matches are read.",
    ),
    Option(
        "tasks.max.enforce",
        "boolean",
        "true",
        values=("true",),
        documentation="Whether more tasks than tasks.max are an error; always.",
    ),
    Option(
        LETTERS,
        "string",
        "",
        documentation="Where records go that cannot be read or written, with errors.tolerance=all; empty: nowhere.",
    ),
    Option(
        LETTERS_REPLICATION,
        "short",
        "3",
        check=at_least_one_problem,
        documentation="Of the topic of dead letters, where it is created.",
    ),
    Option(
        LETTERS_CONTEXT,
        "boolean",
        "false",
        documentation="Whether a dead letter's headers say where it comes from and what was wrong.",
    ),
    Option(
        LOG_RECORDS,
        "boolean",
        "false",
        documentation="Whether the log of a record that is left out has the record's timestamp too; never its values.",
    ),
    Option(
        RETRY_TIMEOUT,
        "long",
        "0",
        documentation="How long converters and transforms are tried again in place when what they need is away, such as the schema "
        "registry, in milliseconds, before the task fails and is started again; -1: without end. Less than max.poll.interval.ms.",
    ),
    replace(
        FRAMEWORK_OPTIONS["key.converter"],
        documentation="How bytes become keys; default: the worker's.",
    ),
    replace(
        FRAMEWORK_OPTIONS["value.converter"],
        documentation="How bytes become values; default: the worker's.",
    ),
)
SINK_OPTIONS: Final[Mapping[str, Option]] = {
    **{name: option for name, option in FRAMEWORK_OPTIONS.items() if not name.startswith(_OF_SOURCES)},
    **{option.name: option for option in _TABLE},
}


def sink_group(connector: str, config: Mapping[str, str]) -> str:
    """The consumer group of a sink: Kafka Connect's name for it, unless it is overridden."""
    return config.get(f"{CONSUMER_OVERRIDE}group.id", "").strip() or f"connect-{connector}"


def consumer_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """The settings of the consumer that a sink overrides, by Kafka's names."""
    return {
        name.removeprefix(CONSUMER_OVERRIDE): value
        for name, value in config.items()
        if name.startswith(CONSUMER_OVERRIDE)
    }


def topics_of(config: Mapping[str, str]) -> list[str]:
    """The topics that a configuration names."""
    return list(dict.fromkeys(filter(None, (part.strip() for part in config.get(TOPICS, "").split(",")))))


def topic_pattern(config: Mapping[str, str]) -> JavaPattern | None:
    """The expression that a configuration names; None where there is none."""
    text = config.get(TOPICS_REGEX, "").strip()
    return compile_java(text) if text else None


def check_sink(
    config: Mapping[str, str],
    options: Mapping[str, Option],
    of_framework: Collection[str] = SINK_OPTIONS.keys(),
) -> dict[str, list[str]]:
    """What is wrong with a sink's configuration, by option; empty when nothing is.

    Args:
        of_framework: the options whose problems are in Kafka Connect's words.
    """
    problems = check_options(config, options, _PREFIXES, _override_problem, of_framework)
    for name, found in (*_topic_problems(config).items(), *check_transforms(config).items()):
        problems.setdefault(name, []).extend(found)
    return problems


def _override_problem(name: str) -> str | None:
    if name.startswith(PRODUCER_OVERRIDE):
        return override_problem(name)
    if not name.startswith(CONSUMER_OVERRIDE):
        return None
    unknown = unknown_consumer_settings([name.removeprefix(CONSUMER_OVERRIDE)])
    return f"{name} has no counterpart in librdkafka" if unknown else None


def _topic_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """In the words of ``SinkConnectorConfig.validate``."""
    topics, pattern = topics_of(config), config.get(TOPICS_REGEX, "").strip()
    letters = config.get(LETTERS, "").strip()
    if topics and pattern:
        text = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
        return {TOPICS: [text], TOPICS_REGEX: [text]}
    if not topics and not pattern:
        text = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        return {TOPICS: [text], TOPICS_REGEX: [text]}
    if letters and letters in topics:
        text = (
            f"The DLQ topic '{letters}' may not be included in the list of topics (\"{TOPICS}\"={topics}) consumed by the"
            " connector"
        )
        return {TOPICS: [text]}
    if letters and pattern and regex_problem(pattern) is None and compile_java(pattern).fullmatch(letters):
        text = (
            f"The DLQ topic '{letters}' may not be matched by the regex (\"{TOPICS_REGEX}\"={pattern}) consumed by the"
            " connector"
        )
        return {TOPICS_REGEX: [text]}
    return {}
