"""Rows of which the log leaves out columns (``binlog_row_image``): what can be known of them. Pure.

``FULL_NODUP`` leaves out of the row after an update what has not changed, and tells it in the row before. ``NOBLOB`` leaves
TEXT and BLOB out of the row before; behind it, those that have not changed. ``MINIMAL`` tells before it the key
alone, and behind it what was set; of a new row, what the statement has named. A table without a key has whole rows before.

MariaDB takes a VIRTUAL column for one that no statement sets: behind an update these images leave it out, though its value may be
another one, unless it is in an index (seen in the logs of 11.4; MySQL's images have it where it has changed).
"""

from collections.abc import Collection, Sequence

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import MISSING, Cells
from tidings_capture.mysql.binlog.table_map import LoggedColumn


def completed(
    op: str, rows: Sequence[Cells], columns: Sequence[LoggedColumn], unset: Collection[int] = ()
) -> list[Cells]:
    """The rows of an event, with what follows from what is told; what does not stays `MISSING`.

    Args:
        op: ``c``, ``u`` (rows before and after by turns) or ``d``.
        unset: places of columns that may have changed where an image leaves them out.
    """
    if op == "d":
        return list(rows)
    if op == "c":
        return [
            tuple(_left_out(c) if v is MISSING else v for v, c in zip(row, columns, strict=True))
            for row in rows
        ]
    found = []
    for place in range(0, len(rows), 2):
        before, after = rows[place], rows[place + 1]
        both = enumerate(zip(before, after, strict=True))
        found += [before, tuple(b if a is MISSING and i not in unset else a for i, (b, a) in both)]
    return found


def _left_out(column: LoggedColumn) -> object:
    """The cell of a new row's column that the statement has not named. A TEXT or BLOB that has a default is told all the same,
    since that is an expression to the server; the defaults of others are not known of the moment of the statement.
    """
    if column.type != kinds.BLOB:
        return MISSING
    if column.nullable:
        return None
    return b"" if column.collation == kinds.BINARY else ""
