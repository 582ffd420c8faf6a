"""A batch column by column: what is asked of all its records at once, without an object for each of them.

Only of plain batches: rows and deletes, of each topic by one schema. None says that a batch is to be taken record by record,
which tells what is wrong with which record, and knows TRUNCATE, values that were not sent and columns that change within a
batch. Both ways write the same rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from tidings_connect.data.columns import OptionalColumn, StructColumn
from tidings_connect.task.sink import SinkRecord, TopicColumns
from tidings_envelope.errors import DecodeError
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.toast import PLACEHOLDER_PARTS, PLACEHOLDERS, is_unavailable
from tidings_sinks.errors import RowError
from tidings_sinks.jdbc.changes import ENVELOPE, Changes
from tidings_sinks.jdbc.database import Column, Mode, TableName, Write
from tidings_sinks.jdbc.kinds import read_many
from tidings_sinks.jdbc.settings import KeyMode, Settings
from tidings_sinks.jdbc.tables import Shape, Tables


class _NotPlainError(Exception):
    """The batch is to be taken record by record."""


_KEY_MODES: Final = frozenset({KeyMode.NONE, KeyMode.RECORD_KEY, KeyMode.RECORD_VALUE})
_WRITES: Final = frozenset("cru")
_DELETE: Final = "d"
_WRITES_AND_DELETE: Final = _WRITES | {_DELETE}
_NOT_PLAIN: Final = (
    _NotPlainError, RowError, DecodeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError
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
class _Topic:
    """What one topic has of a batch, in the order of its records: of one schema of keys, and one of rows."""

    first_write: SinkRecord
    first_delete: SinkRecord | None
    of_envelopes: bool
    count: int
    """Of records."""
    writes: Sequence[int] | None
    """The places of those that are writes; the others are deletes. None: all are."""
    key: Callable[[str], list[Any]]
    """Gives a field of the keys, of all records."""
    row: Callable[[str], list[Any]]
    """Gives a field of the rows."""
    may_hold: Callable[[bytes], bool]
    """See `StructColumn.may_hold`; of the rows."""


@dataclass(frozen=True, slots=True)
class KeptColumns:
    """The same of records that wait: every value has been read, so that nothing else of the records is kept."""

    given: _Topic
    keys: Mapping[str, list[Any]]
    rows: Mapping[str, list[Any]]
    key_schema: ConnectSchema
    value_schema: ConnectSchema


def by_columns(
    batch: Sequence[SinkRecord], changes: Changes, tables: Tables, settings: Settings, *, reduces: bool
) -> list[TableBatch] | None:
    """What a batch does, by table; None where it is not plain.

    Args:
        reduces: whether of several changes of a row the last alone is written; else a batch that has them is not plain.

    Raises:
        TargetError: see `Tables.prepare`.
    """
    topics: dict[tuple[str, str], _Records] = {}

    def found() -> Iterator[_Topic]:
        for record in batch:
            mark = (record.topic, record.original.topic)
            records = topics.get(mark)
            if records is None:
                records = topics[mark] = _Records(record.key_schema)
            records.add(record)
        for records in topics.values():
            yield records.topic()

    return _by_table(found(), changes, tables, settings, reduces)


def by_topic_columns(
    batch: Sequence[TopicColumns], changes: Changes, tables: Tables, settings: Settings, *, reduces: bool
) -> list[TableBatch] | None:
    """The same of a batch that is columns already (`SinkTask.put_columns`)."""
    return _by_table(map(_of_columns, batch), changes, tables, settings, reduces)


def has_columns(settings: Settings) -> bool:
    """Whether batches can be plain at all."""
    return settings.key_mode in _KEY_MODES


def kept(given: TopicColumns) -> KeptColumns | None:
    """What one topic has of a batch, to be written later; None where it is not plain."""
    try:
        topic = _of_columns(given)
        schema, first = given.value_schema, topic.first_write.value
        assert schema is not None
        keys = {name: column() for name, column in given.keys.fields.items()}
        rows = {name: topic.row(name) for name in (first["after"] if topic.of_envelopes else first)}
    except _NOT_PLAIN:
        return None
    may_miss = any(map(topic.may_hold, PLACEHOLDER_PARTS))
    topic = replace(topic, key=keys.__getitem__, row=rows.__getitem__, may_hold=lambda _: may_miss)
    return KeptColumns(topic, keys, rows, given.key_schema, schema)


def by_kept_columns(
    batch: Sequence[KeptColumns], changes: Changes, tables: Tables, settings: Settings, *, reduces: bool
) -> list[TableBatch] | None:
    """As `by_columns`, of what has waited, in its order; of each topic it has the same schemas."""
    topics: dict[str, list[KeptColumns]] = {}
    for each in batch:
        topics.setdefault(each.given.first_write.topic, []).append(each)
    return _by_table(map(_joined, topics.values()), changes, tables, settings, reduces)


def _joined(parts: Sequence[KeptColumns]) -> _Topic:
    """What one topic has of several batches."""
    if len(parts) == 1:
        return parts[0].given
    topics = [part.given for part in parts]
    writes: list[int] | None = None
    if any(topic.writes is not None for topic in topics):
        writes, begin = [], 0
        for topic in topics:
            places = range(topic.count) if topic.writes is None else topic.writes
            writes += [begin + place for place in places]
            begin += topic.count
    return replace(
        topics[0],
        first_delete=next((topic.first_delete for topic in topics if topic.first_delete is not None), None),
        count=sum(topic.count for topic in topics),
        writes=writes,
        key=lambda name: list(chain.from_iterable(part.keys[name] for part in parts)),
        row=lambda name: list(chain.from_iterable(part.rows[name] for part in parts)),
        may_hold=lambda data: any(topic.may_hold(data) for topic in topics),
    )


def _by_table(
    topics: Iterable[_Topic], changes: Changes, tables: Tables, settings: Settings, reduces: bool
) -> list[TableBatch] | None:
    if not has_columns(settings):
        return None
    try:
        found = [_of_table(topic, changes, tables, settings, reduces) for topic in topics]
    except _NOT_PLAIN:
        return None
    return found if len(found) == len({each.table for each in found}) else None


@dataclass(slots=True)
class _Records:
    """Records of one topic, in their order."""

    key_schema: ConnectSchema | None
    value_schema: ConnectSchema | None = None
    of_envelopes: bool = False
    first_write: SinkRecord | None = None
    first_delete: SinkRecord | None = None
    keys: list[Any] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    def add(self, record: SinkRecord) -> None:
        """Take a record; raises `_NotPlainError` where it is not like those before it."""
        if record.key_schema is not self.key_schema:
            raise _NotPlainError
        row = record.value
        if row is not None:
            if record.value_schema is None:
                raise _NotPlainError
            if record.value_schema is not self.value_schema:
                if self.value_schema is not None or type(row) is not dict:
                    raise _NotPlainError  # other columns than before, or none
                self.value_schema = record.value_schema
                self.of_envelopes = ENVELOPE.issubset(row)
            if self.of_envelopes:
                op = row["op"]
                row = row["after"]
                if op == _DELETE:
                    row = None
                elif row is None or op not in _WRITES:
                    raise _NotPlainError
        if row is None:
            self.first_delete = self.first_delete or record
        else:
            self.first_write = self.first_write or record
            self.writes.append(len(self.keys))
            self.rows.append(row)
        self.keys.append(record.key)

    def topic(self) -> _Topic:
        """All of them."""
        if self.first_write is None:
            raise _NotPlainError
        return _Topic(
            self.first_write,
            self.first_delete,
            self.of_envelopes,
            len(self.keys),
            self.writes if self.first_delete is not None else None,
            lambda name: [key[name] for key in self.keys],
            lambda name: [row[name] for row in self.rows],
            lambda _: True,
        )


def _of_columns(given: TopicColumns) -> _Topic:
    if given.values is None or given.value_schema is None:
        raise _NotPlainError
    of_envelopes = ENVELOPE.issubset(each.name for each in given.value_schema.fields)
    rows, places = given.values, given.places
    if of_envelopes:
        rows, within = _rows_of(given.values)
        if within is not None:
            places = within if places is None else [places[place] for place in within]
    if places is not None and not places:
        raise _NotPlainError
    first_delete = None
    count = given.keys.count
    if places is not None:
        written = set(places)
        first_delete = given.record(next(place for place in range(count) if place not in written))
    return _Topic(
        given.record(0 if places is None else places[0]),
        first_delete,
        of_envelopes,
        count,
        places,
        lambda name: given.keys.fields[name](),
        lambda name: rows.fields[name](),
        rows.may_hold,
    )


def _rows_of(envelopes: StructColumn) -> tuple[StructColumn, Sequence[int] | None]:
    """The rows after writes, and the places of these among envelopes, of which the others are deletes; None: all are."""
    ops, after = envelopes.fields["op"](), envelopes.fields["after"]
    kinds = set(ops)
    if isinstance(after, OptionalColumn) and isinstance(after.values, StructColumn):
        places = after.places
        writes = [place for place, op in enumerate(ops) if op != _DELETE]
        if kinds <= _WRITES_AND_DELETE and writes == places:
            return after.values, places
    elif isinstance(after, StructColumn) and kinds <= _WRITES:
        return after, None
    raise _NotPlainError


def _of_table(
    topic: _Topic, changes: Changes, tables: Tables, settings: Settings, reduces: bool
) -> TableBatch:
    first, first_delete = topic.first_write, topic.first_delete
    if changes.table_of(first.topic) is None:
        raise _NotPlainError  # the envelopes of a topic may be of several tables
    write, delete = _shape(first, changes, tables), _shape(first_delete or first, changes, tables)
    form = write.write
    if first_delete is not None and (
        settings.key_mode is not KeyMode.RECORD_KEY or not settings.deletes or form.mode is Mode.INSERT
    ):
        raise _NotPlainError
    columns = _columns(write, topic)
    if not form.columns:
        raise _NotPlainError
    if not form.keys:
        return TableBatch(form.table, (), (), form, columns)
    if settings.key_mode is KeyMode.RECORD_VALUE:
        keys = _keys(write, settings.key_fields or tuple(_row(first, changes)), topic.row)
    else:
        keys = _keys(write, settings.key_fields or tuple(first.key), topic.key)
    marks = keys[0] if form.keys == 1 else list(zip(*keys, strict=True))
    written = topic.count if topic.writes is None else len(topic.writes)
    chosen, gone, count = _last(marks, topic.writes)
    if not reduces and (len(chosen) < written or len(chosen) + len(gone) > count):
        raise _NotPlainError
    keys_of_rows = keys if topic.writes is None else [_chosen(key, topic.writes) for key in keys]
    columns = [*keys_of_rows, *columns]
    if form.mode is not Mode.INSERT and len(chosen) < written:
        columns = [_chosen(column, chosen) for column in columns]
    deletes = [[key[place] for key in keys] for place in gone]
    return TableBatch(form.table, delete.keys, deletes, form if chosen else None, columns)


def _shape(record: SinkRecord, changes: Changes, tables: Tables) -> Shape:
    change = changes.read(record)
    shape = None if change is None else tables.prepare(change).shape
    if shape is None:
        raise _NotPlainError
    return shape


def _row(record: SinkRecord, changes: Changes) -> Mapping[str, Any]:
    change = changes.read(record)
    assert change is not None
    assert change.row is not None
    return change.row


def _columns(shape: Shape, topic: _Topic) -> list[list[Any]]:
    """The values of the row's columns, without the key's; each was sent."""
    columns = [topic.row(name) for name in shape.fields]
    keys = shape.write.keys
    if topic.of_envelopes and _misses(shape, topic, [columns[place - keys] for place in shape.may_miss]):
        raise _NotPlainError
    for place, encode in shape.encoders:
        columns[place - keys] = read_many(encode, columns[place - keys])
    return columns


def _misses(shape: Shape, topic: _Topic, columns: Sequence[list[Any]]) -> bool:
    """Whether a value of these columns may not have been sent."""
    if shape.texts is None:
        return any(any(map(is_unavailable, column)) for column in columns)
    return any(map(topic.may_hold, PLACEHOLDER_PARTS)) and not all(map(PLACEHOLDERS.isdisjoint, columns))


def _keys(shape: Shape, names: Sequence[str], field_of: Callable[[str], list[Any]]) -> list[list[Any]]:
    """The values of the key's columns, of all records; none is null."""
    columns = [field_of(name) for name in names]
    for place, encode in shape.key_encoders:
        columns[place] = read_many(encode, columns[place])
    if len(columns) != shape.write.keys or any(None in column for column in columns):
        raise _NotPlainError
    return columns


def _chosen(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]


def _last(marks: Sequence[Any], writes: Sequence[int] | None) -> tuple[Sequence[int], list[int], int]:
    """Of each key the number of the write that is left, and the place of its last delete; and how many keys there are. A write
    behind a delete begins with a new row, so that both are left."""
    if writes is None:
        last = dict(zip(marks, range(len(marks)), strict=True))
        return list(last.values()), [], len(last)
    left: dict[Any, int] = {}
    gone: dict[Any, int] = {}
    numbers = {place: number for number, place in enumerate(writes)}
    for place, mark in enumerate(marks):
        number = numbers.get(place)
        if number is None:
            left[mark] = -1
            gone[mark] = place
        else:
            left[mark] = number
    return [number for number in left.values() if number >= 0], list(gone.values()), len(left)
