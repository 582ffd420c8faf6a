"""Applies a change set to an aggregate: its rows before, and the changes in their order, give its rows after."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import msgspec

from tidings_domain.aggregate.rows import References, RowPlan
from tidings_domain.aggregate.uses import ChildUse, child_uses
from tidings_domain.changes import ChangeSet, RowChange, identity
from tidings_domain.language.model import Aggregate, Row

Children = dict[str, tuple[Row, ...]]
"""Child rows that wait for their root, or for the row above them, by slot (see `Shape.slots`)."""
_UNTOUCHED = object()


class ChildPlan(msgspec.Struct, frozen=True):
    """How rows of a child table become a field of the aggregate."""

    field: str
    by: tuple[str, ...]
    rows: RowPlan


class Level(msgspec.Struct, frozen=True):
    """A child table at its place in an aggregate of several levels.

    Attributes:
        field: where the row above keeps its rows.
        slot: their name among the orphans.
        rows: how they are read.
        root_by: its columns that hold the root's key; None where only the row above tells.
        above: the number of the level above; None for the root's own children.
        up: from a row to the key of the row above it; None for the root's own children.
    """

    field: str
    slot: str
    rows: RowPlan
    root_by: tuple[str, ...] | None
    above: int | None
    up: Callable[[Row], Any] | None


class Shape:
    """What an aggregate consists of."""

    def __init__(self, cls: type[Aggregate]) -> None:
        self.cls = cls
        self.root = RowPlan(cls)
        uses = list(child_uses(cls))
        self.nested = any(use.above is not None for use in uses)
        self.children = {
            use.use.table: ChildPlan(use.field, use.by, RowPlan(use.row)) for use in uses if use.above is None
        }
        self.levels = tuple(_level(use, uses) for use in uses) if self.nested else ()
        self.slots: dict[str, type[Row]] = {_slot(use): use.row for use in uses}
        """Where child rows wait; a direct child's slot is its field."""
        self.direct = frozenset(use.field for use in uses if use.above is None)
        """The slots of the root's own children."""
        self.rows: dict[str, RowPlan] = (
            {level.slot: level.rows for level in self.levels}
            if self.nested
            else {child.field: child.rows for child in self.children.values()}
        )
        """How the rows of each slot are read."""


def _level(use: ChildUse, uses: list[ChildUse]) -> Level:
    names = {field.encode_name: field.name for field in msgspec.structs.fields(use.row)}
    # The load of a domain sees to it that a child's child declares these columns.
    up = attrgetter(*(names[column] for column in use.by)) if use.above is not None else None
    return Level(
        use.field,
        _slot(use),
        RowPlan(use.row),
        use.use.by if use.use.above is None else None,
        None if use.above is None else uses.index(use.above),
        up,
    )


def _slot(use: ChildUse) -> str:
    return use.field if use.above is None else f"{_slot(use.above)}__{use.field}"


class Advance:
    """One change set being applied to an aggregate whose children have none: the root's last row, and the child rows of every table it touches by key."""

    def __init__(
        self, plan: Shape, before: Aggregate | None, orphans: Children, change_set: ChangeSet
    ) -> None:
        self.plan = plan
        self.before = before
        self.change_set = change_set
        self.references: References = change_set.references
        self.root: object = _UNTOUCHED
        self.orphans = orphans
        self.touched: dict[str, dict[Any, Row]] = {}

    def run(self) -> tuple[Aggregate | None, Children]:
        plan = self.plan
        root_table, children = plan.root.table, plan.children
        for change in self.change_set.rows:
            child = children.get(change.table)
            if child is None:
                if change.table == root_table:
                    self._root(change)
            else:
                self._child(child, change)
                if change.table == root_table and names_root(change, plan.cls, self.change_set.id):
                    self._root(change)
        changed: dict[str, Any] = {field: by_key(rows) for field, rows in self.touched.items()}
        if self.root is _UNTOUCHED:
            if self.before is None:
                return None, {**self.orphans, **changed}
            changed.update(self._referred_again())
            return msgspec.structs.replace(self.before, **changed) if changed else self.before, {}
        if self.root is None:
            return None, {}
        lists = {child.field: self._known(child.field) for child in children.values()} | changed
        after = plan.root.load(cast("dict[str, Any]", self.root), self.before, self.references, **lists)
        return cast("Aggregate", after), {}

    def _known(self, field: str) -> tuple[Row, ...]:
        if self.before is not None:
            return cast("tuple[Row, ...]", getattr(self.before, field))
        return self.orphans.get(field, ())

    def _root(self, change: RowChange) -> None:
        if change.op == "d":
            self.root = None
            # A deleted root takes its children with it, also when a root with its key is created right after.
            self.touched = {child.field: {} for child in self.plan.children.values()}
        else:
            self.root = change.after

    def _child(self, child: ChildPlan, change: RowChange) -> None:
        rows = self.touched.get(child.field)
        if rows is None:
            key_of: Callable[[Row], Any] = child.rows.key_of
            rows = self.touched[child.field] = {key_of(row): row for row in self._known(child.field)}
        after = change.after
        if change.op == "d" or after is None:
            if change.before is not None:
                rows.pop(child.rows.key(change.before), None)
            return
        if belongs(after, child.by, self.change_set.id):
            previous = rows.get(child.rows.key(after)) if child.rows.keeps_something else None
            row = child.rows.load(after, previous, self.references)
            rows[child.rows.key_of(row)] = row
        else:
            # It has moved to another root, which gets the same row in a change set of its own.
            rows.pop(child.rows.key(after), None)

    def _referred_again(self) -> dict[str, Row]:
        """References whose rows came along although the root row itself did not change."""
        if not self.references:
            return {}
        return self.plan.root.refresh(cast("Row", self.before), self.references)


def by_key(rows: dict[Any, Row]) -> tuple[Row, ...]:
    """The rows in the order of their keys."""
    return tuple(rows[key] for key in sorted(rows)) if len(rows) > 1 else tuple(rows.values())


def belongs(row: dict[str, Any], by: tuple[str, ...], aggregate_id: str) -> bool:
    """Whether these columns of a row hold an aggregate's id."""
    if len(by) == 1:
        return str(row.get(by[0])) == aggregate_id
    return identity(row, by) == aggregate_id


def names_root(change: RowChange, cls: type[Aggregate], aggregate_id: str) -> bool:
    """Whether a change of a table that is both root and child is about the root."""
    row = change.after if change.after is not None else change.before
    return row is not None and identity(row, cls.__key__) == aggregate_id
