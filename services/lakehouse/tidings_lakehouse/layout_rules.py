"""How tables' files are laid out, by pattern: ``TIDINGS_LAKEHOUSE_LAYOUT``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidings_lakehouse.pattern_rules import pattern_rules

NONE = "none"
_SORT = re.compile(r"\s+sort\s+")
_BUCKETS = re.compile(r"bucket\(\s*([1-9][0-9]{0,3})\s*(?:,\s*([^\s(),]+)\s*)?\)")
_TIMES = re.compile(r"(hour|day|month|year)(?:\(\s*([^\s(),]+)\s*\))?")
_COLUMN = re.compile(r"[^\s(),]+")


@dataclass(frozen=True)
class Partition:
    """One field by which a table is partitioned."""

    transform: str
    """``identity``, ``bucket``, ``hour``, ``day``, ``month`` or ``year``."""
    column: str | None = None
    """None: the first column of a current state's key for buckets, of other tables the time of the record."""
    buckets: int = 0


@dataclass(frozen=True)
class Layout:
    """How a table's files are laid out; what is None stays as it is."""

    partitions: tuple[Partition, ...] | None = None
    order: tuple[str, ...] | None = None
    """Columns by which the rows of a file are sorted."""


@dataclass(frozen=True)
class LayoutRule:
    """The tables that a pattern names are laid out like this."""

    pattern: re.Pattern[str]
    """Matched with a table's name as a whole: ``technical.orders``."""
    layout: Layout


def layout_rules(text: str) -> tuple[LayoutRule, ...]:
    """The rules of a setting: ``<pattern>=<partitions>``, ``<pattern>=<partitions> sort <columns>`` or ``<pattern>=sort <columns>``,
    separated by semicolons.

    Raises:
        ValueError: an entry is not such a rule.
    """
    return pattern_rules(text, "<pattern>=<partitions> sort <columns>", _read)


def _read(entry: str, told: str) -> partial[LayoutRule] | None:
    partitions, *order = _SORT.split(f" {told}")
    if not told or len(order) > 1:
        return None
    layout = Layout(
        _partitions(entry, partitions.strip()) if partitions.strip() else None,
        _columns(entry, order[0]) if order else None,
    )
    return partial(LayoutRule, layout=layout)


def layout_of(rules: Sequence[LayoutRule], table: str) -> Layout:
    """A table's layout by the first rule that names it; one that leaves everything as it is when none does."""
    return next((rule.layout for rule in rules if rule.pattern.fullmatch(table)), Layout())


def _partitions(entry: str, text: str) -> tuple[Partition, ...]:
    return () if text == NONE else tuple(_partition(entry, one) for one in _parts(text))


def _partition(entry: str, text: str) -> Partition:
    if found := _BUCKETS.fullmatch(text):
        return Partition("bucket", found[2], int(found[1]))
    if found := _TIMES.fullmatch(text):
        return Partition(found[1], found[2])
    if _COLUMN.fullmatch(text) and text not in {NONE, "bucket"}:
        return Partition("identity", text)
    raise ValueError(
        f"{text!r} in {entry!r} is not none, bucket(<number>), bucket(<number>, <column>), hour, day, month or year, one of these"
        " with (<column>), or a column"
    )


def _columns(entry: str, text: str) -> tuple[str, ...]:
    found = () if text.strip() == NONE else tuple(_parts(text))
    if any(not _COLUMN.fullmatch(one) for one in found):
        raise ValueError(f"{text!r} in {entry!r} is not none, or columns separated by commas")
    return found


def _parts(text: str) -> list[str]:
    """What commas separate outside of brackets."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]
