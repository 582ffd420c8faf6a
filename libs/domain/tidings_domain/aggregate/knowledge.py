"""Tracks what is not known of an aggregate although it existed: its beginning, rows of children, columns.

An aggregate is *partial* when it was first met in an update: the state began after it (on trimmed topics, or the domain has
it since today). Its root row is whole from then on, but rows of its children that nothing has touched since are missing, so
whoever counts or sums them is wrong. A snapshot of its tables makes it whole: the root's row ends it.

A field that the domain has got since a state was written (a column, a table of children) is not known in that state: a
column until the root's row comes again, children until a snapshot has read the root's row.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import msgspec

from tidings_domain.aggregate.advance import Shape, names_root
from tidings_domain.changes import ChangeSet, RowChange
from tidings_domain.language.model import Aggregate
from tidings_envelope.toast import is_unavailable

BEGINNING = ""
"""Stands among the names of what is not known for an aggregate that is partial."""
Unknown = tuple[str, ...]
"""Names of fields of the root; of children's children by slot (``lines__parts``, see `Shape.slots`)."""
NOTHING: Unknown = ()


class Knowledge:
    """What can be known of one aggregate class."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._fields = {field.encode_name: field.name for field in msgspec.structs.fields(shape.cls)}
        self._slots = tuple(shape.slots)
        self._plans = {plan.table: (slot, plan) for slot, plan in shape.rows.items()}
        self._root_is_child = shape.root.table in self._plans
        self.everything: Unknown = (BEGINNING, *self._slots)
        """What is not known of an aggregate that was met in an update."""
        self.shape = crc32(",".join(sorted({*self._fields, *self._slots})).encode())
        """Stored with a state; another one says that the state was written by a domain with other fields."""

    def missing(self, stored: Any) -> Unknown:
        """The fields that a stored aggregate, as plain data, lacks."""
        if not isinstance(stored, dict):
            return NOTHING
        missing = [name for column, name in self._fields.items() if column not in stored]
        below = (slot for slot in self._slots if slot not in self._shape.direct)
        return (*missing, *(slot for slot in below if _lacks(stored, slot.split("__"))))

    def after(
        self, before: Aggregate | None, after: Aggregate | None, unknown: Unknown, change_set: ChangeSet
    ) -> Unknown:
        """What is not known after a change set.

        Args:
            before: the aggregate before it.
            after: the aggregate after it.
            unknown: what was not known before it.
            change_set: what has happened.
        """
        if after is None or (before is not None and not unknown):
            return NOTHING
        roots = list(self._roots(change_set))
        # A root that was inserted, read as a whole, or deleted and made anew has nothing below it that was not seen.
        whole = any(root.op in "rd" for root in roots) or _is_begun_by(roots)
        if whole or (before is None and not self._slots):
            return NOTHING
        if before is None:
            return self.everything
        if not roots:
            return unknown
        row = roots[-1].after or {}
        unsent = {self._fields[column] for column in self._fields if is_unavailable(row.get(column))}
        kept = {BEGINNING, *self._slots, *unsent}
        return tuple(name for name in unknown if name in kept)

    def is_found(self, after: Aggregate | None, change_set: ChangeSet) -> bool:
        """Whether a change set about an aggregate of which nothing is known is about one that was there before it."""
        roots = list(self._roots(change_set))
        if roots or after is not None:
            return not _is_begun_by(roots)
        return any(change.op != "d" for change in change_set.rows)

    def inserted(self, change_set: ChangeSet, unknown: Unknown) -> Mapping[str, frozenset[Any]]:
        """By slot whose rows are not all known, the keys of those that the change set has inserted, or a snapshot read."""
        found: dict[str, set[Any]] = {slot: set() for slot in unknown if slot in self._slots}
        for change in change_set.rows if found else ():
            slot, plan = self._plans.get(change.table, ("", None))
            if plan is not None and slot in found and change.op in "cr" and change.after is not None:
                found[slot].add(plan.key(change.after))
        return {slot: frozenset(keys) for slot, keys in found.items()}

    def _roots(self, change_set: ChangeSet) -> Iterator[RowChange]:
        """The changes of the root's row, in their order."""
        shape = self._shape
        for change in change_set.rows:
            if change.table == shape.root.table and (
                not self._root_is_child or names_root(change, shape.cls, change_set.id)
            ):
                yield change


def _is_begun_by(roots: list[RowChange]) -> bool:
    """Whether the first of the root's changes says that nothing was there: it was inserted, or a snapshot has read it."""
    return bool(roots) and (roots[0].op == "c" or any(root.op == "r" for root in roots))


def _lacks(row: Any, path: list[str]) -> bool:
    """Whether any of the plain rows lacks the children at the end of a path."""
    field, *rest = path
    if field not in row:
        return True
    return any(_lacks(below, rest) for below in row[field]) if rest else False
