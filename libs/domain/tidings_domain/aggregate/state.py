"""Encodes an aggregate's state between transactions, and applies change sets to it.

The state is msgpack of ``[format, commit LSN, aggregate, orphans, done, unknown, shape]``: the aggregate as its author
declared it (or nil), child rows that came before their root (or nil), the ids of the rules that have had their one say, and
what is not known of it, with the number of the fields that it was written with (see `knowledge`; states of earlier versions
lack the last two, and these versions read states with them). Fields are stored by name, so that a definition may lose fields,
and may gain those that have a default, without a rebuild.
"""

from types import GenericAlias
from typing import Any

import msgspec

from tidings_domain.aggregate.advance import Advance, Children, Shape
from tidings_domain.aggregate.knowledge import NOTHING, Knowledge, Unknown
from tidings_domain.aggregate.nested_advance import NestedAdvance
from tidings_domain.aggregate.required import Required
from tidings_domain.changes import ChangeSet, identity
from tidings_domain.errors import StateError
from tidings_domain.language.model import Aggregate

FORMAT = 1


class State(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of one aggregate. Plans subclass it with the aggregate's own types."""

    format: int
    commit_lsn: int
    aggregate: Any = None
    orphans: Any = None
    done: tuple[str, ...] = ()
    unknown: Unknown = NOTHING
    shape: int = 0


class AggregatePlan:
    """Everything about an aggregate class that can be worked out once."""

    def __init__(self, cls: type[Aggregate]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self._shape = Shape(cls)
        self.knowledge = Knowledge(self._shape)
        self.required = Required(self._shape)
        self._advance = NestedAdvance if self._shape.nested else Advance
        self._keys = {cls.__table__: cls.__key__} | {
            row.__table__: row.__key__ for row in self._shape.slots.values()
        }
        lists: list[tuple[str, Any, Any]] = [
            (slot, GenericAlias(tuple, (row, ...)), ()) for slot, row in self._shape.slots.items()
        ]
        self._orphans = msgspec.defstruct(f"{self.name}Orphans", lists, frozen=True, omit_defaults=True)
        self._state = msgspec.defstruct(
            f"{self.name}State",
            [
                ("aggregate", cls | None, None),
                ("orphans", self._orphans | None, None),
                ("done", tuple[str, ...], ()),
                ("unknown", tuple[str, ...], NOTHING),
                ("shape", int, 0),
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

    def unknown(self, state: bytes, decoded: State) -> Unknown:
        """What is not known of the aggregate in a state, fields that the definition has got since it was written included."""
        if decoded.shape == self.knowledge.shape or decoded.aggregate is None:
            return decoded.unknown
        missing = self.knowledge.missing(msgspec.msgpack.decode(state)[2])
        return (*decoded.unknown, *(name for name in missing if name not in decoded.unknown))

    def encode(
        self,
        commit_lsn: int,
        aggregate: Aggregate | None,
        orphans: Children | None,
        done: tuple[str, ...],
        unknown: Unknown = NOTHING,
    ) -> bytes:
        """The state as bytes."""
        return self._encoder.encode(
            (FORMAT, commit_lsn, aggregate, orphans or None, done, unknown, self.knowledge.shape)
        )

    def orphans_of(self, state: State | None) -> Children:
        """The child rows that wait for their root, or for the row above them, by slot."""
        if state is None or state.orphans is None:
            return {}
        return {slot: getattr(state.orphans, slot) for slot in self._shape.slots}

    def snapshot_rows(self, change_set: ChangeSet) -> list[str]:
        """What tells a snapshot's change set from the others of its aggregate, which have the same position: the keys of its
        rows, and of the rows that they refer to as far as these were known. (A row is told again when one that it refers to is
        read behind it.)"""
        rows = []
        for row in change_set.rows:
            known = row.after if row.after is not None else row.before
            if known is not None and row.table in self._keys:
                rows.append(f"{row.op}/{row.table}/{identity(known, self._keys[row.table])}")
        referred = [f"{table}/{key}" for table, known in change_set.references.items() for key in known]
        return rows + sorted(referred)

    def advance(
        self, before: Aggregate | None, orphans: Children, change_set: ChangeSet
    ) -> tuple[Aggregate | None, Children]:
        """The aggregate and the orphans after a change set.

        Raises:
            RowError: a row does not fit the declared columns.
        """
        return self._advance(self._shape, before, orphans, change_set).run()
