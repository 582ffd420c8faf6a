"""Applies a change set to an aggregate whose children have children.

All rows are looked at level by level, by key: a row may come before the row above it, and changes of either move what
belongs together. At the end each row is put below the one that it names. A row that names none which is here has gone to
another root, unless its own columns say that it is ours: then it waits for the row above it.
"""

from collections import defaultdict
from typing import Any, cast

import msgspec

from tidings_domain.aggregate.advance import Children, Level, Shape, belongs, by_key, names_root
from tidings_domain.changes import ChangeSet, RowChange
from tidings_domain.language.model import Aggregate, Row

_UNTOUCHED = object()
_Rows = dict[Any, Row]


class NestedAdvance:
    """As `Advance`, for several levels of children."""

    def __init__(
        self, shape: Shape, before: Aggregate | None, orphans: Children, change_set: ChangeSet
    ) -> None:
        self.shape = shape
        self.before = before
        self.change_set = change_set
        self.root: object = _UNTOUCHED
        self.rows = [_Rows() for _ in shape.levels]
        for level, rows in zip(shape.levels, self.rows, strict=True):
            key_of = level.rows.key_of
            if level.above is None:
                known = getattr(before, level.field) if before is not None else orphans.get(level.slot, ())
                rows.update((key_of(row), row) for row in known)
            else:
                for holder in self.rows[level.above].values():
                    rows.update((key_of(row), row) for row in getattr(holder, level.field))
                rows.update((key_of(row), row) for row in orphans.get(level.slot, ()))

    def run(self) -> tuple[Aggregate | None, Children]:
        """The aggregate and the orphans after the change set."""
        shape = self.shape
        places = {level.rows.table: number for number, level in enumerate(shape.levels)}
        for change in self.change_set.rows:
            number = places.get(change.table)
            if number is not None:
                self._child(shape.levels[number], self.rows[number], change)
            if change.table == shape.root.table and (
                number is None or names_root(change, shape.cls, self.change_set.id)
            ):
                self._root(change)
        if self.root is None:
            return None, {}
        lists, waiting = self._assemble()
        references = self.change_set.references
        after: Row
        if self.root is not _UNTOUCHED:
            raw = cast("dict[str, Any]", self.root)
            after = shape.root.load(raw, self.before, references, **lists)
        elif self.before is None:
            return None, self._orphans({**lists, **waiting})
        else:
            changed: dict[str, Any] = {
                field: rows for field, rows in lists.items() if getattr(self.before, field) != rows
            }
            changed.update(shape.root.refresh(self.before, references) if references else {})
            after = msgspec.structs.replace(self.before, **changed) if changed else self.before
        return cast("Aggregate", after), self._orphans(waiting)

    def _orphans(self, waiting: Children) -> Children:
        return {slot: waiting.get(slot, ()) for slot in self.shape.slots} if any(waiting.values()) else {}

    def _root(self, change: RowChange) -> None:
        if change.op == "d":
            self.root = None
            # A deleted root takes its children with it, also when a root with its key is created right after.
            for rows in self.rows:
                rows.clear()
        else:
            self.root = change.after

    def _child(self, level: Level, rows: _Rows, change: RowChange) -> None:
        after = change.after
        if change.op == "d" or after is None:
            if change.before is not None:
                rows.pop(level.rows.key(change.before), None)
        elif level.root_by is None or belongs(after, level.root_by, self.change_set.id):
            previous = rows.get(level.rows.key(after)) if level.rows.keeps_something else None
            row = level.rows.load(after, previous, self.change_set.references)
            rows[level.rows.key_of(row)] = row
        else:
            rows.pop(level.rows.key(after), None)

    def _assemble(self) -> tuple[Children, Children]:
        """The root's own children with all that is below them, and what waits for the row above it."""
        lists: Children = {}
        waiting: Children = {}
        for level, rows in zip(reversed(self.shape.levels), reversed(self.rows), strict=True):
            if level.above is None or level.up is None:
                lists[level.field] = by_key(rows)
                continue
            holders = self.rows[level.above]
            below: defaultdict[Any, _Rows] = defaultdict(dict)
            lost: _Rows = {}
            for key, row in rows.items():
                holder_key = level.up(row)
                if holder_key in holders:
                    below[holder_key][key] = row
                elif level.root_by is not None:
                    lost[key] = row
            for key, holder in holders.items():
                found = by_key(below[key])
                if getattr(holder, level.field) != found:
                    holders[key] = msgspec.structs.replace(holder, **{level.field: found})
            if lost:
                waiting[level.slot] = by_key(lost)
        return lists, waiting
