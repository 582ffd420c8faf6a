"""An aggregate's state: what is kept of it between transactions, and how a change set moves it on.

The state is msgpack of ``[format, commit LSN, aggregate, orphans, done]``: the aggregate as its author declared it (or
nil), child rows that came before their root (or nil), and the ids of the rules that have had their one say. Fields are
stored by name, so that a definition may lose fields, and may gain those that have a default, without a rebuild.

A deleted aggregate keeps its commit position, so that a repeated older change set does not bring it back to life.
"""

from collections.abc import Callable
from types import GenericAlias
from typing import Any, cast

import msgspec

from tidings_translator.changes import ChangeSet, RowChange, identity
from tidings_translator.errors import StateError
from tidings_translator.model import Aggregate, Row
from tidings_translator.rows import References, RowPlan

FORMAT = 1
Children = dict[str, tuple[Row, ...]]
_UNTOUCHED = object()


class State(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of one aggregate. Plans subclass it with the aggregate's own types."""

    format: int
    commit_lsn: int
    aggregate: Any = None
    orphans: Any = None
    done: tuple[str, ...] = ()


class ChildPlan(msgspec.Struct, frozen=True):
    """How rows of a child table become a field of the aggregate."""

    field: str
    by: tuple[str, ...]
    rows: RowPlan


class AggregatePlan:
    """Everything about an aggregate class that can be worked out once."""

    def __init__(self, cls: type[Aggregate]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.root = RowPlan(cls)
        self.children = {
            relation.row.__table__: ChildPlan(field, relation.by, RowPlan(relation.row))
            for field, relation in cls.__relations__.items()
            if relation.kind == "children"
        }
        lists: list[tuple[str, Any, Any]] = [
            (child.field, GenericAlias(tuple, (child.rows.cls, ...)), ()) for child in self.children.values()
        ]
        self._orphans = msgspec.defstruct(f"{self.name}Orphans", lists, frozen=True, omit_defaults=True)
        self._state = msgspec.defstruct(
            f"{self.name}State",
            [
                ("aggregate", cls | None, None),
                ("orphans", self._orphans | None, None),
                ("done", tuple[str, ...], ()),
            ],
            bases=(State,),
            frozen=True,
            array_like=True,
        )
        self._decoder: msgspec.msgpack.Decoder[State] = msgspec.msgpack.Decoder(self._state)
        self._encoder = msgspec.msgpack.Encoder()

    def decode(self, state: bytes) -> State:
        """The state that `encode` wrote.

        Raises:
            StateError: it was written by another definition of the aggregate.
        """
        try:
            decoded = self._decoder.decode(state)
        except msgspec.DecodeError as error:
            raise StateError(
                f"the stored state of {self.name} does not fit its definition: {error}",
                hint="give a new field a default, or rebuild the state from the technical topics",
            ) from error
        if decoded.format != FORMAT:
            raise StateError(
                f"the stored state of {self.name} has format {decoded.format}, this version reads {FORMAT}"
            )
        return decoded

    def encode(
        self, commit_lsn: int, aggregate: Aggregate | None, orphans: Children | None, done: tuple[str, ...]
    ) -> bytes:
        """The state as bytes."""
        return self._encoder.encode((FORMAT, commit_lsn, aggregate, orphans or None, done))

    def orphans_of(self, state: State | None) -> Children:
        """The child rows that wait for their root, by field."""
        if state is None or state.orphans is None:
            return {}
        return {child.field: getattr(state.orphans, child.field) for child in self.children.values()}

    def advance(
        self, before: Aggregate | None, orphans: Children, change_set: ChangeSet
    ) -> tuple[Aggregate | None, Children]:
        """The aggregate and the orphans after a change set.

        Raises:
            RowError: a row does not fit the declared columns.
        """
        return _Advance(self, before, orphans, change_set).run()


class _Advance:
    """One change set being applied: the root's last row, and the child rows of every table it touches by key."""

    def __init__(
        self, plan: AggregatePlan, before: Aggregate | None, orphans: Children, change_set: ChangeSet
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
            if child is not None:
                self._child(child, change)
            elif change.table == root_table:
                self._root(change)
        changed: dict[str, Any] = {field: _by_key(rows) for field, rows in self.touched.items()}
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
        if _belongs(after, child.by, self.change_set.id):
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


def _by_key(rows: dict[Any, Row]) -> tuple[Row, ...]:
    return tuple(rows[key] for key in sorted(rows)) if len(rows) > 1 else tuple(rows.values())


def _belongs(row: dict[str, Any], by: tuple[str, ...], aggregate_id: str) -> bool:
    if len(by) == 1:
        return str(row.get(by[0])) == aggregate_id
    return identity(row, by) == aggregate_id
