"""TABLE_MAP: which columns the rows have that follow. Pure.

Format: MariaDB documentation, "TABLE_MAP_EVENT"; ``Table_map_log_event::Optional_metadata_field_type`` in
``sql/log_event.h``. With ``binlog_row_metadata=FULL`` it tells names, signs, character sets, labels and the primary key.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.reader import Reader
from tidings_capture.mysql.errors import UnsupportedError

TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
YEAR: Final = 13
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
VECTOR: Final = 242
JSON: Final = 245
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
BLOB: Final = 252
STRING: Final = 254
GEOMETRY: Final = 255

BINARY: Final = 63
"""The collation of bytes."""
NUMERIC: Final = frozenset({TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, NEWDECIMAL, YEAR})
_TWO_BYTES: Final = frozenset({VARCHAR, VARCHAR_COMPRESSED, BIT, NEWDECIMAL, STRING, ENUM, SET})
_ONE_BYTE: Final = frozenset(
    {FLOAT, DOUBLE, BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR, TIMESTAMP2, DATETIME2, TIME2}
)
_PLAIN: Final = {BLOB_COMPRESSED: BLOB, VARCHAR_COMPRESSED: VARCHAR}
_NONE: Final = frozenset({TINY, SHORT, LONG, LONGLONG, INT24, DATE, YEAR})
_OTHERS: Final = {
    7: "TIMESTAMP before MariaDB 10.1.2 (set mysql56_temporal_format=ON and ALTER TABLE ... FORCE)",
    11: "TIME before MariaDB 10.1.2 (set mysql56_temporal_format=ON and ALTER TABLE ... FORCE)",
    12: "DATETIME before MariaDB 10.1.2 (set mysql56_temporal_format=ON and ALTER TABLE ... FORCE)",
}
_SIGNS: Final = 1
_DEFAULT_CHARSET: Final = 2
_COLUMN_CHARSET: Final = 3
_NAMES: Final = 4
_SET_LABELS: Final = 5
_ENUM_LABELS: Final = 6
_GEOMETRIES: Final = 7
_KEY: Final = 8
_PREFIX_KEY: Final = 9
_LABEL_DEFAULT_CHARSET: Final = 10
_LABEL_CHARSET: Final = 11


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column as the log tells it."""

    name: str
    type: int
    meta: int
    """The length of texts, of the length of blobs; decimals of times; precision and scale (low byte) of decimals; bits."""
    nullable: bool
    unsigned: bool = False
    collation: int | None = None
    """Its number; 63 is ``binary``. None of what is not text."""
    labels: tuple[bytes, ...] = ()
    """Of ENUM and SET, in the column's character set."""
    geometry: int | None = None
    compressed: bool = False
    """Whether each cell is (``COMPRESSED``)."""


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as the rows have it that follow."""

    id: int
    database: str
    table: str
    columns: tuple[LoggedColumn, ...]
    key: tuple[str, ...]
    """The primary key's columns, in order."""
    has_names: bool = True
    """Whether the log names columns, labels and key (``binlog_row_metadata=FULL``); else they are empty."""
    has_signs: bool = True
    """Whether it says which numbers are unsigned."""

    @property
    def name(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.table}"


def table_id(event: Event) -> int:
    """Of a TABLE_MAP or an event of rows."""
    return event.reader("of rows").number(6)


def table_name(event: Event) -> tuple[str, str]:
    """Database and table of a TABLE_MAP, without the rest."""
    reader = event.reader("TABLE_MAP")
    return _named(reader)


def _named(reader: Reader) -> tuple[str, str]:
    reader.skip(8)
    names = []
    for _ in range(2):
        names.append(reader.decoded(reader.take(reader.number(1))))
        reader.skip(1)
    return names[0], names[1]


def read_table_map(event: Event, *, by_mysql: bool) -> TableMap:
    """Of a TABLE_MAP.

    Args:
        by_mysql: whether MySQL wrote it, whose lists of collations leave geometries out, which MariaDB's count.

    Raises:
        BinlogError: it is malformed.
        UnsupportedError: a column is of a type that is not read.
    """
    number = table_id(event)
    reader = event.reader("TABLE_MAP")
    database, table = _named(reader)
    count = reader.packed()
    types = list(reader.take(count))
    metas = reader.sized()
    nullable = reader.take((count + 7) // 8)
    inner = Reader(metas, 0, len(metas), f"TABLE_MAP of {database}.{table}: the metadata")
    columns = []
    for index, kind in enumerate(types):
        if kind not in _TWO_BYTES | _ONE_BYTE | _NONE:
            named = _OTHERS.get(kind, f"type {kind}")
            raise UnsupportedError(
                f"column {index + 1} of {database}.{table} is {named}, which is not read",
                hint="leave the table out with table.exclude.list",
            )
        real, meta = _meta(kind, inner)
        may_be_null = bool(nullable[index // 8] >> index % 8 & 1)
        columns.append(LoggedColumn("", _PLAIN.get(real, real), meta, may_be_null, compressed=real in _PLAIN))
    more: dict[int, Reader] = {}
    while reader.left:
        field = reader.number(1)
        data = reader.sized()
        more[field] = Reader(data, 0, len(data), f"TABLE_MAP of {database}.{table}: field {field}")
    columns = _described(columns, more, _OF_MYSQL if by_mysql else _OF_MARIADB)
    has_names = _NAMES in more
    key = _key(columns, more) if has_names else ()
    return TableMap(number, database, table, tuple(columns), key, has_names, _SIGNS in more)


def _meta(kind: int, reader: Reader) -> tuple[int, int]:
    if kind in _NONE:
        return kind, 0
    if kind in _ONE_BYTE:
        return kind, reader.number(1)
    first, second = reader.number(1), reader.number(1)
    if kind in {VARCHAR, VARCHAR_COMPRESSED}:
        return kind, first | second << 8
    if kind == BIT:
        return kind, first + 8 * second
    if kind == NEWDECIMAL:
        return kind, first << 8 | second
    if first in {ENUM, SET}:
        return first, second
    # The two high bits of a CHAR's length hide in the type, inverted.
    return kind, second | ((first & 0x30) ^ 0x30) << 4


def _described(
    columns: list[LoggedColumn], more: dict[int, Reader], with_collation: Collection[int]
) -> list[LoggedColumn]:
    if (names := more.get(_NAMES)) is not None:
        columns = [replace(column, name=names.text()) for column in columns]
    if _SIGNS in more:
        bits = more[_SIGNS].rest()
        numeric = [i for i, column in enumerate(columns) if column.type in NUMERIC]
        if len(bits) * 8 < len(numeric):
            raise more[_SIGNS].error("has too few signs")
        for place, index in enumerate(numeric):
            columns[index] = replace(columns[index], unsigned=bool(bits[place // 8] >> (7 - place % 8) & 1))
    _put(columns, with_collation, _collations(more, _DEFAULT_CHARSET, _COLUMN_CHARSET))
    _put(columns, _LABELLED, _collations(more, _LABEL_DEFAULT_CHARSET, _LABEL_CHARSET))
    for field, kind in ((_SET_LABELS, SET), (_ENUM_LABELS, ENUM)):
        if field in more:
            reader = more[field]
            for index, column in enumerate(columns):
                if column.type == kind:
                    labels = tuple(reader.sized() for _ in range(reader.packed()))
                    columns[index] = replace(column, labels=labels)
    if _GEOMETRIES in more:
        for index, column in enumerate(columns):
            if column.type == GEOMETRY:
                columns[index] = replace(column, geometry=more[_GEOMETRIES].packed())
    return columns


_OF_MARIADB: Final = frozenset({STRING, VARCHAR, BLOB, GEOMETRY})
"""The types that the lists of collations count: a geometry is binary, and counted."""
_OF_MYSQL: Final = frozenset({STRING, VARCHAR, BLOB, VECTOR})
_LABELLED: Final = frozenset({ENUM, SET})


def _collations(more: dict[int, Reader], default: int, each: int) -> Callable[[int], Sequence[int | None]]:
    """Gives the collations of so many columns."""

    def of(count: int) -> Sequence[int | None]:
        if each in more:
            reader = more[each]
            found: list[int | None] = []
            while reader.left:
                found.append(reader.packed())
            return found
        if default in more:
            reader = more[default]
            found = [reader.packed()] * count
            while reader.left:
                place, collation = reader.packed(), reader.packed()
                if place >= count:
                    raise reader.error("speaks of a column that is not there")
                found[place] = collation
            return found
        return [None] * count

    return of


def _put(
    columns: list[LoggedColumn],
    types: Collection[int],
    collations: Callable[[int], Sequence[int | None]],
) -> None:
    places = [index for index, column in enumerate(columns) if column.type in types]
    for index, collation in zip(places, collations(len(places)), strict=False):
        columns[index] = replace(columns[index], collation=collation)


def _key(columns: list[LoggedColumn], more: dict[int, Reader]) -> tuple[str, ...]:
    found = []
    for field in (_KEY, _PREFIX_KEY):
        if field in more:
            reader = more[field]
            while reader.left:
                index = reader.packed()
                if field == _PREFIX_KEY:
                    reader.packed()
                if index >= len(columns):
                    raise reader.error("names a column that is not there")
                found.append(columns[index].name)
    return tuple(found)
