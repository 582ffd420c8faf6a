"""What a person has chosen for the columns of some tables; by default nothing. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tidings_lakehouse.pattern_rules import pattern_rules

_YEAR, _NULL = "year", "null"
_NUMERIC = re.compile(r"numeric\(\s*([0-9]|[12][0-9]|3[0-8])\s*\)")


@dataclass(frozen=True)
class TypeChoices:
    """Types of a table's columns, but of those of its key."""

    numeric_scale: int | None = None
    """Numbers without a scale, or with more than 38 digits, become decimal(38, this); None: exact text."""
    infinite_is_null: bool = False
    """Infinite dates and timestamps are null, with a mark beside them; else they are in the year 294247."""


@dataclass(frozen=True)
class InfiniteRule:
    """How infinite times are kept in the tables that a pattern names: ``TIDINGS_LAKEHOUSE_INFINITE``."""

    pattern: re.Pattern[str]
    """Matched with the name of a current state as a whole: ``technical.orders``."""
    is_null: bool


@dataclass(frozen=True)
class TypeRule:
    """The types of the tables that a pattern names: ``TIDINGS_LAKEHOUSE_TYPES``."""

    pattern: re.Pattern[str]
    """Matched with the name of a current state as a whole: ``technical.orders``."""
    types: TypeChoices


@dataclass(frozen=True)
class TopicChoices:
    """Of one topic."""

    is_text: bool = False
    """Records without schemas are kept as text, see `text_records`."""
    types: TypeChoices = TypeChoices()
    keys: frozenset[str] = frozenset()
    """Fields of the key, whose types are not chosen: changes are brought together by them."""

    def of(self, field: str) -> TypeChoices:
        """What is chosen for a field of a row."""
        return TypeChoices() if field in self.keys else self.types

    def with_marks(self, fields: Iterable[str]) -> list[str]:
        """The fields of a row whose infinities are null, if they are times."""
        return [field for field in fields if self.of(field).infinite_is_null]


@dataclass(frozen=True)
class Choices:
    """Of all topics."""

    texts: str | None = None
    """Pattern of topics whose JSON without schemas is kept as text, as a whole."""
    rules: Sequence[TypeRule] = ()
    infinite: Sequence[InfiniteRule] = ()

    def of(self, topic: str, table: str) -> TopicChoices:
        """Those of one topic, by the first rule that names its current state."""
        types = (rule.types for rule in self.rules if rule.pattern.fullmatch(table))
        is_null = next((rule.is_null for rule in self.infinite if rule.pattern.fullmatch(table)), False)
        is_text = self.texts is not None and re.fullmatch(self.texts, topic) is not None
        return TopicChoices(is_text, replace(next(types, TypeChoices()), infinite_is_null=is_null))


def type_rules(text: str) -> tuple[TypeRule, ...]:
    """The rules of a setting: ``<pattern>=numeric(<scale>)``, separated by semicolons.

    Raises:
        ValueError: an entry is not such a rule.
    """
    return pattern_rules(text, "<pattern>=numeric(<scale from 0 to 38>)", _read)


def _read(_: str, told: str) -> partial[TypeRule] | None:
    scale = _NUMERIC.fullmatch(told)
    return None if scale is None else partial(TypeRule, types=TypeChoices(int(scale[1])))


def infinite_rules(text: str) -> tuple[InfiniteRule, ...]:
    """The rules of a setting: ``<pattern>=null`` or ``<pattern>=year``, separated by semicolons.

    Raises:
        ValueError: an entry is not such a rule.
    """
    return pattern_rules(text, f"<pattern>={_NULL} or <pattern>={_YEAR}", _read_infinite)


def _read_infinite(_: str, told: str) -> partial[InfiniteRule] | None:
    return partial(InfiniteRule, is_null=told == _NULL) if told in {_NULL, _YEAR} else None
