"""Checks a connector's configuration against the table of options.

An option that is in none of the table's kinds is an error that names the nearest known one.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tidings_capture.cdc.encoding.column_mappers import PREFIXES, mapper_problem
from tidings_capture.cdc.naming import topic_option_problems
from tidings_capture.cdc.option_table import queue_problems
from tidings_capture.cdc.signals.option_table import missing_partners
from tidings_capture.cdc.snapshots.options import OVERRIDES, select_overrides
from tidings_capture.postgres.settings.definitions import DEFINITIONS
from tidings_capture.postgres.settings.option_table import (
    FIXED,
    NOT_IMPLEMENTED,
    OPTIONS,
    PASS_THROUGH,
    SIGNAL_CONSUMER,
    is_refused,
)
from tidings_capture.postgres.wal.options import wal_option_problems
from tidings_connect.config.framework import (
    DEAD_LETTERS,
    PRODUCER_OVERRIDE,
    common_problems,
    override_problem,
    unknown_option,
)
from tidings_connect.config.option import value_problem, worded

_EXCLUSIVE: Final = (
    ("schema.include.list", "schema.exclude.list"),
    ("table.include.list", "table.exclude.list"),
    ("column.include.list", "column.exclude.list"),
    ("message.prefix.include.list", "message.prefix.exclude.list"),
)


def check_options(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with a connector's configuration, by option; empty when nothing is."""
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = _check_one(name, value)
        if problem is not None:
            problems.setdefault(name, []).append(problem)
    for option in OPTIONS.values():
        if option.required and not config.get(option.name, "").strip():
            problems.setdefault(option.name, []).append(worded(option.name, "A value is required"))
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
    for name, problem in {**topic_option_problems(config), **wal_option_problems(config)}.items():
        problems.setdefault(name, []).append(problem)
    for name, found in common_problems(config).items():
        problems.setdefault(name, []).extend(found)
    for include, exclude in _EXCLUSIVE:
        if config.get(include) and config.get(exclude):
            problems.setdefault(exclude, []).append(worded(exclude, f'"{include}" is already specified'))
    return problems


def _missing_partners(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Options that mean nothing without another."""
    yield from missing_partners(config)
    yield from queue_problems(config, OPTIONS)
    if config.get(DEAD_LETTERS) and config.get("errors.tolerance", "").strip().lower() != "all":
        yield DEAD_LETTERS, f"{DEAD_LETTERS} needs errors.tolerance=all"


def _check_one(name: str, value: str) -> str | None:
    option = OPTIONS.get(name)
    if option is not None:
        wrong = value_problem(option, value)
        return None if wrong is None else worded(name, wrong, value)
    if name.startswith((PRODUCER_OVERRIDE, SIGNAL_CONSUMER)):
        return override_problem(name)
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
        is_default = value.strip() in {"", DEFINITIONS.defaults.get(name)}  # some tools write all of them
        return None if is_default else f"{name} is an option of Debezium's that is not implemented here"
    return unknown_option(name, [*OPTIONS, *FIXED, *NOT_IMPLEMENTED])
