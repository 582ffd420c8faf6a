"""How a value is written the same by PostgreSQL and by DuckDB, so that checksums of rows can be compared. No I/O.

By type and not by the servers' text: numbers without trailing zeros, floats by their bits, moments as microseconds since 1970,
bytes as hex. A row's text is the values' one after the other, each behind its length in bytes, ``n`` where it is null; its
checksum is the first 60 bits of the text's MD5, and that of a range the sum of its rows'.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_CHECKSUM_DIGITS = 15
INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset(
    {"text", "varchar", "uuid", "json", "jsonb", "xml", "citext", "inet", "cidr", "macaddr", "ltree", "name"}
)
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


@dataclass(frozen=True)
class AuditColumn:
    """A column that both sides have."""

    name: str
    """In PostgreSQL."""
    lake: str
    """In the lake."""
    postgres_text: str
    """SQL of the value's text; null for null."""
    lake_text: str
    type: str
    """In PostgreSQL."""

    def written(self, text: str) -> str:
        """A value as the database would write it, of the text that is compared; that text for one beyond the year 9999."""
        try:
            return _WRITTEN.get(self.type, str)(text)
        except OverflowError:
            return text


def _moment(text: str) -> str:
    if text in _INFINITE:
        return _INFINITE[text]
    return (_EPOCH + dt.timedelta(microseconds=int(text))).isoformat(" ")


def _day(text: str) -> str:
    return _INFINITE.get(text) or (_EPOCH + dt.timedelta(days=int(text))).date().isoformat()


def _float(form: str) -> Callable[[str], str]:
    def written(bits: str) -> str:
        (value,) = struct.unpack(form, int(bits, 2).to_bytes(struct.calcsize(form)))
        return repr(value)

    return written


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of a zone or of none, as the column is
_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_INFINITE = {"~+": "infinity", "~-": "-infinity"}
_WRITTEN: dict[str, Callable[[str], str]] = {
    "bool": {"1": "t", "0": "f"}.__getitem__,
    "bytea": lambda text: "\\x" + text,
    "date": _day,
    "timestamp": _moment,
    "timestamptz": lambda text: _moment(text) + ("" if text in _INFINITE else "+00"),
    "float8": _float(">d"),
    "float4": _float(">f"),
}


def audit_column(
    name: str, type_: str, lake: str, lake_type: str, *, is_enum: bool, mark: str | None = None
) -> AuditColumn | None:
    """How a column is compared; None when it is not, because its types have no common text.

    Args:
        type_: PostgreSQL's, ``pg_type.typname``.
        lake_type: DuckDB's.
        mark: the lake's column that says whether this one is infinite, where its infinities are null.
    """
    theirs, ours = '"' + name.replace('"', '""') + '"', '"' + lake.replace('"', '""') + '"'
    found = _texts(theirs, ours, "text" if is_enum else type_, lake_type)
    if found is not None and mark is not None and type_ in _TIMES:
        said = '"' + mark.replace('"', '""') + '"'
        whens = " ".join(f"WHEN '{infinity}' THEN '{text}'" for text, infinity in _INFINITE.items())
        found = found[0], f"CASE {said} {whens} ELSE {found[1]} END"
    return None if found is None else AuditColumn(name, lake, *found, type_)


def _texts(  # noqa: PLR0911 - one for each kind of type
    theirs: str, ours: str, type_: str, lake_type: str
) -> tuple[str, str] | None:
    if type_ in INTEGERS and lake_type in _WHOLE:
        return f"{theirs}::text", f"CAST({ours} AS VARCHAR)"
    if type_ == "bool" and lake_type == "BOOLEAN":
        return f"{theirs}::int::text", f"CAST(CAST({ours} AS INTEGER) AS VARCHAR)"
    if type_ == "numeric" and (lake_type.startswith("DECIMAL") or lake_type == "VARCHAR"):
        text = f"CAST({ours} AS VARCHAR)"
        trimmed = f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
        return f"trim_scale({theirs})::text", trimmed
    if (type_, lake_type) in {("float8", "DOUBLE"), ("float4", "FLOAT")}:
        bits = type_.removeprefix("float")
        width = int(bits) * 8
        return (
            f"('x' || encode({type_}send({theirs}), 'hex'))::bit({width})::text",
            f"CAST(CAST({ours} AS BIT) AS VARCHAR)",
        )
    if type_ in _TEXTS and lake_type == "VARCHAR":
        return f"{theirs}::text", ours
    if type_ == "bpchar" and lake_type == "VARCHAR":
        return f"rtrim({theirs}::text)", f"rtrim({ours})"
    if type_ == "bytea" and lake_type == "BLOB":
        return f"encode({theirs}, 'hex')", f"lower(hex({ours}))"
    if type_ == "time" and lake_type == "VARCHAR":
        return f"to_char({theirs}, 'HH24:MI:SS.US')", ours
    if type_ == "date" and lake_type == "DATE":
        days = f"CASE WHEN isfinite({theirs}) THEN ({theirs} - date '1970-01-01')::text"
        return f"{days} WHEN {theirs} > '1970-01-01' THEN '~+' WHEN {theirs} IS NOT NULL THEN '~-' END", (
            f"CASE WHEN year({ours}) > 200000 THEN '~+' WHEN year({ours}) < -200000 THEN '~-'"
            f" ELSE CAST(date_diff('day', DATE '1970-01-01', {ours}) AS VARCHAR) END"
        )
    if (type_, lake_type) in {("timestamp", "TIMESTAMP"), ("timestamptz", "TIMESTAMP WITH TIME ZONE")}:
        micros = f"CASE WHEN isfinite({theirs}) THEN (extract(epoch FROM {theirs}) * 1000000)::bigint::text"
        return f"{micros} WHEN {theirs} > '1970-01-01' THEN '~+' WHEN {theirs} IS NOT NULL THEN '~-' END", (
            f"CASE WHEN epoch_us({ours}) > 9223372036800000000 THEN '~+' WHEN epoch_us({ours}) < -9223372036800000000"
            f" THEN '~-' ELSE CAST(epoch_us({ours}) AS VARCHAR) END"
        )
    return None


def postgres_checksum(columns: Sequence[AuditColumn]) -> str:
    """SQL of a row's checksum in PostgreSQL, a bigint."""
    parts = [f"coalesce(octet_length({c.postgres_text}) || ':' || {c.postgres_text}, 'n')" for c in columns]
    return f"('x' || substr(md5({' || '.join(parts)}), 1, {_CHECKSUM_DIGITS}))::bit(60)::bigint"


def lake_checksum(columns: Sequence[AuditColumn]) -> str:
    """The same in DuckDB."""
    parts = [f"coalesce(strlen({c.lake_text}) || ':' || {c.lake_text}, 'n')" for c in columns]
    return f"CAST('0x' || substr(md5({' || '.join(parts)}), 1, {_CHECKSUM_DIGITS}) AS BIGINT)"
