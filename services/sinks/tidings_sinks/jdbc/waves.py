"""In which order changes are written: those of a row one after the other, those of many rows in one statement. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tidings_sinks.jdbc.changes import Op
from tidings_sinks.jdbc.database import Mode, TableName
from tidings_sinks.jdbc.tables import Prepared


@dataclass(slots=True)
class Wave:
    """Changes of rows of one table, at most one delete and then one write of each row."""

    deletes: list[Prepared] = field(default_factory=list)
    writes: list[Prepared] = field(default_factory=list)


def parts(changes: Sequence[Prepared]) -> Iterator[tuple[TableName, list[Prepared]]]:
    """By table, in the order in which tables come; a TRUNCATE stands alone, after what came before it for its table."""
    waiting: dict[TableName, list[Prepared]] = {}
    for change in changes:
        if change.op is Op.TRUNCATE:
            before = waiting.pop(change.table, None)
            if before:
                yield change.table, before
            yield change.table, [change]
        else:
            waiting.setdefault(change.table, []).append(change)
    yield from waiting.items()


def runs(changes: Sequence[Prepared]) -> Iterator[tuple[TableName, list[Prepared]]]:
    """In their order: those that follow one another and can be one statement, because they do the same to different rows of one
    table."""
    run: list[Prepared] = []
    rows: set[tuple[object, ...]] = set()
    for change in changes:
        key = change.key if change.shape is not None and change.shape.write.keys else None
        if run and not (
            change.op is not Op.TRUNCATE
            and (change.table, change.op, change.write) == (run[0].table, run[0].op, run[0].write)
            and key not in rows
        ):
            yield run[0].table, run
            run, rows = [], set()
        run.append(change)
        if key is not None:
            rows.add(key)
    if run:
        yield run[0].table, run


def waves(changes: Iterable[Prepared], *, reduces: bool) -> list[Wave]:
    """The changes of one table: the waves are written one after the other.

    Args:
        reduces: whether a write takes the place of the one before it of the same row.
    """
    found: list[Wave] = []
    of_row: dict[tuple[object, ...], list[Prepared]] = {}
    for number, change in enumerate(changes):
        keyed = change.shape is not None and change.shape.write.keys > 0
        _append(of_row.setdefault(change.key if keyed else (None, number), []), change, reduces=reduces)
    for row in of_row.values():
        _spread(row, found)
    return found


def _append(row: list[Prepared], change: Prepared, *, reduces: bool) -> None:
    if row and change.op is Op.DELETE and row[-1].op is Op.DELETE:
        return  # the tombstone after a delete
    if reduces and change.op is Op.DELETE:
        row.clear()
    elif reduces and row and _replaces(change, row[-1]):
        row.pop()
    row.append(change)


def _replaces(change: Prepared, former: Prepared) -> bool:
    """Whether nothing of the former write is left after this one."""
    if former.write is None or change.write is None or change.write.mode not in (Mode.UPSERT, Mode.UPDATE):
        return False
    return set(former.write.columns) <= set(change.write.columns)


def _spread(row: Sequence[Prepared], found: list[Wave]) -> None:
    number, written = 0, False
    for place, change in enumerate(row):
        if place and (written or change.op is Op.DELETE):
            number += 1
        if number == len(found):
            found.append(Wave())
        written = change.op is Op.WRITE
        (found[number].writes if written else found[number].deletes).append(change)
