"""A batch column by column: what is asked of all its records at once, without an object for each of them.

Only of plain batches: rows and deletes, of each topic by one schema. None says that a batch is to be taken record by record,
which tells what is wrong with which record, and knows TRUNCATE, values that were not sent and columns that change within a
batch. Both ways write the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.toast import PLACEHOLDERS, is_unavailable
from tidings_sinks.errors import RowError
from tidings_sinks.jdbc.changes import ENVELOPE, Changes
from tidings_sinks.jdbc.database import Column, Encode, Mode, TableName, Write
from tidings_sinks.jdbc.settings import KeyMode, Settings
from tidings_sinks.jdbc.tables import Shape, Tables


class _NotPlainError(Exception):
    """The batch is to be taken record by record."""


_KEY_MODES: Final = frozenset({KeyMode.NONE, KeyMode.RECORD_KEY, KeyMode.RECORD_VALUE})
_NOT_PLAIN: Final = (
    _NotPlainError, RowError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError
)  # fmt: skip
"""Raised of a record that cannot be a row: which one it is, is found out record by record."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """What a batch does to a table: first the deletes, then the writes."""

    table: TableName
    keys: tuple[Column, ...]
    """Of the deletes."""
    deletes: Sequence[Sequence[Any]]
    """Keys, row by row."""
    form: Write | None
    columns: Sequence[Sequence[Any]]
    """The values of each column of `form`."""


@dataclass(slots=True)
class _Records:
    """Of one topic, in their order."""

    key_schema: ConnectSchema | None
    value_schema: ConnectSchema | None = None
    of_envelopes: bool = False
    first_write: SinkRecord | None = None
    first_delete: SinkRecord | None = None
    keys: list[Any] = field(default_factory=list)
    rows: list[Mapping[str, Any] | None] = field(default_factory=list)
    """None: a delete."""


def by_columns(
    batch: Sequence[SinkRecord], changes: Changes, tables: Tables, settings: Settings, *, reduces: bool
) -> list[TableBatch] | None:
    """What a batch does, by table; None where it is not plain.

    Args:
        reduces: whether of several changes of a row the last alone is written; else a batch that has them is not plain.

    Raises:
        TargetError: see `Tables.prepare`.
    """
    if settings.key_mode not in _KEY_MODES:
        return None
    topics: dict[tuple[str, str], _Records] = {}
    try:
        for record in batch:
            mark = (record.topic, record.original.topic)
            records = topics.get(mark)
            if records is None:
                records = topics[mark] = _Records(record.key_schema)
            if not _add(records, record):
                return None
        found = [_of_table(records, changes, tables, settings, reduces) for records in topics.values()]
    except _NOT_PLAIN:
        return None
    return found if len(found) == len({each.table for each in found}) else None


def _add(records: _Records, record: SinkRecord) -> bool:
    """Whether a record is like those of its topic before it."""
    if record.key_schema is not records.key_schema:
        return False
    row = record.value
    if row is not None:
        if record.value_schema is None:
            return False
        if record.value_schema is not records.value_schema:
            if records.value_schema is not None or type(row) is not dict:
                return False  # other columns than before, or none
            records.value_schema = record.value_schema
            records.of_envelopes = ENVELOPE.issubset(row)
        if records.of_envelopes:
            op = row["op"]
            row = row["after"]
            if op == "d":
                row = None
            elif row is None or op not in ("c", "r", "u"):
                return False
    if row is None:
        records.first_delete = records.first_delete or record
    else:
        records.first_write = records.first_write or record
    records.keys.append(record.key)
    records.rows.append(row)
    return True


def _of_table(
    records: _Records, changes: Changes, tables: Tables, settings: Settings, reduces: bool
) -> TableBatch:
    first, first_delete = records.first_write, records.first_delete
    if first is None or changes.table_of(first.topic) is None:
        raise _NotPlainError  # the envelopes of a topic may be of several tables
    write, delete = _shape(first, changes, tables), _shape(first_delete or first, changes, tables)
    form = write.write
    if first_delete is not None and (
        settings.key_mode is not KeyMode.RECORD_KEY or not settings.deletes or form.mode is Mode.INSERT
    ):
        raise _NotPlainError
    rows = [row for row in records.rows if row is not None]
    columns = _columns(write, rows, of_envelopes=records.of_envelopes)
    if not form.columns:
        raise _NotPlainError
    if not form.keys:
        return TableBatch(form.table, (), (), form, columns)
    by_value = settings.key_mode is KeyMode.RECORD_VALUE
    names = settings.key_fields or tuple(rows[0] if by_value else first.key)
    keys = _keys(write, names, rows if by_value else records.keys)
    marks = keys[0] if form.keys == 1 else list(zip(*keys, strict=True))
    chosen, gone, count = _last(marks, records.rows)
    if not reduces and (len(chosen) < len(rows) or len(chosen) + len(gone) > count):
        raise _NotPlainError
    if first_delete is not None:
        written = [place for place, row in enumerate(records.rows) if row is not None]
        keys_of_rows = [_chosen(key, written) for key in keys]
    else:
        keys_of_rows = keys
    columns = [*keys_of_rows, *columns]
    if form.mode is not Mode.INSERT and len(chosen) < len(rows):
        columns = [_chosen(column, chosen) for column in columns]
    deletes = [[key[place] for key in keys] for place in gone]
    return TableBatch(form.table, delete.keys, deletes, form if chosen else None, columns)


def _shape(record: SinkRecord, changes: Changes, tables: Tables) -> Shape:
    change = changes.read(record)
    shape = None if change is None else tables.prepare(change).shape
    if shape is None:
        raise _NotPlainError
    return shape


def _columns(shape: Shape, rows: Sequence[Mapping[str, Any]], *, of_envelopes: bool) -> list[list[Any]]:
    """The values of the row's columns, without the key's; each was sent."""
    columns = [[row[name] for row in rows] for name in shape.fields]
    keys = shape.write.keys
    if of_envelopes:
        missable = (columns[place - keys] for place in shape.may_miss)
        misses = (
            any(map(_misses, missable))
            if shape.texts is None
            else not all(map(PLACEHOLDERS.isdisjoint, missable))
        )
        if misses:
            raise _NotPlainError
    for place, encode in shape.encoders:
        columns[place - keys] = _encoded(encode, columns[place - keys])
    return columns


def _misses(values: Sequence[Any]) -> bool:
    return any(map(is_unavailable, values))


def _keys(shape: Shape, names: Sequence[str], given: Sequence[Any]) -> list[list[Any]]:
    """The values of the key's columns, of all records; none is null."""
    columns = [[key[name] for key in given] for name in names]
    for place, encode in shape.key_encoders:
        columns[place] = _encoded(encode, columns[place])
    if len(columns) != shape.write.keys or any(None in column for column in columns):
        raise _NotPlainError
    return columns


def _encoded(encode: Encode, values: Sequence[Any]) -> list[Any]:
    return [None if value is None else encode(value) for value in values]


def _chosen(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]


def _last(marks: Sequence[Any], rows: Sequence[Mapping[str, Any] | None]) -> tuple[list[int], list[int], int]:
    """Of each key the number of the write that is left, and the place of its last delete; and how many keys there are. A write
    behind a delete begins with a new row, so that both are left."""
    left: dict[Any, int] = {}
    gone: dict[Any, int] = {}
    number = 0
    for place, (mark, row) in enumerate(zip(marks, rows, strict=True)):
        if row is None:
            left[mark] = -1
            gone[mark] = place
        else:
            left[mark] = number
            number += 1
    return [number for number in left.values() if number >= 0], list(gone.values()), len(left)
