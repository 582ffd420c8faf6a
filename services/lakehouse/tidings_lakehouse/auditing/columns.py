"""How a value is written the same by a source database and by DuckDB, so that checksums of rows can be compared. No I/O.

By type and not by the servers' text: numbers without trailing zeros, floats by their bits, moments as microseconds since 1970,
bytes as hex. A row's text is the values' one after the other, each behind its length in bytes, ``n`` where it is null; its
checksum is the first 60 bits of the text's MD5 (of MySQL, of which 9.7 has no MD5, its SHA-256), and that of a range the sum of its rows'.

Here is what does not depend on the database; what it writes is in `postgres_columns` and `binlog_columns`.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

CHECKSUM_DIGITS = 15
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""DuckDB's types of whole numbers."""


@dataclass(frozen=True)
class AuditColumn:
    """A column that both sides have."""

    name: str
    """In the source."""
    lake: str
    """In the lake."""
    source_text: str
    """SQL of the value's text in the source; null for null."""
    lake_text: str
    """The same in DuckDB."""
    write: Callable[[str], str] = str
    """See `written`."""
    ordered: str | None = None
    """SQL in the source by which it orders this column as DuckDB does; None: it does not."""
    is_whole: bool = False
    """Both sides compare it as a whole number."""

    def written(self, text: str) -> str:
        """A value as the database would write it, of the text that is compared; that text for one beyond the year 9999."""
        try:
            return self.write(text)
        except OverflowError:
            return text

    def marked(self, mark: str) -> AuditColumn:
        """The same where the lake's infinities are null, and its column `mark` says which."""
        whens = " ".join(f"WHEN '{infinity}' THEN '{text}'" for text, infinity in _INFINITE.items())
        return replace(self, lake_text=f"CASE {lake_name(mark)} {whens} ELSE {self.lake_text} END")


class SourceColumn(Protocol):
    """A column as its database describes it."""

    def compared(self, lake: str, lake_type: str) -> AuditColumn | None:
        """How it is compared; None when it is not, because its types have no common text.

        Args:
            lake: its name in the lake.
            lake_type: DuckDB's.
        """
        ...


def lake_name(name: str) -> str:
    """A name as a statement of DuckDB's has it."""
    return '"' + name.replace('"', '""') + '"'


def whole_text(ours: str) -> str:
    """DuckDB's text of a whole number."""
    return f"CAST({ours} AS VARCHAR)"


def flag_text(ours: str) -> str:
    """Of a boolean: 0 or 1."""
    return f"CAST(CAST({ours} AS INTEGER) AS VARCHAR)"


def decimal_text(ours: str) -> str:
    """Of a decimal, or of its exact text: without trailing zeros."""
    text = f"CAST({ours} AS VARCHAR)"
    return f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"


def bits_text(ours: str) -> str:
    """Of a float: its bits."""
    return f"CAST(CAST({ours} AS BIT) AS VARCHAR)"


def hex_text(ours: str) -> str:
    """Of bytes."""
    return f"lower(hex({ours}))"


def day_text(ours: str) -> str:
    """Of a date: days since 1970; ``~+`` and ``~-`` for the infinite ones."""
    return (
        f"CASE WHEN year({ours}) > 200000 THEN '~+' WHEN year({ours}) < -200000 THEN '~-'"
        f" ELSE CAST(date_diff('day', DATE '1970-01-01', {ours}) AS VARCHAR) END"
    )


def moment_text(ours: str) -> str:
    """Of a timestamp: microseconds since 1970; ``~+`` and ``~-`` for the infinite ones."""
    return (
        f"CASE WHEN epoch_us({ours}) > 9223372036800000000 THEN '~+' WHEN epoch_us({ours}) < -9223372036800000000"
        f" THEN '~-' ELSE CAST(epoch_us({ours}) AS VARCHAR) END"
    )


def lake_checksum(columns: Sequence[AuditColumn], digest: str) -> str:
    """DuckDB's SQL of a row's checksum, a bigint; `digest` is a function of DuckDB's, see `Server`."""
    parts = [f"coalesce(strlen({c.lake_text}) || ':' || {c.lake_text}, 'n')" for c in columns]
    return f"CAST('0x' || substr({digest}({' || '.join(parts)}), 1, {CHECKSUM_DIGITS}) AS BIGINT)"


def moment(text: str) -> str:
    """A moment of its microseconds."""
    if text in _INFINITE:
        return _INFINITE[text]
    return (_EPOCH + dt.timedelta(microseconds=int(text))).isoformat(" ")


def day(text: str) -> str:
    """A day of its number."""
    return _INFINITE.get(text) or (_EPOCH + dt.timedelta(days=int(text))).date().isoformat()


def float_of_bits(form: str) -> Callable[[str], str]:
    """A float of its bits; `form` is that of `struct`."""

    def written(bits: str) -> str:
        (value,) = struct.unpack(form, int(bits, 2).to_bytes(struct.calcsize(form)))
        return repr(value)

    return written


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of a zone or of none, as the column is
_INFINITE = {"~+": "infinity", "~-": "-infinity"}


def zoned(text: str) -> str:
    """A moment of a zone, in UTC."""
    return moment(text) + ("" if text in _INFINITE else "+00")
