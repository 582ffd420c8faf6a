"""Of the changes of a row within a batch, what is left of them: at most one delete, and then one write (of
``insert.mode=insert`` all that follow). Pure.

A write lays its columns over those of the one before it, so that values that were not sent (unchanged TOASTed columns) are
those of the former change in the batch, or stay as they are in the table.
"""

from collections.abc import Sequence

from tidings_sinks.jdbc.changes import Op
from tidings_sinks.jdbc.database import Column, Mode, Write
from tidings_sinks.jdbc.tables import Prepared


def newest(changes: Sequence[Prepared]) -> list[Prepared]:
    """The changes with those of a row as few as can be; in the order in which the rows came first.

    A TRUNCATE parts what is before it from what comes after. Rows without a key are all kept.
    """
    found: list[list[Prepared]] = []
    of_row: dict[tuple[object, ...], list[Prepared]] = {}
    for change in changes:
        if change.op is Op.TRUNCATE:
            of_row = {mark: row for mark, row in of_row.items() if mark[0] != change.table}
            found.append([change])
            continue
        assert change.shape is not None
        if not change.shape.write.keys:
            found.append([change])
            continue
        mark = (change.table, *change.values[: change.shape.write.keys])
        row = of_row.get(mark)
        if row is None:
            row = of_row[mark] = [change]
            found.append(row)
        else:
            _add(row, change)
    return [change for row in found for change in row]


def _add(row: list[Prepared], change: Prepared) -> None:
    if change.op is Op.DELETE:
        row[:] = [change]
    elif row and row[-1].write is not None and row[-1].write.mode is not Mode.INSERT:
        row[-1] = _laid_over(row[-1], change)
    else:
        row.append(change)


def _laid_over(former: Prepared, change: Prepared) -> Prepared:
    assert former.write is not None
    assert change.write is not None
    if former.write is change.write or former.write.columns == change.write.columns:
        return change
    values: dict[Column, object] = dict(zip(former.write.columns, former.values, strict=True))
    for column, value in zip(change.write.columns, change.values, strict=True):
        # By name: a column may be staged in another way since.
        old = next((each for each in values if each.name == column.name), None)
        if old is not None and old != column:
            values = {column if each is old else each: item for each, item in values.items()}
        values[column] = value
    write = Write(change.write.table, tuple(values), change.write.keys, change.write.mode)
    return Prepared(change.change, change.table, change.shape, list(values.values()), write)
