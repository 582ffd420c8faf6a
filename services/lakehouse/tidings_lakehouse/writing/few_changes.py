"""Brings a current state up to few changes: the newest of each key is found here, and what it replaces by `held`.

Three jobs of Spark's (the newest changes, the keys sent to where rows are, the rows) cost more than half of what a table with few
changes costs. One thread reads the rows of the files that may have the keys, so these must be few, as in a small table or in some of the
buckets of a large one; and the keys must be such that numbers and texts tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import (
    COMMIT_LSN,
    IS_READ,
    LSN,
    OFFSET,
    OP,
    CurrentShape,
    change_rows,
    with_position,
)
from tidings_lakehouse.spark.held_rows import Deleted, HeldRow, HeldRows, Key
from tidings_lakehouse.spark.plans import Plans, told_of
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.branch import Note
from tidings_lakehouse.tables.positions import PartitionId
from tidings_lakehouse.tables.tables import Table, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_CHANGES: Final = 200
"""Of more keys Iceberg does not compare each with what a file's metadata tell."""
_MOST_ROWS: Final = 200_000
"""Rows of the files that may have the keys, which one thread reads with less work than Spark plans to."""
_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_TEXTS = (st.StringType, st.DecimalType, st.DateType)


@dataclass(frozen=True)
class _Newest:
    """The newest change of a key."""

    row: int
    """Its place among the batch's."""
    op: str
    is_read: bool
    at: tuple[int, int]

    def wins(self, held: HeldRow) -> bool:
        """Whether it is newer than the row that the table holds, or was read at its place."""
        return self.at > held.position or (self.at == held.position and self.is_read)


class FewChanges:
    """Writes them; each topic by one thread at a time."""

    def __init__(self, session: SparkSession, local: LocalRows) -> None:
        self._local = local
        self._held = HeldRows(session)
        self._plans = Plans(local)

    @staticmethod
    def takes(shape: CurrentShape, changes: int) -> bool:
        """Whether the changes are few, and their key one that is understood here."""
        types = {field.name: field.dataType for field in shape.schema.fields}
        return changes <= _MOST_CHANGES and all(
            isinstance(types[name], (*_NUMBERS, *_TEXTS)) for name in shape.keys
        )

    def write(
        self,
        current: Table,
        changes: DataFrame,
        shape: CurrentShape,
        snapshots: Mapping[PartitionId, int],
        note: Note | None,
        behind: Callable[[], None],
    ) -> bool:
        """Have the rows of a current state replaced by the newest changes; False: nothing was done, Spark has to.

        Args:
            changes: of the batch, in memory, all of whose values are known.
            snapshots: see `with_position`.
            behind: is called when the rows are written, and not readable yet.
        """
        names = [] if current.schema is None else current.schema.names

        def placed(rows: DataFrame) -> DataFrame:
            return change_rows(with_position(rows, snapshots, windowed=False), shape)

        def row(rows: DataFrame) -> DataFrame:
            return placed(rows).select(*[quoted(name) for name in names if name in shape.schema.names])

        made_for = (shape, current.schema, dict(snapshots))
        place = (sf.col(COMMIT_LSN), sf.col(LSN), sf.col(IS_READ).cast("int"), sf.col(OFFSET))
        told = told_of(*_key(shape), *place, sf.col(OP))
        found = self._plans.of(current.name, changes, made_for, row, lambda rows: placed(rows).select(told))
        newest = None if found is None else _newest(found[1], len(shape.keys))
        if found is None or newest is None:
            return False
        rows = found[0]
        keys = list(shape.keys)
        if current.rows_held > _MOST_ROWS and not current.looked_at(
            lambda table: self._held.has_few(table, keys, list(newest), _MOST_ROWS)
        ):
            return False

        def replaced(table: Any) -> tuple[Deleted, DataFrame]:
            held = self._held.find(table, keys, list(newest), [COMMIT_LSN, LSN]) if newest else []
            older = [row for row in held if newest[row.key].wins(row)]
            kept = {row.key for row in held} - {row.key for row in older}
            new = sorted(one.row for key, one in newest.items() if key not in kept and one.op != "d")
            return self._held.delete(table, older, keys), self._local.picked(rows, new)

        return current.replace(replaced, note, behind)


def _key(shape: CurrentShape) -> list[Column]:
    """The columns of the key, each as a number or a text."""
    types = {field.name: field.dataType for field in shape.schema.fields}
    return [
        sf.col(quoted(name)) if isinstance(types[name], _NUMBERS) else sf.col(quoted(name)).cast("string")
        for name in shape.keys
    ]


def _newest(told: Sequence[list[Any]], width: int) -> dict[Key, _Newest] | None:
    """The newest change by key; None when a part of a key or of a position is not there."""
    found: dict[Key, tuple[list[Any], _Newest]] = {}
    for number, parts in enumerate(told):
        if None in parts:
            return None
        key, (*order, op) = tuple(parts[:width]), parts[width:]
        if key not in found or order > found[key][0]:
            found[key] = order, _Newest(number, op, bool(order[2]), (order[0], order[1]))
    return {key: newest for key, (_, newest) in found.items()}
