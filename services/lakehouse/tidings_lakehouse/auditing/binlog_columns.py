"""MariaDB's and MySQL's side of a comparison: how they write a value, and a row's checksum. No I/O.

Which text a column has depends on its type and on what the lake shows of it, since the connector's options decide about that
(``bigint.unsigned.handling.mode``, ``decimal.handling.mode``, ``binary.handling.mode``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tidings_lakehouse.auditing.columns import (
    CHECKSUM_DIGITS,
    WHOLE,
    AuditColumn,
    bits_text,
    day,
    day_text,
    decimal_text,
    flag_text,
    float_of_bits,
    hex_text,
    lake_name,
    moment,
    moment_text,
    whole_text,
)

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_ORDERED = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "uuid"})
Texts = tuple[str, str, Callable[[str], str]]
"""SQL of the server and of DuckDB, and what writes a key of it."""


@dataclass(frozen=True)
class BinlogColumn:
    """See `SourceColumn`: what MariaDB and MySQL have in common."""

    collation: ClassVar[str]
    """By bytes, as DuckDB compares; case and spaces at the end count."""
    more_texts: ClassVar[frozenset[str]] = frozenset()
    """Types whose text is the lake's."""
    written_texts: ClassVar[frozenset[str]] = frozenset()
    """Types of their own, which the server writes as text."""

    name: str
    type: str
    """``data_type``: int, varchar, ..."""
    declared: str
    """``column_type``: int(10) unsigned, bit(12), ..."""
    nullable: bool
    bits: int = 0
    """Of a BIT."""

    def compared(self, lake: str, lake_type: str) -> AuditColumn | None:
        """See `SourceColumn`."""
        theirs, ours = quoted(self.name), lake_name(lake)
        texts = self._texts(theirs, ours, lake_type)
        if texts is None:
            return None
        # BIGINT UNSIGNED is negative in the lake where it is large, or text.
        is_whole = self.type in _INTEGERS and lake_type in WHOLE and not self._is_wide
        ordered = theirs if is_whole else texts[0] if self.type in _ORDERED else None
        return AuditColumn(self.name, lake, *texts, ordered=ordered, is_whole=is_whole)

    @property
    def _is_wide(self) -> bool:
        return self.type == "bigint" and "unsigned" in self.declared

    def _texts(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        if self.type in _INTEGERS:
            return self._whole(theirs, ours, lake_type)
        if self.type in {"decimal", "float", "double"}:
            return self._number(theirs, ours, lake_type)
        if self.type == "bit":
            return self._bit(theirs, ours, lake_type)
        if self.type in _TEXTS | self.more_texts | self.written_texts and lake_type == "VARCHAR":
            shown = f"CAST({theirs} AS CHAR)" if self.type in self.written_texts else theirs
            return f"CONVERT({shown} USING utf8mb4) COLLATE {self.collation}", ours, str
        if self.type in _BYTES:
            return self._bytes(theirs, ours, lake_type)
        if lake_type.startswith("STRUCT(") and "wkb BLOB" in lake_type:
            lake_wkb = f"{hex_text(f'{ours}.wkb')} || '/' || coalesce({ours}.srid, 0)"
            return f"CONCAT(LOWER(HEX({self._wkb(theirs)})), '/', ST_SRID({theirs}))", lake_wkb, str
        return self._time(theirs, ours, lake_type)

    def _wkb(self, theirs: str) -> str:
        return f"ST_AsWKB({theirs})"

    def _whole(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        shown = f"{theirs} + 0"  # ZEROFILL would fill it up
        if lake_type == "BOOLEAN":
            return f"CAST({theirs} <> 0 AS CHAR)", flag_text(ours), str
        if lake_type in WHOLE:
            if self._is_wide:
                return f"CAST(CAST({shown} AS SIGNED) AS CHAR)", whole_text(ours), _unsigned
            return f"CAST({shown} AS CHAR)", whole_text(ours), str
        if lake_type == "VARCHAR" or lake_type.startswith("DECIMAL"):
            return f"CAST({shown} AS CHAR)", decimal_text(ours), str
        return None

    def _number(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        if lake_type in {"DOUBLE", "FLOAT"}:
            # Both servers show the bytes of a float in a geometry only: a point's x is behind the byte order and the kind.
            point = f"SUBSTR(ST_AsWKB(POINT(CAST({theirs} AS DOUBLE), 0)), 6, 8)"
            bits = f"LPAD(CONV(HEX(REVERSE({point})), 16, 2), 64, '0')"
            return bits, bits_text(f"CAST({ours} AS DOUBLE)"), float_of_bits(">d")
        if self.type == "decimal" and (lake_type == "VARCHAR" or lake_type.startswith("DECIMAL")):
            text = f"CAST({theirs} + 0 AS CHAR)"
            trimmed = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
            return f"IF(LOCATE('.', {text}), {trimmed}, {text})", decimal_text(ours), str
        return None

    def _bit(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        if lake_type == "BOOLEAN":
            return f"CAST({theirs} + 0 AS CHAR)", flag_text(ours), str
        if lake_type != "BLOB":
            return None
        digits = (self.bits + 7) // 8 * 2
        whole = f"LPAD(HEX({theirs} + 0), {digits}, '0')"
        return f"LOWER(HEX(REVERSE(UNHEX({whole}))))", hex_text(ours), _bit

    def _bytes(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        shown = f"LOWER(HEX({theirs}))"
        if lake_type == "BLOB":
            return shown, hex_text(ours), str
        return None

    def _time(self, theirs: str, ours: str, lake_type: str) -> Texts | None:
        match self.type, lake_type:
            case "date", "DATE":
                return self._or_zero(f"DATEDIFF({theirs}, '1970-01-01')", theirs), day_text(ours), day
            case ("datetime", "TIMESTAMP") | ("timestamp", "TIMESTAMP WITH TIME ZONE"):
                micros = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {theirs})"
                return self._or_zero(micros, theirs), moment_text(ours), moment
            case "time", "VARCHAR":
                return f"CAST(CAST({theirs} AS TIME(6)) AS CHAR)", ours, str
        return None

    def _or_zero(self, text: str, theirs: str) -> str:
        """A date that no calendar has is told as null, or as 1970-01-01 where there is no null."""
        zero = "NULL" if self.nullable else "0"
        return f"CAST(IF(DAYOFMONTH({theirs}) = 0 OR MONTH({theirs}) = 0, {zero}, {text}) AS CHAR)"


@dataclass(frozen=True)
class MariaDbColumn(BinlogColumn):
    """Of MariaDB."""

    collation: ClassVar[str] = "utf8mb4_nopad_bin"
    more_texts: ClassVar[frozenset[str]] = frozenset({"json"})
    written_texts: ClassVar[frozenset[str]] = frozenset({"uuid", "inet6", "inet4"})


@dataclass(frozen=True)
class MySqlColumn(BinlogColumn):
    """Of MySQL. Its JSON is not compared: the server writes it with other spaces than capture."""

    collation: ClassVar[str] = "utf8mb4_0900_bin"

    def _wkb(self, theirs: str) -> str:
        """In the order of the log: x first, also where the reference system has the latitude first."""
        return f"ST_AsWKB({theirs}, 'axis-order=long-lat')"


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: object) -> str:
    """A number or a text as a statement has it (without NO_BACKSLASH_ESCAPES)."""
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def row_checksum(columns: Sequence[AuditColumn], digest: str) -> str:
    """SQL of a row's checksum in the server; the same as `lake_checksum`.

    Args:
        digest: SQL of the hexadecimal digits, with ``{}`` for the text.
    """
    parts = [f"COALESCE(CONCAT(OCTET_LENGTH({c.source_text}), ':', {c.source_text}), 'n')" for c in columns]
    digits = digest.format(f"CONCAT({', '.join(parts)})")
    return f"CAST(CONV(SUBSTR({digits}, 1, {CHECKSUM_DIGITS}), 16, 10) AS UNSIGNED)"


def _unsigned(text: str) -> str:
    return str(int(text) % (1 << 64))


def _bit(text: str) -> str:
    return str(int.from_bytes(bytes.fromhex(text), "little"))
