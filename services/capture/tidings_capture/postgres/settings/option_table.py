"""Connector options: Debezium's PostgreSQL connector's names, with what is implemented here.

Three kinds: implemented (`OPTIONS`), known to Debezium but not implemented (refused by name, never ignored: `is_refused`), and
accepted without effect because one value is the only behaviour (`FIXED`: any other is refused). The tables by subject are in
`option_tables`; ``docs/debezium-compatibility.md`` shows them (`option_page`).
"""

from typing import Final

from tidings_capture.cdc.option_table import MASKS
from tidings_capture.cdc.signals.option_table import OPTIONS as SIGNALS
from tidings_capture.cdc.signals.options import SIGNAL_CONSUMER
from tidings_capture.postgres.settings.option_tables import (
    captured,
    connection,
    ours,
    running,
    snapshots,
    topics,
    values,
)
from tidings_capture.postgres.settings.option_tables.connection import CONNECTOR_CLASS, CONNECTOR_NAMES
from tidings_capture.postgres.settings.option_tables.others import FIXED as _FIXED
from tidings_capture.postgres.settings.option_tables.others import (
    PREFIXES,
    REFUSED,
    REFUSED_PREFIXES,
)
from tidings_capture.postgres.settings.option_tables.ours import REQUIRE_AUTH
from tidings_connect.config.framework import (
    FRAMEWORK_OPTIONS,
    FRAMEWORK_PREFIXES,
    FRAMEWORK_TABLE,
    FRAMEWORK_TARGETS,
)
from tidings_connect.config.option_page import Page

__all__ = (
    "CONNECTOR_CLASS",
    "CONNECTOR_NAMES",
    "CONNECTOR_VERSION",
    "FIXED",
    "NOT_IMPLEMENTED",
    "OPTIONS",
    "PAGE",
    "PASS_THROUGH",
    "REQUIRE_AUTH",
    "SIGNAL_CONSUMER",
    "is_refused",
)

CONNECTOR_VERSION: Final = "3.7.0.Final"

_SECTIONS: Final = {
    "Connection, slot and publication": connection.OPTIONS,
    "Schemas, tables, columns and operations": (*captured.OPTIONS, *MASKS),
    "Topics and records": topics.OPTIONS,
    "Values": values.OPTIONS,
    "Snapshots": snapshots.OPTIONS,
    "Signals and notifications": SIGNALS,
    "Errors and queues": running.OPTIONS,
}
_OWN: Final = (
    *connection.OPTIONS, *topics.OPTIONS, *captured.OPTIONS, *snapshots.OPTIONS, *SIGNALS, *values.OPTIONS,
    *running.OPTIONS, *ours.OPTIONS,
)  # fmt: skip
OPTIONS: Final = {**FRAMEWORK_OPTIONS, **{option.name: option for option in _OWN}}

PASS_THROUGH: Final = (*FRAMEWORK_PREFIXES, *(passed.prefix for passed in PREFIXES))
"""Prefixes whose options belong to somebody else: a converter, a topic, the producer, a table."""

FIXED: Final = {option.name: option.only or "" for option in _FIXED}
"""Options whose only behaviour here is this value, which is accepted; any other is refused."""
_FIXED_TEXTS: Final = {option.name: option.documentation for option in _FIXED}
_FAMILY_TEXTS: Final = {family.recorded: family.documentation for family in MASKS if family.recorded}

NOT_IMPLEMENTED: Final = frozenset(REFUSED)
_NOT_IMPLEMENTED_PREFIXES: Final = tuple(passed.prefix for passed in REFUSED_PREFIXES)

PAGE: Final = Page(
    sections={
        **_SECTIONS,
        "Of every connector": tuple(o for o in FRAMEWORK_TABLE if o.name not in {own.name for own in _OWN}),
    },
    own=ours.OPTIONS,
    passed=(*FRAMEWORK_TARGETS, *PREFIXES),
    fixed=_FIXED,
    refused=(*REFUSED, *REFUSED_PREFIXES),
)
"""What ``docs/debezium-compatibility.md`` shows."""


def is_refused(name: str) -> bool:
    """Whether an option is one of Debezium's that is not implemented: any value but Debezium's default is refused."""
    return name in NOT_IMPLEMENTED or name.startswith(_NOT_IMPLEMENTED_PREFIXES)


def text_beside_options(name: str) -> str:
    """What an option means that is in no table of options that are obeyed, in a sentence; empty where nothing is known."""
    return _FIXED_TEXTS.get(name, "") or _FAMILY_TEXTS.get(name, "")
