"""How seldom tables' current states are brought up to their logs: ``TIDINGS_LAKEHOUSE_MERGE``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    rules = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        pattern, equals, often = (part.strip() for part in entry.rpartition("="))
        if not equals or not pattern or not (often == NEVER or _SECONDS.fullmatch(often)):
            raise ValueError(f"{entry!r} is not <pattern>=<seconds> or <pattern>={NEVER}")
        try:
            rules.append(MergeRule(re.compile(pattern), None if often == NEVER else float(often)))
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return tuple(rules)


def merge_seconds(rules: Sequence[MergeRule], table: str) -> float | None:
    """How often a current state is merged at most, by the first rule that names it: 0, with every batch, when none does."""
    return next((rule.seconds for rule in rules if rule.pattern.fullmatch(table)), 0.0)
