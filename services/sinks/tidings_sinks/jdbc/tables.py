"""Target tables: which columns there are, which are made, and how a record becomes values of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType
from tidings_envelope.toast import PLACEHOLDERS, is_unavailable
from tidings_sinks.civil import NoTimeOfDayError
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.jdbc.changes import Change, Op
from tidings_sinks.jdbc.database import Column, Database, Encode, Mode, NewColumn, TableName, Write
from tidings_sinks.jdbc.kinds import Base, Kind, Read, is_moment, kind_of, kind_of_value, moment_in
from tidings_sinks.jdbc.settings import InsertMode, KeyMode, Settings

_KAFKA_KINDS: Final = (Kind(Base.TEXT), Kind(Base.INTEGER), Kind(Base.BIGINT))
_MOST_SHAPES: Final = 500
_ZONED: Final = frozenset({"timestamp with time zone", "timestamp"})
"""PostgreSQL's columns that hold moments, and MariaDB's."""
_MODES: Final = {
    InsertMode.INSERT: Mode.INSERT,
    InsertMode.UPSERT: Mode.UPSERT,
    InsertMode.UPDATE: Mode.UPDATE,
}
_MAY_BE_UNAVAILABLE: Final = frozenset(
    {ConnectType.STRING, ConnectType.BYTES, ConnectType.ARRAY, ConnectType.MAP}
)


_TEXTS: Final = frozenset({ConnectType.STRING, ConnectType.BYTES})


class Part(NamedTuple):
    """A field of a record, and the column that it is for."""

    field: str
    schema: ConnectSchema | None
    kind: Kind | None
    """None: of a value without a schema that is null."""
    read: Read | None
    of_kafka: bool = False
    """Whether it is the record's place, which has no schema."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How records of one schema become values of a table's columns."""

    write: Write
    """The columns of the key first."""
    fields: tuple[str, ...]
    """Of the row, without the key's."""
    values: Callable[[Mapping[str, Any]], Sequence[Any]]
    """Gives the values of these fields."""
    key_encoders: Sequence[tuple[int, Encode]]
    """Of columns that need one, with their place among the key's."""
    encoders: Sequence[tuple[int, Encode]]
    """The same of the row's columns; the key's come first."""
    may_miss: tuple[int, ...]
    """Which columns, by their place, may hold a placeholder."""
    texts: Callable[[Mapping[str, Any]], Any] | None
    """Gives the values of those that are text or bytes, of which one is looked for at once; None where there are others."""
    held: tuple[object, ...]
    """The schemas by whose identity it is found: they must not be forgotten before it."""

    def misses(self, row: Mapping[str, Any]) -> bool:
        """Whether a value may not have been sent."""
        return self.texts is None or not PLACEHOLDERS.isdisjoint(self.texts(row))

    @property
    def keys(self) -> tuple[Column, ...]:
        """The columns of the key."""
        return self.write.columns[: self.write.keys]


@dataclass(slots=True)
class Prepared:
    """A change, as values of columns."""

    change: Change
    table: TableName
    shape: Shape | None = None
    """None of TRUNCATE."""
    values: Sequence[Any] = ()
    """The key's first; of DELETE the key's alone."""
    write: Write | None = None
    """Of WRITE: the form of its statement."""
    empties: bool = False
    """Of TRUNCATE: whether there is a table."""

    @property
    def op(self) -> Op:
        return self.change.op

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells the row from others."""
        assert self.shape is not None
        return tuple(self.values[: self.shape.write.keys])


class Tables:
    """The tables of one connection. Forget it when they are not what they were."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._names: dict[tuple[str, ...], TableName] = {}
        self._columns: dict[TableName, Mapping[str, Column]] = {}
        self._shapes: dict[tuple[Any, ...], Shape] = {}

    def prepare(self, change: Change) -> Prepared:
        """A change as values; makes tables and columns in transactions of their own.

        Raises:
            RowError: the record cannot become a row.
            TargetError: the table or a column is missing, and may not be made.
        """
        name = self._names.get(change.table)
        if name is None:
            name = self._database.name(change.table, quotes=self._settings.quotes)
            self._names[change.table] = name
        if change.op is Op.TRUNCATE:
            return Prepared(change, name, empties=bool(self._known(name)))
        key = self._key(change)
        row = change.row if change.row is not None else {}
        shape = self._shape(name, change, key, row)
        place: int | None = None
        try:
            values: list[Any] = list(key.values())
            for place, encode in shape.key_encoders:
                if (item := values[place]) is not None:
                    values[place] = encode(item)
            write = shape.write
            if change.op is Op.WRITE:
                values += shape.values(row)
                for place, encode in shape.encoders:
                    if (item := values[place]) is not None:
                        values[place] = encode(item)
                place = None
                if change.of_envelope and shape.may_miss and shape.misses(row):
                    write, values = self._without_missing(shape, row, values)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError) as error:
            if change.op is Op.WRITE:
                _check_fields(shape.fields, row)
            raise _misfit(error, None if place is None else shape.write.columns[place]) from None
        return Prepared(change, name, shape, values, write if change.op is Op.WRITE else None)

    def _without_missing(
        self, shape: Shape, row: Mapping[str, Any], values: list[Any]
    ) -> tuple[Write, list[Any]]:
        """Without the columns whose values were not sent: they stay as they are."""
        keys = shape.write.keys
        missing = {place for place in shape.may_miss if is_unavailable(row[shape.fields[place - keys]])}
        if not missing:
            return shape.write, values
        kept = [place for place in range(len(values)) if place not in missing]
        mode = Mode.PATCH if shape.write.mode is Mode.UPSERT else shape.write.mode
        columns = tuple(shape.write.columns[place] for place in kept)
        return Write(shape.write.table, columns, keys, mode), [values[place] for place in kept]

    # The key

    def _key(self, change: Change) -> dict[str, Any]:
        """The values of the key, by field."""
        record, settings = change.record, self._settings
        match settings.key_mode:
            case KeyMode.NONE:
                return {}
            case KeyMode.KAFKA:
                place = (record.original.topic, record.original.partition, record.offset)
                return dict(zip(settings.kafka_columns, place, strict=True))
            case KeyMode.RECORD_KEY:
                return self._chosen(self._record_key(record), "the key")
            case KeyMode.RECORD_VALUE:
                assert change.row is not None
                return self._chosen(change.row, "the value")
            case _:
                found = {header.key: header.value for header in record.headers}
                return self._chosen(found, "the headers")

    def _chosen(self, found: Mapping[str, Any], where: str) -> dict[str, Any]:
        wanted = self._settings.key_fields
        try:
            return {name: found[name] for name in wanted} if wanted else dict(found)
        except KeyError as error:
            words = self._settings.words
            raise RowError(f"{where} has no field {error.args[0]}, which {words.key_fields} names") from None

    def _record_key(self, record: SinkRecord) -> Mapping[str, Any]:
        if type(record.key) is dict or isinstance(record.key, Mapping):  # the former is much faster
            return record.key
        if record.key is None:
            raise RowError(f"the record has no key, and {self._settings.words.key_mode}=record_key needs one")
        fields = self._settings.key_fields
        if len(fields) != 1:
            raise RowError(
                f"the key is not a struct: {self._settings.words.key_fields} has to name the one column that it is for"
            )
        return {fields[0]: record.key}

    def _key_parts(self, change: Change, key: Mapping[str, Any]) -> list[Part]:
        record = change.record
        match self._settings.key_mode:
            case KeyMode.NONE:
                return []
            case KeyMode.KAFKA:
                kinds = zip(self._settings.kafka_columns, _KAFKA_KINDS, strict=True)
                return [Part(name, None, kind, None, of_kafka=True) for name, kind in kinds]
            case KeyMode.RECORD_HEADER:
                schemas = {header.key: header.schema for header in record.headers}
            case KeyMode.RECORD_VALUE:
                schemas = _fields(change.row_schema)
            case _:
                struct = isinstance(record.key, Mapping)
                schemas = _fields(record.key_schema) if struct else dict.fromkeys(key, record.key_schema)
        return [_part(name, schemas.get(name), value) for name, value in key.items()]

    # The shape

    def _shape(
        self, name: TableName, change: Change, key: Mapping[str, Any], row: Mapping[str, Any]
    ) -> Shape:
        record = change.record
        by_header = self._settings.key_mode is KeyMode.RECORD_HEADER
        typed = change.row_schema is not None or change.op is Op.DELETE
        mark = (
            name,
            record.topic if self._settings.includes or self._settings.excludes else None,
            change.op is Op.WRITE,
            id(record.key_schema),
            id(change.row_schema),
            tuple((header.key, id(header.schema)) for header in record.headers) if by_header else tuple(key),
            None if typed else tuple((field, kind_of_value(value)) for field, value in row.items()),
        )
        shape = self._shapes.get(mark)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[mark] = self._made(name, change, key, row)
        return shape

    def _made(self, name: TableName, change: Change, key: Mapping[str, Any], row: Mapping[str, Any]) -> Shape:
        schemas = _fields(change.row_schema)
        topic = change.record.original.topic
        key_parts = self._key_parts(change, key)
        wanted = [
            field
            for field in (schemas or row)
            if change.op is Op.WRITE and field not in key and self._settings.takes(topic, field)
        ]
        _check_fields(wanted, row)
        parts = [_part(field, schemas.get(field), row[field]) for field in wanted]
        known = self._with_columns(topic, name, key_parts, parts)

        def column(part: Part) -> Column | None:
            named = self._column_name(part.field, known)
            there = known.get(named)
            if there is None and part.kind is not None:
                raise TargetError(
                    f"table {name} has no column {named!r} although it was made, so that the field of {topic} would be lost",
                    hint=f"the driver reads the name otherwise than it wrote it; rename the field, or leave it out with {self._settings.words.leaves_out}",
                )
            return None if there is None else self._fitted(part, there)

        key_columns = [column(part) for part in key_parts]
        # Without a column: null, of an unknown type, or computed by the database.
        parts = [part for part in parts if (found := column(part)) is not None and not found.generated]
        columns = [found for found in (*key_columns, *map(column, parts)) if found is not None]
        keys = len(key_parts)
        if len(columns) != keys + len(parts):
            raise RowError("a field of the key is null, so that it has no column")
        missable = [part for part in parts if part.schema is None or part.schema.type in _MAY_BE_UNAVAILABLE]
        plain = all(part.schema is not None and part.schema.type in _TEXTS for part in missable)
        return Shape(
            Write(name, tuple(columns), keys, _MODES[self._settings.insert_mode]),
            tuple(part.field for part in parts),
            _values_of([part.field for part in parts]),
            self._encoders(key_parts, columns[:keys], 0),
            self._encoders(parts, columns[keys:], keys),
            tuple(place for place, part in enumerate(parts, keys) if part in missable),
            _values_of([part.field for part in missable]) if plain else None,
            (change.record.key_schema, change.row_schema, *(h.schema for h in change.record.headers)),
        )

    def _fitted(self, part: Part, column: Column) -> Column:  # noqa: ARG002 - a database may take values by more than a column's type
        """The column that there is, for the values of a field."""
        return column

    def _encoders(
        self, parts: Sequence[Part], columns: Sequence[Column], first: int
    ) -> Sequence[tuple[int, Encode]]:
        found = (self._encoder(part, column) for part, column in zip(parts, columns, strict=True))
        return [(place, encode) for place, encode in enumerate(found, first) if encode is not None]

    def _encoder(self, part: Part, column: Column) -> Encode | None:
        if part.kind is None or (part.schema is None and not part.of_kafka):
            return self._database.untyped_encoder(column.type)
        encode = self._database.encoder(part.kind, column.type, self._settings.zone)
        read = part.read
        if (
            self._settings.moments
            and read is not None
            and is_moment(part.schema)
            and column.type not in _ZONED
        ):
            read = moment_in(self._settings.zone)
        if read is None or encode is None:
            return read or encode
        return lambda value: encode(read(value))

    # The columns

    def _column_name(self, field: str, known: Mapping[str, Column]) -> str:
        return self._database.column_name(field, known, quotes=self._settings.quotes)

    def _known(self, name: TableName) -> Mapping[str, Column]:
        found = self._columns.get(name)
        if not found:
            found = self._columns[name] = self._database.columns(name)
            if not found and not self._settings.makes_tables:
                wanted = self._settings.words.makes_tables
                raise TargetError(
                    f"there is no table {name}, and without {wanted} none is made",
                    hint=f"create it, or set {wanted}",
                )
        return found

    def _with_columns(
        self, topic: str, name: TableName, keys: Sequence[Part], parts: Sequence[Part]
    ) -> Mapping[str, Column]:
        """The table's columns, after those that are missing were made."""
        known = self._known(name)
        missing = self._missing(topic, name, known, (*keys, *parts))
        if not missing and known:
            return known
        words = self._settings.words
        if known and not self._settings.adds_columns:
            fields = ", ".join(part.field for part in missing)
            raise TargetError(
                f"table {name} has no column for {fields}, and without {words.adds_columns} none is made",
                hint=f"add it, leave the field out with {words.leaves_out}, or set {words.adds_columns}",
            )
        database = self._database
        database.begin()
        try:
            database.lock_schema(name)
            known = database.columns(name)
            missing = self._missing(topic, name, known, (*keys, *parts))
            new = [self._new_column(part, known, nullable=bool(known)) for part in missing]
            if not known:
                database.create(name, new, len(keys))
            elif new:
                database.add_columns(name, new)
            database.commit()
        except BaseException:
            database.rollback()
            raise
        self._columns[name] = database.columns(name)
        return self._columns[name]

    def _missing(
        self, topic: str, name: TableName, known: Mapping[str, Column], parts: Iterable[Part]
    ) -> list[Part]:
        """Those that have no column and can get one."""
        missing, used, all_columns = [], set(), dict(known)
        for part in parts:
            column = self._column_name(part.field, all_columns)
            if part.kind is None and column not in known:
                continue
            if column in used:
                raise TargetError(
                    f"two fields of {topic} are for one column of {name}: {column}",
                    hint=f"use {self._settings.words.renaming}, or leave one out with {self._settings.words.leaves_out}",
                )
            used.add(column)
            if column not in all_columns:
                all_columns[column] = Column(column, "")
                missing.append(part)
        return missing

    def _new_column(self, part: Part, known: Mapping[str, Column], *, nullable: bool) -> NewColumn:
        assert part.kind is not None
        schema = part.schema
        default = None
        if schema is not None and schema.default not in (NO_DEFAULT, None):
            encode = self._database.encoder(part.kind, None, self._settings.zone)
            read = schema.default if part.read is None else part.read(schema.default)
            default = read if encode is None else encode(read)
        required = schema is not None and not schema.optional and (default is not None or not nullable)
        return NewColumn(self._column_name(part.field, known), part.kind, required, default, schema)


def _misfit(error: Exception, column: Column | None) -> RowError:
    """What a failed conversion means; its own words may hold a value.

    Args:
        column: whose value it was, where that is known.
    """
    if column is None:
        return RowError(f"a value does not fit its schema ({type(error).__name__})")
    if isinstance(error, NoTimeOfDayError):
        return RowError(f"column {column.name}: {error}")
    return RowError(f"column {column.name}: the value does not fit its schema ({type(error).__name__})")


def _check_fields(fields: Sequence[str], row: Mapping[str, Any]) -> None:
    """Refuse a value that lacks a field of its schema, as a transform may leave it: converters give every field."""
    for field in fields:
        if field not in row:
            raise RowError(f"the value has no field {field}, which its schema names")


def _values_of(fields: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    if len(fields) < 2:  # of one field, itemgetter gives its value, and of none it is refused
        return lambda row: [row[field] for field in fields]
    return itemgetter(*fields)


def _fields(schema: ConnectSchema | None) -> dict[str, ConnectSchema | None]:
    return {} if schema is None else {field.name: field.schema for field in schema.fields}


def _part(name: str, schema: ConnectSchema | None, value: Any) -> Part:
    if schema is None:
        return Part(name, None, kind_of_value(value), None)
    return Part(name, schema, *kind_of(schema))
