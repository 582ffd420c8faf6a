"""Defaults of the columns that a table has got, which rows from before them have.

A field that comes in another type than one of its name had gets a column of its own (`tables.target_name`), and no default: its
schema does not tell a column that went and came again, whose older rows have the default, from one whose type was changed,
whose older rows have their values in the new type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import types as st

from tidings_lakehouse.choices import TopicChoices
from tidings_lakehouse.decoding.columns import chosen_type, column_type
from tidings_lakehouse.decoding.fills import default_value
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.tables.tables import safe_name, target_name


@dataclass(frozen=True)
class NewColumns:
    """Those of one topic, as the schemas of its plan have it."""

    plan: DecodingPlan = DecodingPlan()
    fields: dict[str, str] = field(default_factory=dict)
    """By column of the current state with a default, the field of rows."""

    def are_lacking(self, column: str, schema_ids: Iterable[int]) -> bool:
        """Whether rows of one of the schemas have no value of a column."""
        name = self.fields[column]
        return any(name not in self.plan.rows.get(schema_id, {name}) for schema_id in schema_ids)

    def default(self, column: str, wanted: st.DataType) -> Column | None:
        """A column's default; None where it is of another type, or cannot be read."""
        name = self.fields[column]
        node = _field(self.plan, _newest(self.plan), name)
        if node is None or column_type(node).sql != wanted:
            return None
        default: Any = self.plan.defaults[name]
        return default_value(node, default)


def new_columns(plan: DecodingPlan, log: st.StructType, choices: TopicChoices) -> NewColumns:
    """The columns of a topic that have a default and may not be null."""
    if not plan.defaults:
        return NewColumns()
    after = next((one.dataType for one in log.fields if one.name == "after"), None)
    row = {one.name: one.dataType for one in after.fields} if isinstance(after, st.StructType) else {}
    found = {}
    for name in plan.defaults:
        nodes = [node for schema_id in plan.rows if (node := _field(plan, schema_id, name)) is not None]
        columns = {target_name(row, name, chosen_type(node, choices.of(name)).sql) for node in nodes}
        if columns == {name}:
            found[safe_name(name)] = name
    return NewColumns(plan, found)


def _newest(plan: DecodingPlan) -> int:
    return next(reversed(list(plan.rows)))


def _field(plan: DecodingPlan, schema_id: int, name: str) -> Node | None:
    """A field of the rows of a schema, as its records are read."""
    if name not in plan.rows[schema_id]:
        return None
    row = next((group.reader.field("after") for group in plan.groups if schema_id in group.writers), None)
    return None if row is None else row.field(name)
