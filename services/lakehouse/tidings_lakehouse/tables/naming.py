"""What the columns of a row are called now that have been renamed since it was written. Pure.

A row's field has the name that its column had then, so its present name follows from the row's LSN: ``RENAME COLUMN`` holds
off every other change of its table until it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st


@dataclass(frozen=True, order=True)
class Rename:
    """A column's new name; rows before `lsn` have the former one."""

    lsn: int
    former: str
    name: str


@dataclass(frozen=True)
class Interval:
    """What a field is called now, of rows from one LSN on and before another; None: no limit."""

    name: str
    first: int | None = None
    last: int | None = None

    @property
    def holds_all(self) -> bool:
        """Whether all rows are such."""
        return self.first is None and self.last is None

    def holds(self, lsn: Column) -> Column | None:
        """Whether a row is one of them, or has no LSN; None when all are."""
        conditions = [lsn >= self.first] if self.first is not None else []
        conditions += [lsn < self.last] if self.last is not None else []
        if not conditions:
            return None
        whole = conditions[0] if len(conditions) == 1 else conditions[0] & conditions[1]
        return sf.coalesce(whole, sf.lit(True))


def intervals(field: str, renames: Sequence[Rename], newest: Iterable[str]) -> list[Interval]:
    """What a field of rows is called now.

    Args:
        field: its name in the rows.
        renames: in order.
        newest: fields of the newest rows: if it is not among them, no row has it behind the last rename.
    """
    found: list[Interval] = []
    for number in range(len(renames) + 1):
        name = field
        for rename in renames[number:]:
            name = rename.name if name == rename.former else name
        first = renames[number - 1].lsn if number else None
        last = renames[number].lsn if number < len(renames) else None
        if found and found[-1].name == name:
            found[-1] = Interval(name, found[-1].first, last)
        else:
            found.append(Interval(name, first, last))
    if len(found) > 1 and field not in set(newest):
        former = found[-2]
        found[-2:] = [Interval(former.name, former.first, None)]
    return found


@dataclass(frozen=True)
class Naming:
    """What the fields of a topic's rows are called now."""

    renames: tuple[Rename, ...] = ()
    newest: frozenset[str] = frozenset()
    """See `intervals`."""

    def of(self, field: str) -> list[Interval]:
        """See `intervals`."""
        return intervals(field, self.renames, self.newest)

    def sole(self, field: str) -> str | None:
        """What a field of all rows is called now; None: that depends on the row."""
        called = self.of(field)
        return called[0].name if len(called) == 1 and called[0].holds_all else None

    def renamed(self, row: st.StructType) -> st.StructType:
        """A row's struct with the present names; some may be there twice."""
        if not self.renames:
            return row
        return st.StructType(
            [st.StructField(one.name, field.dataType) for field in row.fields for one in self.of(field.name)]
        )
