"""Writes changes, of each row as few as `newest` has left: a table's deletes in one statement, then its writes in one for each
set of columns."""

from collections.abc import Iterable, Sequence

from tidings_sinks.jdbc.changes import Op
from tidings_sinks.jdbc.columns import TableBatch
from tidings_sinks.jdbc.database import Column, Database, Write
from tidings_sinks.jdbc.tables import Prepared
from tidings_sinks.jdbc.waves import parts
from tidings_sinks.warehouse.duck import DuckDatabase


def write_by_columns(database: DuckDatabase, batches: Iterable[TableBatch]) -> None:
    """The same of what was made of a batch column by column."""
    for each in batches:
        if each.deletes:
            database.delete(each.table, each.keys, each.deletes)
        if each.form is not None:
            database.write_columns(each.form, each.columns)


def write(database: Database, changes: Sequence[Prepared]) -> None:
    """Write them within the transaction that is open.

    Raises:
        DataProblemError: one of them is refused; the transaction is of no use any more.
    """
    for table, some in parts(changes):
        if some[0].op is Op.TRUNCATE:
            if some[0].empties:
                database.truncate(table)
            continue
        deletes: dict[tuple[Column, ...], list[Sequence[object]]] = {}
        writes: dict[Write, list[Sequence[object]]] = {}
        form: Write | None = None
        rows: list[Sequence[object]] = []
        for change in some:
            assert change.shape is not None
            if change.write is None:
                deletes.setdefault(change.shape.keys, []).append(change.key)
                continue
            if change.write is not form:  # a form's hash is that of all its columns: taken when it changes
                form = change.write
                rows = writes.setdefault(form, [])
            rows.append(change.values)
        for keys, given in deletes.items():
            database.delete(table, keys, given)
        for each, given in writes.items():
            database.write(each, given)
