"""PostgreSQL's side of a comparison: how it writes a value, and a row's checksum. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    zoned,
)

_INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset(
    {"text", "varchar", "uuid", "json", "jsonb", "xml", "citext", "inet", "cidr", "macaddr", "ltree", "name"}
)
_ORDERED = frozenset({"text", "varchar", "uuid"})
"""Texts that both sides order by their bytes."""
_WRITTEN: dict[str, Callable[[str], str]] = {
    "bool": {"1": "t", "0": "f"}.__getitem__,
    "bytea": lambda text: "\\x" + text,
    "date": day,
    "timestamp": moment,
    "timestamptz": zoned,
    "float8": float_of_bits(">d"),
    "float4": float_of_bits(">f"),
}


@dataclass(frozen=True)
class PostgresColumn:
    """See `SourceColumn`."""

    name: str
    type: str
    """``pg_type.typname``."""
    is_enum: bool = False

    def compared(self, lake: str, lake_type: str) -> AuditColumn | None:
        """See `SourceColumn`."""
        theirs, ours = '"' + self.name.replace('"', '""') + '"', lake_name(lake)
        type_ = "text" if self.is_enum else self.type
        texts = _texts(theirs, ours, type_, lake_type)
        if texts is None:
            return None
        is_whole = type_ in _INTEGERS
        ordered = theirs if is_whole else f'{theirs}::text COLLATE "C"' if self.type in _ORDERED else None
        return AuditColumn(
            self.name, lake, *texts, _WRITTEN.get(self.type, str), ordered=ordered, is_whole=is_whole
        )


def _texts(  # noqa: PLR0911 - one for each kind of type
    theirs: str, ours: str, type_: str, lake_type: str
) -> tuple[str, str] | None:
    if type_ in _INTEGERS and lake_type in WHOLE:
        return f"{theirs}::text", whole_text(ours)
    if type_ == "bool" and lake_type == "BOOLEAN":
        return f"{theirs}::int::text", flag_text(ours)
    if type_ == "numeric" and (lake_type.startswith("DECIMAL") or lake_type == "VARCHAR"):
        return f"trim_scale({theirs})::text", decimal_text(ours)
    if (type_, lake_type) in {("float8", "DOUBLE"), ("float4", "FLOAT")}:
        width = int(type_.removeprefix("float")) * 8
        return f"('x' || encode({type_}send({theirs}), 'hex'))::bit({width})::text", bits_text(ours)
    if type_ in _TEXTS and lake_type == "VARCHAR":
        return f"{theirs}::text", ours
    if type_ == "bpchar" and lake_type == "VARCHAR":
        return f"rtrim({theirs}::text)", f"rtrim({ours})"
    if type_ == "bytea" and lake_type == "BLOB":
        return f"encode({theirs}, 'hex')", hex_text(ours)
    if type_ == "time" and lake_type == "VARCHAR":
        return f"to_char({theirs}, 'HH24:MI:SS.US')", ours
    if type_ == "date" and lake_type == "DATE":
        return _finite(theirs, f"({theirs} - date '1970-01-01')::text"), day_text(ours)
    if (type_, lake_type) in {("timestamp", "TIMESTAMP"), ("timestamptz", "TIMESTAMP WITH TIME ZONE")}:
        micros = f"(extract(epoch FROM {theirs}) * 1000000)::bigint::text"
        return _finite(theirs, micros), moment_text(ours)
    return None


def _finite(theirs: str, text: str) -> str:
    return (
        f"CASE WHEN isfinite({theirs}) THEN {text}"
        f" WHEN {theirs} > '1970-01-01' THEN '~+' WHEN {theirs} IS NOT NULL THEN '~-' END"
    )


def postgres_checksum(columns: Sequence[AuditColumn]) -> str:
    """SQL of a row's checksum in PostgreSQL, a bigint; the same as `lake_checksum`."""
    parts = [f"coalesce(octet_length({c.source_text}) || ':' || {c.source_text}, 'n')" for c in columns]
    return f"('x' || substr(md5({' || '.join(parts)}), 1, {CHECKSUM_DIGITS}))::bit(60)::bigint"
