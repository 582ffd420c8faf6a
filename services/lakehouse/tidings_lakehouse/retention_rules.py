"""Which tables let old rows go, and after how many days: ``TIDINGS_LAKEHOUSE_RETENTION``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

RETAINED_PROPERTY = "tidings.retained.from"
"""Property of a table: rows whose records are older have gone; ISO 8601."""


@dataclass(frozen=True)
class RetentionRule:
    """Rows of the tables that a pattern names are kept for some days."""

    pattern: re.Pattern[str]
    """Matched with a table's name as a whole: ``technical.orders_log``."""
    days: int


def retention_rules(text: str) -> tuple[RetentionRule, ...]:
    """The rules of a setting: ``<pattern>=<days>``, separated by semicolons.

    Raises:
        ValueError: an entry is not such a rule.
    """
    rules = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        pattern, equals, days = (part.strip() for part in entry.rpartition("="))
        if not equals or not pattern or not re.fullmatch(r"[1-9][0-9]{0,4}", days):
            raise ValueError(f"{entry!r} is not <pattern>=<days> with at least one day")
        try:
            rules.append(RetentionRule(re.compile(pattern), int(days)))
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return tuple(rules)


def retention_days(rules: Sequence[RetentionRule], table: str) -> int | None:
    """For how many days a table's rows are kept, by the first rule that names it; None when none does."""
    return next((rule.days for rule in rules if rule.pattern.fullmatch(table)), None)
