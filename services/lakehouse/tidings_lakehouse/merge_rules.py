"""How seldom tables' current states are brought up to their logs: ``TIDINGS_LAKEHOUSE_MERGE``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidings_lakehouse.pattern_rules import pattern_rules

NEVER = "never"
_SECONDS = re.compile(r"(0|[1-9][0-9]{0,5})")


@dataclass(frozen=True)
class MergeRule:
    """The tables that a pattern names are merged no more often than every so many seconds."""

    pattern: re.Pattern[str]
    """Matched with the name of a current state as a whole: ``technical.orders``."""
    seconds: float | None
    """None: they have a log only."""


def merge_rules(text: str) -> tuple[MergeRule, ...]:
    """The rules of a setting: ``<pattern>=<seconds>`` or ``<pattern>=never``, separated by semicolons.

    Raises:
        ValueError: an entry is no such rule.
    """
    return pattern_rules(text, f"<pattern>=<seconds> or <pattern>={NEVER}", _read)


def _read(_: str, often: str) -> partial[MergeRule] | None:
    if often == NEVER:
        return partial(MergeRule, seconds=None)
    return partial(MergeRule, seconds=float(often)) if _SECONDS.fullmatch(often) else None


def merge_seconds(rules: Sequence[MergeRule], table: str) -> float | None:
    """How often a current state is merged at most, by the first rule that names it: 0, with every batch, when none does."""
    return next((rule.seconds for rule in rules if rule.pattern.fullmatch(table)), 0.0)
