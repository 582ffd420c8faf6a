"""Defaults that PostgreSQL gave to rows without telling: ``ADD COLUMN ... NOT NULL DEFAULT 'web'`` logs no row.

The first record behind the statement carries a schema in which the new field is required and has the column's default. No
row can be null there any more, so what the table still has as null is from before the statement and has the default. (Of a
column that may be null this cannot be told: its default may have been set later, which changes no row.)
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.columns import column_type
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.tables.tables import quoted

_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "string", "enum"})


def row_fields(schema: Any) -> dict[str, Any]:
    """The fields of a row in an envelope's schema as JSON gives it, by name; none when it is not an envelope's."""
    if not isinstance(schema, dict):
        return {}
    for field in schema.get("fields", ()):
        if field["name"] == "before":
            kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
            rows = [kind for kind in kinds if isinstance(kind, dict) and kind.get("type") == "record"]
            return {one["name"]: one for row in rows for one in row["fields"]}
    return {}


def required_fields(schema: Any) -> frozenset[str]:
    """The outermost record's fields that may not be null."""
    if not isinstance(schema, dict):
        return frozenset()
    return frozenset(one["name"] for one in schema.get("fields", ()) if not isinstance(one["type"], list))


def required_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults, as Avro's JSON has them, of the fields that may not be null."""
    return {
        name: field["default"]
        for name, field in fields.items()
        if field.get("default") is not None and not isinstance(field["type"], list)
    }


def default_value(node: Node, default: Any) -> Column | None:
    """A default in its column's type; None for types whose defaults are not read."""
    if node.is_native_decimal and isinstance(default, str):
        unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
        value = sf.lit(str(Decimal(unscaled).scaleb(-node.scale)))
    elif node.kind in _PLAIN and node.logical not in {"decimal", "date"}:
        value = sf.lit(default)
        if node.kind in {"int", "long"}:
            value = value.cast(node.kind.replace("long", "bigint"))
    else:
        return None
    type_ = column_type(node)
    return (value if node.is_native_decimal else type_.apply(value)).cast(type_.sql)


def literal(text: str, type_name: str) -> str:
    """A value, given as Spark's text of it, as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{escaped}' AS {type_name})"


def fill_statement(table: str, values: Mapping[str, str]) -> str:
    """UPDATE of the rows that lack one of the values, which are literals by column; idempotent."""
    columns = {quoted(column): value for column, value in values.items()}
    assigned = ", ".join(f"{column} = coalesce({column}, {value})" for column, value in columns.items())
    lacking = " OR ".join(f"{column} IS NULL" for column in columns)
    return f"UPDATE {table} SET {assigned} WHERE {lacking}"  # noqa: S608 - quoted and escaped
