"""Settings that choose by pattern: ``<pattern>=<value>``, separated by semicolons; the first that names a table counts. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

Rule = TypeVar("Rule")


def pattern_rules(
    text: str, form: str, read: Callable[[str, str], Callable[[re.Pattern[str]], Rule] | None]
) -> tuple[Rule, ...]:
    """The rules of a setting.

    Args:
        form: how a rule is written, for errors.
        read: makes a rule, but for its pattern, of a whole entry and of the value in it; None when it is not one.

    Raises:
        ValueError: an entry is not such a rule.
    """
    rules = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        pattern, equals, value = (part.strip() for part in entry.rpartition("="))
        made = read(entry, value) if equals and pattern else None
        if made is None:
            raise ValueError(f"{entry!r} is not {form}")
        try:
            rules.append(made(re.compile(pattern)))
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return tuple(rules)
