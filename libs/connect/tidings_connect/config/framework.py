"""Kafka Connect's own options of source connectors: those that a connector has whatever its class."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from tidings_connect.config.exactly_once import boundary_problem
from tidings_connect.config.option import OF_FRAMEWORK, Option, Passed, value_problem, worded
from tidings_connect.config.option_checks import at_least_one_problem, not_negative_problem
from tidings_connect.kafka.settings import unknown_settings
from tidings_connect.kafka.topic_creation import topic_creation_problems
from tidings_connect.transforms.chain import check_transforms

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
PRODUCER_OVERRIDE: Final = "producer.override."
_HIDDEN: Final = "[hidden]"
"""What Kafka Connect shows in place of a password."""
TRANSFORM_PREFIXES: Final = ("transforms.", "predicates.")
_TRANSFORM: Final = "the transform or predicate of that alias, which refuses by name what it does not know; see [transforms.md](transforms.md)"
FRAMEWORK_TARGETS: Final = (
    Passed(
        "key.converter.",
        "the converter of keys: `org.apache.kafka.connect.json.JsonConverter`, `io.confluent.connect.avro.AvroConverter` or "
        "`io.apicurio.registry.utils.converter.AvroConverter`; it refuses by name what it does not know",
    ),
    Passed(
        "value.converter.",
        "the converter of values, one of the same. **A null of a column that has a default is written as the default**, as Kafka "
        "Connect does, unless `value.converter.replace.null.with.default=false` (JSON) or "
        "`value.converter.ignore.default.for.nullables=true` (Avro: Confluent's from 7.3 on, and here Apicurio's too)",
    ),
    Passed("header.converter.", "accepted, without effect"),
    Passed("topic.creation.", "the new topics' configuration (`cleanup.policy` and so on)"),
    Passed("transforms.", _TRANSFORM),
    Passed("predicates.", _TRANSFORM),
    Passed(
        PRODUCER_OVERRIDE,
        "the producer; a setting of Kafka's Java producer that librdkafka has no counterpart of is refused. `max.in.flight.requests.per.connection` is 1, as in Kafka Connect: with more, librdkafka may report a producer's first records in a partition as delivered that its new leader refused (`python -m tests.faults.new_topics --in-flight 5`). Records wait for others for at most 25 ms, and while PostgreSQL sends few at a time only until the request before them is acknowledged; `producer.override.linger.ms` sets one time for both",
    ),
)
FRAMEWORK_PREFIXES: Final = tuple(target.prefix for target in FRAMEWORK_TARGETS)
"""Prefixes whose options belong to a converter, a topic, a transform or the producer."""

FRAMEWORK_TABLE: Final = (
    Option("name", documentation="The connector's name, unique in its group of workers."),
    Option("connector.class", "class", required=True, documentation="The class of the connector."),
    Option(
        "tasks.max",
        "int",
        "1",
        check=at_least_one_problem,
        documentation="How many tasks the connector has at most.",
    ),
    Option(
        "errors.max.retries", "int", "-1", documentation="How often a task is started again; -1: for ever."
    ),
    Option(
        "errors.retry.delay.initial.ms",
        "long",
        "300",
        check=not_negative_problem,
        documentation="The pause before a failed task is started again, in milliseconds; it doubles with every attempt.",
    ),
    Option(
        "errors.retry.delay.max.ms",
        "long",
        "10000",
        check=not_negative_problem,
        documentation="The longest pause between two attempts, in milliseconds.",
    ),
    Option(
        "errors.tolerance",
        default="none",
        values=("none", "all"),
        documentation="Whether a record that fails is left out (all) or ends the task (none).",
        remark="`all`: rows of the stream that cannot be converted, and records that a transform fails on, are left out. Rows of snapshots, connections and malformed messages are errors all the same.",
    ),
    Option(
        "errors.log.enable",
        "boolean",
        "false",
        documentation="Whether each failure of a record is logged.",
        remark="Every record that is left out is a line in the log, with its position and no value.",
    ),
    Option(
        "exactly.once.support",
        default="requested",
        values=("requested", "required"),
        documentation="Whether the connector insists on exactly once (required); the worker's setting decides.",
        remark="The worker's `exactly.once.source.support` decides; `required` refuses workers where it is not `enabled`. See [Exactly once](#exactly-once).",
    ),
    Option(
        "transaction.boundary",
        default="poll",
        values=("poll", "interval", "connector"),
        check=boundary_problem,
        documentation="When a Kafka transaction ends, with exactly once.",
        remark="`poll`: a Kafka transaction ends when what has arrived is sent, at most 20 times a second; `interval`: after `transaction.boundary.interval.ms`. `connector` is refused, as Debezium refuses it.",
    ),
    Option(
        "transaction.boundary.interval.ms",
        "long",
        check=not_negative_problem,
        documentation="How long a Kafka transaction lasts where the boundary is interval, in milliseconds.",
        remark="Default: the worker's `offset.flush.interval.ms`; at most a quarter of `transaction.timeout.ms`.",
    ),
    Option(
        "topic.creation.default.partitions",
        "int",
        "-1",
        documentation="How many partitions a topic gets that is created; -1: the broker's default.",
    ),
    Option(
        "topic.creation.default.replication.factor",
        "int",
        "-1",
        documentation="How many replicas a topic gets that is created; -1: the broker's default.",
    ),
    Option("key.converter", "class", documentation="How keys become bytes; default: the worker's."),
    Option("value.converter", "class", documentation="How values become bytes; default: the worker's."),
    Option(
        "header.converter",
        "class",
        documentation="How header values become bytes.",
        remark="Accepted; headers are what Kafka Connect's default, SimpleHeaderConverter, writes.",
    ),
    Option(
        "transforms",
        "list",
        documentation="Names of the transforms that each record goes through, in order.",
        remark="See [transforms.md](transforms.md).",
    ),
    Option(
        "predicates",
        "list",
        documentation="Names of the predicates that transforms can ask.",
        remark="See [transforms.md](transforms.md).",
    ),
    Option(
        "config.action.reload",
        default="restart",
        values=("none", "restart"),
        documentation="What happens when a secret that a config provider gave has changed.",
        remark="Accepted, without effect.",
    ),
)
FRAMEWORK_OPTIONS: Final = {option.name: option for option in FRAMEWORK_TABLE}

FRAMEWORK_TEXTS: Final = {
    "connector.plugin.version": "The version of the connector; there is one.",
    "key.converter.plugin.version": "The version of the key's converter.",
    "value.converter.plugin.version": "The version of the value's converter.",
    "header.converter.plugin.version": "The version of the headers' converter.",
    "errors.retry.timeout": "How long a failed step of a record is tried again, in milliseconds.",
    "errors.log.include.messages": "Whether the log of a failure holds the record.",
    "topic.creation.groups": "Groups of topics that are created with settings of their own.",
    "offsets.storage.topic": "A topic for the connector's offsets apart from the worker's.",
}
"""What options of Kafka Connect mean that are not obeyed here, or by some connectors only; a sentence each."""


def check_framework(
    config: Mapping[str, str],
    options: Mapping[str, Option],
    of_framework: Collection[str] = OF_FRAMEWORK,
) -> dict[str, list[str]]:
    """What is wrong with a configuration whose options are all in a table, by option; empty when nothing is.

    Args:
        of_framework: the options whose problems are in Kafka Connect's words.
    """
    problems = check_options(config, options, FRAMEWORK_PREFIXES, _producer_problem, of_framework)
    for name, texts in common_problems(config).items():
        problems.setdefault(name, []).extend(texts)
    return problems


def check_options(
    config: Mapping[str, str],
    options: Mapping[str, Option],
    prefixes: tuple[str, ...],
    override: Callable[[str], str | None],
    of_framework: Collection[str] = OF_FRAMEWORK,
) -> dict[str, list[str]]:
    """What is wrong with the options of a table, by option.

    Args:
        of_framework: the options whose problems are in Kafka Connect's words.
        prefixes: of options that are checked elsewhere.
        override: what is wrong with the name of one of these, or None.
    """
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = _problem(name, value, options, prefixes, override, of_framework)
        if problem is not None:
            problems.setdefault(name, []).append(problem)
    for option in options.values():
        if option.required and not config.get(option.name, "").strip():
            problems.setdefault(option.name, []).append(worded(option.name, "A value is required"))
    return problems


def common_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the options of topic creation and of transforms, by option."""
    problems = {name: [problem] for name, problem in topic_creation_problems(config).items()}
    for name, found in check_transforms(config).items():
        problems.setdefault(name, []).extend(found)
    return problems


def _problem(
    name: str,
    value: str,
    options: Mapping[str, Option],
    prefixes: tuple[str, ...],
    override: Callable[[str], str | None],
    of_framework: Collection[str],
) -> str | None:
    option = options.get(name)
    if option is not None:
        wrong = value_problem(option, value, of_framework)
        shown = _HIDDEN if option.secret else value
        return None if wrong is None else worded(name, wrong, shown, of_framework)
    return override(name) if name.startswith(prefixes) else unknown_option(name, options)


def _producer_problem(name: str) -> str | None:
    return override_problem(name) if name.startswith(PRODUCER_OVERRIDE) else None


def override_problem(name: str) -> str | None:
    """What is wrong with the name of a client's setting that a connector overrides."""
    setting = name.partition(".override.")[2] or name.partition(".consumer.")[2]
    return f"{name} has no counterpart in librdkafka" if unknown_settings([setting]) else None


def unknown_option(name: str, known: Iterable[str]) -> str:
    """What is said of an option that nobody knows."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"{name} is not an option of this connector" + (f"; did you mean {near[0]}?" if near else "")
