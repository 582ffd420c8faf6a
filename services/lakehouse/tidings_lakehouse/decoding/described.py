"""What a schema says of a record's fields beside their types: which may not be null, and what they are for.

Comments come as Kafka Connect's ``doc``, which JsonConverter writes as ``doc`` and AvroConverter as ``connect.doc`` of the field's
type; Avro's own ``doc`` stands at the field. A registry may take schemas that differ in Avro's ``doc`` alone for one (Apicurio does,
and gives the first one's id and text), those that differ in ``connect.doc`` it tells apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings_lakehouse.formats.json_records import is_json_id

_STOCK = frozenset({"Variable scaled decimal", "Geometry"})
"""Debezium's and Connect's words for a type, which say nothing of the column."""


@dataclass(frozen=True)
class Described:
    """What one schema says of a record."""

    table: str = ""
    """The record's own comment; empty: it has none."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """By field."""
    required: frozenset[str] = frozenset()
    """Fields that are never null in a record that has been decoded."""

    def by_column(self, column_of: Callable[[str], str | None]) -> dict[str, str]:
        """The comments by the columns that fields have, if they have one; that of the table is by ""."""
        found = {
            column: text for name, text in self.comments.items() if (column := column_of(name)) is not None
        }
        return found | ({"": self.table} if self.table else {})


def described(schema: Any, schema_id: int) -> Described:
    """What a schema as JSON gives it says of its record, or of its row where it is an envelope's."""
    row = _row(schema)
    record = schema if row is None else row
    if not isinstance(record, dict):
        return Described()
    fields = [one for one in record.get("fields", ()) if isinstance(one, dict)]
    required = frozenset(one["name"] for one in fields if not _is_optional(one["type"]))
    if row is not None and is_json_id(schema_id):
        required = frozenset()  # a value that JSON lacks is null, whatever the schema says
    comments = {one["name"]: text for one in fields if (text := _comment_of_field(one))}
    return Described(_comment(record), comments, required)


def _row(schema: Any) -> dict[str, Any] | None:
    """The record of ``before`` in an envelope's schema; it is defined there, and only named in ``after``."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    by_name = {one["name"]: one["type"] for one in fields if isinstance(one, dict)}
    if not {"before", "after", "op", "source"} <= by_name.keys():
        return None
    kinds = by_name["before"] if isinstance(by_name["before"], list) else [by_name["before"]]
    return next((kind for kind in kinds if isinstance(kind, dict) and kind.get("type") == "record"), None)


def _is_optional(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and any(_is_optional(one) for one in kind))


def _comment_of_field(one: Mapping[str, Any]) -> str:
    kinds = one["type"] if isinstance(one["type"], list) else [one["type"]]
    found = [_comment(one), *(_comment(kind) for kind in kinds if isinstance(kind, dict))]
    return next((text for text in found if text and text not in _STOCK), "")


def _comment(schema: Mapping[str, Any]) -> str:
    text = schema.get("connect.doc", schema.get("doc"))
    return text if isinstance(text, str) else ""
