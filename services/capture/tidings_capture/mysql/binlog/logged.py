"""What the log's columns are, with what only the catalog says: that bytes are a UUID or an address. Pure but for the catalog."""

import ipaddress
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import uncompressed_cell
from tidings_capture.mysql.binlog.json_value import json_cell
from tidings_capture.mysql.binlog.row_code import Decode
from tidings_capture.mysql.binlog.table_map import BINARY, LoggedColumn
from tidings_capture.mysql.schemas.catalog import Charsets, Column, Table

_TYPES: Final = {
    kinds.TINY: {"tinyint"},
    kinds.SHORT: {"smallint"},
    kinds.INT24: {"mediumint"},
    kinds.LONG: {"int"},
    kinds.LONGLONG: {"bigint"},
    kinds.FLOAT: {"float"},
    kinds.DOUBLE: {"double"},
    kinds.NEWDECIMAL: {"decimal"},
    kinds.BIT: {"bit"},
    kinds.YEAR: {"year"},
    kinds.DATE: {"date"},
    kinds.TIME2: {"time"},
    kinds.DATETIME2: {"datetime"},
    kinds.TIMESTAMP2: {"timestamp"},
    kinds.ENUM: {"enum"},
    kinds.SET: {"set"},
    kinds.VARCHAR: {"varchar", "varbinary"},
    kinds.STRING: {"char", "binary", "uuid", "inet6", "inet4"},
    kinds.BLOB: {
        "tinytext",
        "text",
        "mediumtext",
        "longtext",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
    },
    kinds.JSON: {"json"},
    kinds.VECTOR: {"vector"},
    kinds.GEOMETRY: {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    },
}
AMBIGUOUS: Final = {16: frozenset({"binary", "uuid", "inet6"}), 4: frozenset({"binary", "inet4"})}
"""By length: what fixed bytes of the log may be."""


def is_ambiguous(column: LoggedColumn) -> bool:
    """Whether the log does not say what a column's bytes are."""
    return column.type == kinds.STRING and column.collation == BINARY and column.meta in AMBIGUOUS


def fits(logged: Sequence[LoggedColumn], table: Table, charsets: Charsets) -> bool:
    """Whether a table of the catalog is the version of it that the log speaks of, as far as the log says."""
    return len(logged) == len(table.columns) and all(
        _fits(mine, its, charsets) for mine, its in zip(logged, table.columns, strict=True)
    )


def _fits(logged: LoggedColumn, column: Column, charsets: Charsets) -> bool:
    if logged.name != column.name or column.type not in _TYPES[logged.type]:
        return False
    signed = logged.type in kinds.NUMERIC - {kinds.YEAR}
    if logged.nullable != column.nullable or (signed and logged.unsigned != column.unsigned):
        return False
    if logged.type == kinds.NEWDECIMAL:
        return (logged.meta >> 8, logged.meta & 255) == (column.precision, column.scale)
    if logged.type in {kinds.TIME2, kinds.DATETIME2, kinds.TIMESTAMP2}:
        return logged.meta == column.decimals
    if logged.type == kinds.BIT:
        return logged.meta == column.precision
    if logged.type in {kinds.VARCHAR, kinds.STRING, kinds.BLOB}:
        return _fits_text(logged, column, charsets)
    return True


def _fits_text(logged: LoggedColumn, column: Column, charsets: Charsets) -> bool:
    if logged.collation in {None, BINARY}:
        return column.charset is None
    return column.charset is not None and charsets.name(logged.collation or 0) == column.charset


def decoder(logged: LoggedColumn, kind: str, charsets: Charsets) -> Decode | None:
    """What makes a cell of a column's bytes; None: they stay as they are.

    Args:
        kind: the catalog's type.
    """
    plain = _decoder(logged, kind, charsets)
    if not logged.compressed:
        return plain
    return uncompressed_cell if plain is None else lambda data: plain(uncompressed_cell(data))


def _decoder(logged: LoggedColumn, kind: str, charsets: Charsets) -> Decode | None:
    if logged.type == kinds.JSON:
        return json_cell(nullable=logged.nullable)
    if kind == "uuid":
        return _padded(16, uuid_text)
    if kind == "inet6":
        return _padded(16, inet6_text)
    if kind == "inet4":
        return _padded(4, lambda data: str(ipaddress.IPv4Address(data)))
    if logged.collation is None or (
        logged.collation == BINARY and logged.type not in {kinds.ENUM, kinds.SET}
    ):
        return None
    made: Any = charsets.decoder(logged.collation) if logged.collation != BINARY else bytes.decode
    return made  # type: ignore[no-any-return]


def _padded(length: int, text: Callable[[bytes], str]) -> Decode:
    return lambda data: text(data.ljust(length, b"\0"))


def uuid_text(data: bytes) -> str:
    """A UUID: kept with its parts the other way round where it is not of version 6 or 7 (``Type_handler_uuid_new``)."""
    # segments as stored: node (6), clock (2), time high (2), time mid (2), time low (4)
    if data[6] & 0x80 and not data[8] & 0x80:
        plain = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[0:6]
    else:
        plain = data
    return str(uuid.UUID(bytes=plain))


def inet6_text(data: bytes) -> str:
    """An address as the server writes it (``Inet6::to_string``): the longest run of zeros is left out, be it a single one."""
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    runs = "".join("0" if word == 0 else "x" for word in words)
    length = next((length for length in range(8, 0, -1) if "0" * length in runs), 0)
    if length == 0:
        return ":".join(f"{word:x}" for word in words)
    gap = runs.index("0" * length)
    if gap == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return f"{'::' if length == 6 else '::ffff:'}{ipaddress.IPv4Address(data[12:])}"
    before, after = words[:gap], words[gap + length :]
    return f"{':'.join(f'{w:x}' for w in before)}::{':'.join(f'{w:x}' for w in after)}"
