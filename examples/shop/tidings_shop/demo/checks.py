"""The demo's verdict: what the database, the topics and the lake say, side by side. Pure: others gather the figures."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

Row = Mapping[str, object]

KEYS: Mapping[str, tuple[str, ...]] = {
    "customers": ("id",),
    "products": ("id",),
    "orders": ("id",),
    "order_items": ("order_id", "line_no"),
    "payments": ("id",),
    "shipments": ("id",),
}
"""The tables that are compared, and their primary keys."""


@dataclass(frozen=True, slots=True)
class EventCheck:
    """One version of a business event: how often it happened, and how often it was told."""

    name: str
    version: int
    expected: int
    """OrderPlaced: the rows of orders in the database. Others: what the committed transactions amount to."""
    records: int
    """On the topic, for a reader of committed records."""
    distinct: int
    """Distinct event ids among them."""
    in_lake: int
    distinct_in_lake: int

    @property
    def problem(self) -> str | None:
        """What is off, if anything is."""
        label = f"{self.name} v{self.version}"
        if self.records != self.distinct:
            return f"{label}: {self.records - self.distinct} events are more than once on the topic"
        if self.records != self.expected:
            return f"{label}: {self.records} on the topic instead of {self.expected}"
        if self.in_lake != self.distinct_in_lake:
            return f"{label}: {self.in_lake - self.distinct_in_lake} events are more than once in the lake"
        if self.in_lake != self.expected:
            return f"{label}: {self.in_lake} rows in the lake instead of {self.expected}"
        return None


@dataclass(frozen=True, slots=True)
class TableCheck:
    """One table: its rows in the database and as the lake's current state has them."""

    table: str
    rows: int
    in_lake: int
    missing: int
    """Rows that the lake lacks."""
    surplus: int
    """Rows that only the lake has, or has twice."""
    differing: int
    """Rows with the same key and other values."""
    first_difference: str | None = None
    """The key of one of them, and the columns; no values."""

    @property
    def problem(self) -> str | None:
        """What is off, if anything is."""
        if not (self.missing or self.surplus or self.differing):
            return None
        counts = f"{self.missing} rows missing, {self.surplus} too many, {self.differing} different"
        return f"{self.table}: in the lake {counts}; the first: {self.first_difference}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks."""

    events: tuple[EventCheck, ...]
    tables: tuple[TableCheck, ...]
    dead_letters: int
    remarks: tuple[str, ...] = ()
    """Further problems: a pipeline that did not drain, a figure that could not be had."""

    def problems(self) -> list[str]:
        """Everything that is off; empty when all is well."""
        found = [problem for one in self.events if (problem := one.problem)]
        found += [problem for check in self.tables if (problem := check.problem)]
        if self.dead_letters:
            found.append(f"{self.dead_letters} dead letters")
        return [*found, *self.remarks]


def compare_table(table: str, rows: Iterable[Row], in_lake: Sequence[Row]) -> TableCheck:
    """Compare a table row by row, column by column; columns that only the lake has are its own."""
    key = KEYS[table]
    wanted = {_key(row, key): {name: canonical(value) for name, value in row.items()} for row in rows}
    found: dict[tuple[object, ...], Row] = {}
    surplus: list[tuple[object, ...]] = []
    for row in in_lake:
        name = _key(row, key)
        if name in found or name not in wanted:
            surplus.append(name)
        else:
            found[name] = row
    missing = [name for name in wanted if name not in found]
    differing = {
        name: columns for name, row in found.items() if (columns := _other_columns(wanted[name], row))
    }
    first: str | None = None
    if missing:
        first = f"{_text(key, missing[0])} is missing"
    elif surplus:
        first = f"{_text(key, surplus[0])} is too many"
    elif differing:
        name, columns = next(iter(differing.items()))
        first = f"{_text(key, name)} in {', '.join(columns)}"
    return TableCheck(table, len(wanted), len(in_lake), len(missing), len(surplus), len(differing), first)


def canonical(value: object) -> object:
    """A value in the form in which the database's and the lake's can be compared.

    Numbers compare as numbers (a price of 9.50 is 9.5), moments in UTC with microseconds, JSON by its content.
    """
    match value:
        case None:
            return None
        case bool():  # not the number that Python makes of it
            return str(value).lower()
        case int() | float() | Decimal():
            return Decimal(str(value)).normalize()
        case dt.datetime():
            moment = value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return moment.isoformat(timespec="microseconds")
        case dt.date():
            return value.isoformat()
        case UUID():
            return str(value)
        case Mapping() | list():
            return json.dumps(value, sort_keys=True)
        case _:
            return str(value)


def _other_columns(wanted: Row, row: Row) -> list[str]:
    return [name for name, value in wanted.items() if name not in row or not _equal(value, row[name])]


def _equal(wanted: object, found: object) -> bool:
    if canonical(found) == wanted:
        return True
    if not isinstance(found, str) or wanted is None:
        return False
    # The lake's JSON has text where JSON has no type of its own: numbers with a scale, moments, nested JSON.
    return any(reading == wanted for reading in _readings(found))


def _readings(text: str) -> Iterable[object]:
    for read in (Decimal, dt.datetime.fromisoformat, json.loads):
        try:
            yield canonical(read(text))
        except (ValueError, ArithmeticError):
            continue


def _key(row: Row, key: Sequence[str]) -> tuple[object, ...]:
    return tuple(canonical(row.get(name)) for name in key)


def _text(key: Sequence[str], values: Sequence[object]) -> str:
    return " ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
