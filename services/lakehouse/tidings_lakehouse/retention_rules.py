"""Which tables let old rows go, and after how many days: ``TIDINGS_LAKEHOUSE_RETENTION``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidings_lakehouse.pattern_rules import pattern_rules

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
    return pattern_rules(text, "<pattern>=<days> with at least one day", _read)


def _read(_: str, days: str) -> partial[RetentionRule] | None:
    return partial(RetentionRule, days=int(days)) if re.fullmatch(r"[1-9][0-9]{0,4}", days) else None


def retention_days(rules: Sequence[RetentionRule], table: str) -> int | None:
    """For how many days a table's rows are kept, by the first rule that names it; None when none does."""
    return next((rule.days for rule in rules if rule.pattern.fullmatch(table)), None)
