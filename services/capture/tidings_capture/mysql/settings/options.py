"""The options of MariaDB's connector: those that are obeyed, those that take one value, and those that are refused by name."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidings_capture.cdc.encoding.column_mappers import PREFIXES, mapper_problem
from tidings_capture.cdc.naming import topic_option_problems
from tidings_capture.cdc.option_table import MASKS, queue_problems
from tidings_capture.cdc.signals.option_table import OPTIONS as SIGNALS
from tidings_capture.cdc.signals.option_table import missing_partners
from tidings_capture.cdc.signals.options import SIGNAL_CONSUMER
from tidings_capture.cdc.snapshots.options import OVERRIDES, select_overrides
from tidings_capture.mysql.binlog.gtid_sources import EXCLUDES, INCLUDES
from tidings_capture.mysql.history.options import HISTORY, history_problems
from tidings_capture.mysql.settings.captured_options import CAPTURED
from tidings_capture.mysql.settings.other_options import FIXED, IGNORED, REFUSED, REFUSED_PREFIXES
from tidings_capture.mysql.settings.record_options import RECORDS
from tidings_capture.mysql.settings.server_options import SERVER
from tidings_capture.mysql.settings.snapshot_option_table import SNAPSHOTS
from tidings_connect.config.framework import override_problem, unknown_option
from tidings_connect.config.option import Option, worded

__all__ = ("FIXED", "IGNORED", "MASKS", "OBEYED", "REFUSED", "REFUSED_PREFIXES", "SECTIONS")

_SIGNALS: Final = tuple(
    replace(option, documentation="The table that signals are written to, database.table.")
    if option.name == "signal.data.collection"
    else option
    for option in SIGNALS
)
SECTIONS: Final[Mapping[str, tuple[Option, ...]]] = {
    "The server": SERVER,
    "What is captured": CAPTURED,
    "Snapshots": SNAPSHOTS,
    "Signals and notifications": _SIGNALS,
    "Records": RECORDS,
}
OBEYED: Final = tuple(option for options in SECTIONS.values() for option in options)
_BY_NAME: Final = {option.name: option for option in OBEYED}
_FIXED: Final = {option.name: option for option in FIXED}
_EXCLUSIVE: Final = (
    ("database.include.list", "database.exclude.list"),
    ("table.include.list", "table.exclude.list"),
    ("column.include.list", "column.exclude.list"),
)


def is_refused(name: str) -> bool:
    """Whether an option is one of Debezium's that is not implemented: any value but Debezium's default is refused."""
    return name in REFUSED or name.startswith(REFUSED_PREFIXES)


def own_problem(name: str, value: str) -> str | None:
    """What is wrong with an option that is not obeyed; None: nothing, or it is none of ours."""
    if name in _FIXED:
        only = _FIXED[name].only or ""
        if value.strip().lower() == only.lower():
            return None
        return f"{name} is not implemented: the only value it takes here is {only}"
    if name.startswith(SIGNAL_CONSUMER):
        return override_problem(name)
    if name.startswith(PREFIXES):
        return mapper_problem(name, value)
    if name in REFUSED and value.strip() in {"", *REFUSED[name]}:
        return None  # as some tools write all of them
    if is_refused(name):
        return f"{name} is an option of Debezium's that is not implemented here"
    return None


def is_ours(name: str) -> bool:
    """Whether an option is Debezium's, and taken care of here."""
    if name in _BY_NAME:
        return False
    handed_on = (HISTORY, SIGNAL_CONSUMER, f"{OVERRIDES}.")
    return name in _FIXED or name in REFUSED or name.startswith((*REFUSED_PREFIXES, *PREFIXES, *handed_on))


def own_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with options beside those that are obeyed, and with those that do not go together."""
    problems: dict[str, list[str]] = {}
    for name, value in config.items():
        problem = own_problem(name, value)
        if problem is not None:
            problems[name] = [problem]
    problems |= history_problems(config)
    several = (
        missing_partners(config),
        queue_problems(config, _BY_NAME),
        topic_option_problems(config).items(),
    )
    for name, problem in itertools.chain(*several):
        problems.setdefault(name, []).append(problem)
    try:
        select_overrides(config)
    except ValueError as error:
        problems.setdefault(OVERRIDES, []).append(worded(OVERRIDES, str(error)))
    if config.get(INCLUDES) and config.get(EXCLUDES):
        problem = "Cannot specify GTID excludes when includes are provided."
        problems.setdefault(EXCLUDES, []).append(worded(EXCLUDES, problem))
    for include, exclude in _EXCLUSIVE:
        if config.get(include) and config.get(exclude):
            problems.setdefault(exclude, []).append(worded(exclude, f'"{include}" is already specified'))
    return problems


def unknown(name: str) -> str:
    """An option that nobody knows."""
    return unknown_option(name, [option.name for option in OBEYED] + list(_FIXED))
