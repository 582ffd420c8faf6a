"""System-versioned tables: their log has former rows too, which the records leave out, so that they tell of the table as it is. Pure.

The server writes an UPDATE as that and a new row, which is the former one with the time at which it ended; a DELETE as an UPDATE
that sets this time; and rows of the past as they are made or removed. Reference: MariaDB documentation, "System-Versioned Tables".
"""

from dataclasses import dataclass, replace
from typing import Final

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import MISSING, Cells
from tidings_capture.mysql.binlog.table_map import LoggedColumn, TableMap
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.schemas.catalog import HIDDEN, Table

_NO_END: Final = frozenset({2_147_483_647_999_999, 4_294_967_295_999_999})
"""The last TIMESTAMP(6), up to MariaDB 11.4 and later: the row is one of now."""
_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class Versioned:
    """Of a table that is versioned."""

    ends: int
    """The number of the column that says when a row has ended."""
    hidden: int
    """Columns at the end that only ``FOR SYSTEM_TIME`` shows."""

    def visible(self, mapped: TableMap) -> TableMap:
        """A table without what is hidden, and without the time in its key, which is the same for all rows of now."""
        ends = mapped.columns[self.ends].name
        columns = mapped.columns[: len(mapped.columns) - self.hidden]
        return replace(mapped, columns=columns, key=tuple(name for name in mapped.key if name != ends))

    def now(self, cells: Cells | None) -> Cells | None:
        """A row, if it is one of now: a change to one of the past is a row that is gone.

        Raises:
            UnsupportedError: the log does not say so.
        """
        if cells is None:
            return None
        if cells[self.ends] is MISSING:
            raise UnsupportedError(
                "the log does not tell when a row of a system-versioned table has ended",
                hint="SET GLOBAL binlog_row_image=FULL; sessions that are open keep what they had. Then take a new snapshot",
            )
        return cells if cells[self.ends] in _NO_END else None


def versioned(mapped: TableMap, now: Table | None) -> Versioned | None:
    """Whether a table of the log is versioned, by what the server knows of it now.

    Raises:
        UnsupportedError: nobody knows.
    """
    count = len(mapped.columns)
    has_hidden = tuple(column.name for column in mapped.columns[-2:]) == HIDDEN and all(
        map(_is_time, mapped.columns[-2:])
    )
    if now is not None and now.ends is not None:
        if now.ends != HIDDEN[1]:
            places = [
                i for i, column in enumerate(mapped.columns) if column.name == now.ends and _is_time(column)
            ]
            return Versioned(places[0], 0) if places else None
        seen = any(column.name == HIDDEN[1] for column in now.columns)
        return Versioned(count - 1, 0 if seen else 2) if has_hidden else None
    if not has_hidden or (now is not None and {column.name for column in now.columns}.issuperset(HIDDEN)):
        return None
    if not mapped.key:
        raise UnsupportedError(
            f"{mapped.name} was altered after rows of it were written that are read now, and the log does not say whether"
            f" it was system-versioned then",
            hint="take a new snapshot, or leave the table out with table.exclude.list",
        )
    return Versioned(count - 1, 2) if HIDDEN[1] in mapped.key else None


def _is_time(column: LoggedColumn) -> bool:
    return column.type == kinds.TIMESTAMP2 and column.meta == _DECIMALS
