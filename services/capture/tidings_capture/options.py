"""Checks a connector's configuration against the table of options.

An option that is in none of the table's kinds is an error that names the nearest known one.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from tidings_capture.column_mappers import PREFIXES, mapper_problem
from tidings_capture.naming import topic_option_problems
from tidings_capture.option_table import (
    DEAD_LETTERS,
    FIXED,
    NOT_IMPLEMENTED,
    OPTIONS,
    PASS_THROUGH,
    PRODUCER_OVERRIDE,
    SIGNAL_CONSUMER,
    Option,
    is_refused,
)
from tidings_capture.signal_file import DEFAULT_FILE, signal_file_problem
from tidings_capture.snapshot_options import OVERRIDES, select_overrides
from tidings_capture.wal_options import wal_option_problems
from tidings_connect.kafka.settings import unknown_settings
from tidings_connect.kafka.topic_creation import topic_creation_problems
from tidings_connect.transforms.chain import check_transforms

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


_BITS: Final = {"int": 32, "long": 64}
"""Of Java's types, which Debezium reads an option as."""


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
    for option in OPTIONS.values():
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
    channels = {part.strip().lower() for part in config.get("signal.enabled.channels", "").split(",")}
    if "file" in channels:
        wrong = signal_file_problem(config.get("signal.file", DEFAULT_FILE).strip() or DEFAULT_FILE)
        if wrong is not None:
            yield "signal.file", _worded("signal.file", wrong)
    queue, batch = "max.queue.size", "max.batch.size"
    sizes = [config.get(name) or OPTIONS[name].default or "" for name in (queue, batch)]
    if all(size.isdigit() for size in sizes) and int(sizes[0]) <= int(sizes[1]):
        yield queue, _worded(queue, "Must be larger than the maximum batch size")
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


def _is_integer(value: str, bits: int) -> bool:
    if not re.fullmatch(r"[+-]?\d{1,40}", value):
        return False
    return -(1 << (bits - 1)) <= int(value) < 1 << (bits - 1)


def _check_value(option: Option, value: str) -> str | None:
    value = value.strip()
    if option.required and not value:
        return None  # reported as missing
    framework = option.name in _OF_FRAMEWORK
    if option.kind in _BITS and value and not _is_integer(value, _BITS[option.kind]):
        if framework:
            return f"Not a number of type {option.kind.upper()}"
        return "An integer is expected" if option.kind == "int" else "A long value is expected"
    if option.kind == "boolean" and value.lower() not in {"true", "false"}:
        return (
            "Expected value to be either true or false"
            if framework
            else "Either 'true' or 'false' is expected"
        )
    taken = option.values if option.kind == "class" else {v.lower() for v in option.values}
    if option.values and (value if option.kind == "class" else value.lower()) not in taken:
        kind = "String must be one of:" if framework else "Value must be one of"
        return f"{kind} {', '.join(option.values)}"
    if option.check is None or (not value and option.may_be_empty):
        return None
    return option.check(value)
