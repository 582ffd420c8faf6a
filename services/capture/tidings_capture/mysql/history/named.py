"""A TABLE_MAP that does not name its columns (``binlog_row_metadata`` MINIMAL or NO_LOG), with what is known of its table. Pure."""

import re
from dataclasses import replace
from typing import Final

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.logged import fits
from tidings_capture.mysql.binlog.table_map import LoggedColumn, TableMap
from tidings_capture.mysql.encoding.fields import labels_of
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.schemas.catalog import HIDDEN, Charsets, Column, Table

_LENGTH_BYTES: Final = {"tiny": 1, "medium": 3, "long": 4}
_FIXED: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "0": "\0"}
"""How the catalog writes what it escapes in labels (``append_unescaped``)."""
_UTF8: Final = "utf8mb4"


def named(mapped: TableMap, known: Table, charsets: Charsets) -> TableMap:
    """The table as a log with names would have it.

    Raises:
        UnsupportedError: the rows are not of this version of the table, as far as the log says.
    """
    columns = known.columns
    has_hidden = known.ends == HIDDEN[1] and HIDDEN[1] not in {column.name for column in columns}
    hidden = HIDDEN if has_hidden else ()  # of a system-versioned table that does not show them
    if len(mapped.columns) != len(columns) + len(hidden):
        raise _misfit(
            mapped, f"it had {len(mapped.columns)} columns in the log, and {len(columns)} are known"
        )
    filled = tuple(
        _filled(logged, column, mapped, charsets)
        for logged, column in zip(mapped.columns, columns, strict=False)
    )
    if not fits(filled, known, charsets):
        raise _misfit(mapped, "columns are of other types")
    for logged, column in zip(filled, columns, strict=True):
        if not _has_size(logged, column, charsets):
            raise _misfit(mapped, f"column {column.name!r} is of another size")
    times = tuple(
        replace(logged, name=name)
        for logged, name in zip(mapped.columns[len(columns) :], hidden, strict=True)
    )
    return replace(mapped, columns=filled + times, key=known.primary, has_names=True)


def _filled(logged: LoggedColumn, column: Column, mapped: TableMap, charsets: Charsets) -> LoggedColumn:
    found = replace(logged, name=column.name)
    if logged.type in kinds.NUMERIC and not mapped.has_signs:
        found = replace(found, unsigned=column.unsigned)
    if logged.type in {kinds.VARCHAR, kinds.STRING, kinds.BLOB} and logged.collation is None:
        number = kinds.BINARY if column.charset is None else charsets.number(column.charset)
        found = replace(found, collation=number)
    if logged.type in {kinds.ENUM, kinds.SET}:
        labels = tuple(_ESCAPED.sub(_plain, label).encode() for label in labels_of(column))
        found = replace(found, labels=labels, collation=charsets.number(_UTF8))
    return found


def _plain(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


def _has_size(logged: LoggedColumn, column: Column, charsets: Charsets) -> bool:
    """Whether the log has a column in the size that is known; `fits` has looked at the type."""
    if logged.compressed:
        return True
    if logged.type == kinds.BLOB:
        return logged.meta == next(
            (n for name, n in _LENGTH_BYTES.items() if column.type.startswith(name)), 2
        )
    if logged.type in {kinds.VARCHAR, kinds.STRING}:
        if column.type in _FIXED:
            return logged.meta == _FIXED[column.type]
        width = 1 if column.charset is None else charsets.width(column.charset)
        return column.length is None or logged.meta == column.length * width
    if logged.type == kinds.ENUM:
        return logged.meta == (1 if len(logged.labels) < 256 else 2)
    if logged.type == kinds.SET:
        size = (len(logged.labels) + 7) // 8
        return logged.meta == (8 if size > 4 else size)
    return True


def _misfit(mapped: TableMap, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"rows of {mapped.name} are not of the version of the table that is known for this place of the log: {why}",
        hint="SET GLOBAL binlog_row_metadata=FULL and take a new snapshot, or leave the table out with table.exclude.list",
    )
