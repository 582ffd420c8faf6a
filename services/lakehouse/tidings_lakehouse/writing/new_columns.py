"""Columns that a table has got with a default: which one holds the values of each field, and which schemas' rows lack it.

A field whose type has changed, or that went and came as another one, has a column of its own beside the former
(`tables.target_name`). So a default belongs to the column of the newest schema's type, and rows of a schema that has the field
in another type lack it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import types as st

from tidings_lakehouse.decoding.change_decoder import ChangeDecoder
from tidings_lakehouse.decoding.columns import chosen_type, column_type
from tidings_lakehouse.decoding.fills import default_value
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.tables.tables import safe_name, target_name


class NewColumns:
    """Those of one topic, as the schemas have it that its decoder was made for."""

    def __init__(self, decoder: ChangeDecoder | None) -> None:
        self.defaults: dict[str, Any] = {}
        """As Avro's JSON has them, by column of the current state."""
        self._fields: dict[str, str] = {}
        if decoder is None or not decoder.made_for[1].defaults:
            return
        _, self._plan, _, log, _, self._choices, _ = decoder.made_for
        after = next((field.dataType for field in log.fields if field.name == "after"), None)
        self._row = (
            {one.name: one.dataType for one in after.fields} if isinstance(after, st.StructType) else {}
        )
        self._newest = next(reversed(list(self._plan.rows)))
        for name, default in self._plan.defaults.items():
            column = self._column(self._newest, name)
            if column is not None:
                self.defaults[column], self._fields[column] = default, name

    def are_lacking(self, column: str, schema_ids: Iterable[int]) -> bool:
        """Whether a row of one of the schemas has no value of a column, which has a default."""
        known = [id_ for id_ in schema_ids if id_ in self._plan.rows]
        return any(self._column(id_, self._fields[column]) != column for id_ in known)

    def default(self, column: str, wanted: st.DataType) -> Column | None:
        """A column's default; None where it is of another type, or cannot be read."""
        node = _field(self._plan, self._newest, self._fields[column])
        if node is None or column_type(node).sql != wanted:
            return None
        return default_value(node, self.defaults[column])

    def _column(self, schema_id: int, name: str) -> str | None:
        """The column that holds a field of a schema; None: the schema has none of this name."""
        node = _field(self._plan, schema_id, name)
        if node is None:
            return None
        return safe_name(target_name(self._row, name, chosen_type(node, self._choices.of(name)).sql))


def _field(plan: DecodingPlan, schema_id: int, name: str) -> Node | None:
    """A field of the rows of a schema, as its records are read."""
    if name not in plan.rows[schema_id]:
        return None
    row = next((group.reader.field("after") for group in plan.groups if schema_id in group.writers), None)
    return None if row is None else row.field(name)
