"""Derives from the aggregates' classes what each table is to each aggregate: which aggregate a row belongs to.

A child's child may hold the root's key in its own columns: where the child's primary key begins with it and is what its
child refers to. Else the way to the root leads through the row above (`TableUse.above`), wherever that is at the time.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from tidings_domain.changes import identity
from tidings_domain.language.model import Aggregate, Row


class Role(StrEnum):
    """What a table is to an aggregate."""

    ROOT = "root"
    CHILD = "child"
    REFERENCE = "reference"


class TableUse(msgspec.Struct, frozen=True):
    """One use of a table by an aggregate.

    Attributes:
        aggregate: the aggregate's name.
        table: ``schema.table``.
        role: root, child or reference.
        key: the table's primary key columns.
        by: child: its columns that hold the root's key, or, with `above`, the key of the row above. Reference: the columns
            of `of` that hold this table's key. Root: its key columns, so that ``identity(row, use.by)`` is the aggregate's
            id for a root and for a child without `above`.
        of: reference: the table that refers to it; None otherwise.
        above: child of a child whose own columns do not hold the root's key: the use of the table that `by` leads to.
    """

    aggregate: str
    table: str
    role: Role
    key: tuple[str, ...]
    by: tuple[str, ...]
    of: str | None = None
    above: "TableUse | None" = None


class ChildUse(msgspec.Struct, frozen=True):
    """A table of child rows at its place in an aggregate.

    Attributes:
        row: the class of its rows.
        field: where the row above keeps them.
        use: how they find their root.
        by: the columns that hold the key of the row above.
        above: the place of that row; None for the root.
    """

    row: type[Row]
    field: str
    use: TableUse
    by: tuple[str, ...]
    above: "ChildUse | None" = None


def child_uses(aggregate: type[Aggregate]) -> Iterator[ChildUse]:
    """The child tables of an aggregate, each before its own children."""
    todo: list[tuple[type[Row], ChildUse | None]] = [(aggregate, None)]
    while todo:
        holder, above = todo.pop(0)
        for field, relation in holder.__relations__.items():
            if relation.kind == "children":
                use = _child_use(aggregate.__name__, relation.row, relation.by, above)
                found = ChildUse(relation.row, field, use, relation.by, above)
                yield found
                todo.append((relation.row, found))


def _child_use(aggregate: str, row: type[Row], by: tuple[str, ...], above: ChildUse | None) -> TableUse:
    through: TableUse | None = None
    if above is not None:
        higher = above.use
        if higher.above is None and set(higher.by) <= set(higher.key):
            by = tuple(by[higher.key.index(column)] for column in higher.by)
        else:
            through = higher
    return TableUse(aggregate, row.__table__, Role.CHILD, row.__key__, by, above=through)


def uses_of(aggregate: type[Aggregate]) -> Iterator[TableUse]:
    """Every use that an aggregate makes of a table."""
    name = aggregate.__name__
    yield TableUse(name, aggregate.__table__, Role.ROOT, aggregate.__key__, aggregate.__key__)
    rows: list[type[Row]] = [aggregate]
    for child in child_uses(aggregate):
        yield child.use
        rows.append(child.row)
    while rows:
        row = rows.pop()
        for relation in row.__relations__.values():
            if relation.kind == "reference":
                other = relation.row
                yield TableUse(
                    name, other.__table__, Role.REFERENCE, other.__key__, relation.by, row.__table__
                )
                rows.append(other)


def root_of(
    use: TableUse, row: Mapping[str, Any], find: Callable[[str, str], Mapping[str, Any] | None]
) -> str | None:
    """The id of the aggregate that a row belongs to; None when it belongs to none, or a row above it is not known.

    Args:
        use: as root or child.
        find: the row of a table with a key (`identity`).
    """
    while True:
        if any(row.get(column) is None for column in use.by):
            return None
        key = identity(row, use.by)
        if use.above is None:
            return key
        above = find(use.above.table, key)
        if above is None:
            return None
        row, use = above, use.above
