"""Finds references that are declared `required` and lack their row, so that no rule may see the aggregate.

Worked out once for each class; a class without required references costs nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidings_domain.aggregate.advance import Shape
from tidings_domain.aggregate.rows import RowPlan
from tidings_domain.changes import ChangeSet
from tidings_domain.language.model import Aggregate, Relation, Row


class _Step(NamedTuple):
    """A relation that is a required reference, or leads to one."""

    holder: type[Row]
    field: str
    relation: Relation
    below: tuple["_Step", ...]


class Lack(NamedTuple):
    """A required reference without its row.

    Attributes:
        owner: the aggregate, or the child row, whose reference it is (or a reference of a row that it refers to).
        table: that is referred to.
        words: what is wrong, without values.
    """

    owner: Row
    table: str
    words: str


class Required:
    """The required references of one aggregate class."""

    def __init__(self, shape: Shape) -> None:
        self._steps = _steps(shape.cls)
        self._plans: Mapping[str, RowPlan] = {
            shape.root.table: shape.root,
            **{plan.table: plan for plan in shape.rows.values()},
        }

    def lacking(self, aggregate: Aggregate) -> list[Lack]:
        """The required references that have no row."""
        return list(_lacking(aggregate, aggregate, self._steps)) if self._steps else []

    def are_brought(self, lacks: list[Lack], change_set: ChangeSet) -> bool:
        """Whether the change set has brought a row that lacks one; else the aggregate lacked it before."""
        brought = {
            (change.table, self._plans[change.table].key(change.after))
            for change in change_set.rows
            if change.after is not None and change.table in self._plans
        }
        return any(
            (lack.owner.__table__, self._plans[lack.owner.__table__].key_of(lack.owner)) in brought
            for lack in lacks
        )


def words_of(lacks: list[Lack]) -> str:
    """What is wrong and what helps, without values."""
    said = "; ".join(dict.fromkeys(lack.words for lack in lacks))
    tables = ", ".join(tables_of(lacks))
    return (
        f"{said}; see that {tables} is captured, and then change the row that refers, or read it with an incremental"
        " snapshot; where it may be missing, declare the reference without required=True"
    )


def tables_of(lacks: list[Lack]) -> tuple[str, ...]:
    """The tables that are referred to."""
    return tuple(dict.fromkeys(lack.table for lack in lacks))


def with_later_rows(change_set: ChangeSet, tables: tuple[str, ...], later: Iterable[ChangeSet]) -> ChangeSet:
    """The change set with referred rows of these tables that it lacks, as the first of the later ones that has them says."""
    references = {table: dict(rows) for table, rows in change_set.references.items()}
    for one in later:
        for table in tables:
            for key, row in one.references.get(table, {}).items():
                references.setdefault(table, {}).setdefault(key, row)
    return msgspec.structs.replace(change_set, references=references)


def _steps(cls: type[Row]) -> tuple[_Step, ...]:
    found = []
    for field, relation in cls.__relations__.items():
        below = _steps(relation.row)
        if below or relation.required:
            found.append(_Step(cls, field, relation, below))
    return tuple(found)


def _lacking(owner: Row, row: Row, steps: tuple[_Step, ...]) -> Iterator[Lack]:
    for step in steps:
        value = getattr(row, step.field)
        if step.relation.kind == "children":
            for child in value:
                yield from _lacking(child, child, step.below)
        elif value is not None:
            yield from _lacking(owner, value, step.below)
        elif step.relation.required:
            yield Lack(owner, step.relation.row.__table__, _words(step))


def _words(step: _Step) -> str:
    holder = step.holder
    by = ", ".join(f"{holder.__table__}.{column}" for column in step.relation.by)
    table = step.relation.row.__table__
    return f"{holder.__name__}.{step.field} is required, but the row of {table} that {by} names is not known, or null"
