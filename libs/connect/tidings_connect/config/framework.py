"""Kafka Connect's own options of source connectors: those that a connector has whatever its class."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from tidings_connect.config.exactly_once import boundary_problem
from tidings_connect.config.option import Option, value_problem, worded
from tidings_connect.config.option_checks import at_least_one_problem, not_negative_problem
from tidings_connect.kafka.settings import unknown_settings
from tidings_connect.kafka.topic_creation import topic_creation_problems
from tidings_connect.transforms.chain import check_transforms

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
PRODUCER_OVERRIDE: Final = "producer.override."
TRANSFORM_PREFIXES: Final = ("transforms.", "predicates.")
FRAMEWORK_PREFIXES: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "topic.creation.",
    *TRANSFORM_PREFIXES,
    PRODUCER_OVERRIDE,
)
"""Prefixes whose options belong to a converter, a topic, a transform or the producer."""

_TABLE: Final = (
    Option("name"),
    Option("connector.class", "class", required=True),
    Option("tasks.max", "int", "1", check=at_least_one_problem),
    Option("errors.max.retries", "int", "-1"),
    Option("errors.retry.delay.initial.ms", "long", "300", check=not_negative_problem),
    Option("errors.retry.delay.max.ms", "long", "10000", check=not_negative_problem),
    Option("errors.tolerance", default="none", values=("none", "all"), documentation="all: what cannot be converted or transformed is left out."),
    Option("errors.log.enable", "boolean", "false"),
    Option("exactly.once.support", default="requested", values=("requested", "required"), documentation="The worker's exactly.once.source.support decides; required refuses workers where it is not enabled."),
    Option("transaction.boundary", default="poll", values=("poll", "interval", "connector"), check=boundary_problem),
    Option("transaction.boundary.interval.ms", "long", check=not_negative_problem, documentation="Default: the worker's offset.flush.interval.ms; at most a quarter of transaction.timeout.ms."),
    Option("topic.creation.default.partitions", "int", "-1"),
    Option("topic.creation.default.replication.factor", "int", "-1"),
    Option("key.converter", "class"),
    Option("value.converter", "class"),
    Option("header.converter", "class"),
    Option("transforms", "list"),
    Option("predicates", "list"),
    Option("config.action.reload", default="restart", values=("none", "restart")),
)  # fmt: skip
FRAMEWORK_OPTIONS: Final = {option.name: option for option in _TABLE}

FRAMEWORK_TEXTS: Final = {
    "name": "The connector's name, unique in its group of workers.",
    "connector.class": "The class of the connector.",
    "connector.plugin.version": "The version of the connector; there is one.",
    "key.converter": "How keys become bytes; default: the worker's.",
    "key.converter.plugin.version": "The version of the key's converter.",
    "value.converter": "How values become bytes; default: the worker's.",
    "value.converter.plugin.version": "The version of the value's converter.",
    "header.converter": "How header values become bytes.",
    "header.converter.plugin.version": "The version of the headers' converter.",
    "transforms": "Names of the transforms that each record goes through, in order.",
    "predicates": "Names of the predicates that transforms can ask.",
    "config.action.reload": "What happens when a secret that a config provider gave has changed.",
    "errors.retry.timeout": "How long a failed step of a record is tried again, in milliseconds.",
    "errors.retry.delay.max.ms": "The longest pause between two attempts, in milliseconds.",
    "errors.tolerance": "Whether a record that fails is left out (all) or ends the task (none).",
    "errors.log.enable": "Whether each failure of a record is logged.",
    "errors.log.include.messages": "Whether the log of a failure holds the record.",
    "topic.creation.groups": "Groups of topics that are created with settings of their own.",
    "exactly.once.support": "Whether the connector insists on exactly once (required); the worker's setting decides.",
    "transaction.boundary": "When a Kafka transaction ends, with exactly once.",
    "transaction.boundary.interval.ms": "How long a Kafka transaction lasts where the boundary is interval, in milliseconds.",
    "offsets.storage.topic": "A topic for the connector's offsets apart from the worker's.",
}
"""What they mean, in a sentence each."""


def check_framework(config: Mapping[str, str], options: Mapping[str, Option]) -> dict[str, list[str]]:
    """What is wrong with a configuration whose options are all in a table, by option; empty when nothing is."""
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = _problem(name, value, options)
        if problem is not None:
            problems.setdefault(name, []).append(problem)
    for option in options.values():
        if option.required and not config.get(option.name, "").strip():
            problems.setdefault(option.name, []).append(worded(option.name, "A value is required"))
    for name, texts in common_problems(config).items():
        problems.setdefault(name, []).extend(texts)
    return problems


def common_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the options of topic creation and of transforms, by option."""
    problems = {name: [problem] for name, problem in topic_creation_problems(config).items()}
    for name, found in check_transforms(config).items():
        problems.setdefault(name, []).extend(found)
    return problems


def _problem(name: str, value: str, options: Mapping[str, Option]) -> str | None:
    option = options.get(name)
    if option is not None:
        wrong = value_problem(option, value)
        return None if wrong is None else worded(name, wrong, value)
    if name.startswith(PRODUCER_OVERRIDE):
        return override_problem(name)
    return None if name.startswith(FRAMEWORK_PREFIXES) else unknown_option(name, options)


def override_problem(name: str) -> str | None:
    """What is wrong with the name of a client's setting that a connector overrides."""
    setting = name.partition(".override.")[2] or name.partition(".consumer.")[2]
    return f"{name} has no counterpart in librdkafka" if unknown_settings([setting]) else None


def unknown_option(name: str, known: Iterable[str]) -> str:
    """What is said of an option that nobody knows."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"{name} is no option of this connector" + (f"; did you mean {near[0]}?" if near else "")
