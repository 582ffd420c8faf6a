"""Columns that are never null, as far as all records of a topic that have come so far say so.

The log keeps it in a property, since what waits in a log to be merged may be older than this process and its schemas. It only ever
shrinks: a column that may be null once, or is not in a record, is no such column any more, and a column that comes later never becomes one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import types as st

from tidings_lakehouse.choices import TopicChoices, TypeChoices
from tidings_lakehouse.decoding.changes import CurrentShape
from tidings_lakehouse.decoding.columns import chosen_type
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.tables.naming import Naming
from tidings_lakehouse.tables.tables import target_name

PROPERTY = "tidings.never-null"
"""Of a log; one of a former release has none, and its current state no such columns."""
_WHOLE = frozenset(
    f"io.debezium.time.{name}"
    for name in ("Date", "Timestamp", "MicroTimestamp", "NanoTimestamp", "Time", "MicroTime", "NanoTime")
)
"""Types that are converted, and never to null."""


@dataclass(frozen=True)
class NeverNull:
    """Of one topic."""

    key: frozenset[str] = frozenset()
    """Fields of the log's `key`."""
    row: frozenset[str] = frozenset()
    """Fields of the log's `after`, where there is one."""

    @property
    def text(self) -> str:
        """As the property has it."""
        return json.dumps({"key": sorted(self.key), "row": sorted(self.row)})

    def also(self, other: NeverNull) -> NeverNull:
        """What both say."""
        return NeverNull(self.key & other.key, self.row & other.row)

    def renamed(self, former: str, name: str) -> NeverNull:
        """With a field's new name."""
        return replace(self, key=_renamed(self.key, former, name), row=_renamed(self.row, former, name))

    def columns(self, shape: CurrentShape) -> frozenset[str]:
        """Columns of the current state."""
        keys = {column for column, name in shape.keys.items() if name in self.key}
        row = {column for column, name in shape.columns.items() if name in self.row}
        return frozenset(keys | (row - shape.keys.keys()))


def _renamed(names: frozenset[str], former: str, name: str) -> frozenset[str]:
    return names - {former} | {name} if former in names else names


def of_text(text: str) -> NeverNull:
    """What a log's property says; nothing where it has none."""
    found = json.loads(text) if text else {}
    return NeverNull(frozenset(found.get("key", ())), frozenset(found.get("row", ())))


def never_null(
    values: DecodingPlan, keys: DecodingPlan, log: st.StructType, naming: Naming, choices: TopicChoices
) -> NeverNull:
    """What the schemas of a topic say together.

    Args:
        log: the columns that the log has, or is to have.
    """
    if choices.is_text:
        return NeverNull()
    types = {field.name: field.dataType for field in log.fields}
    return NeverNull(
        _always(keys, lambda node: node, types.get("key"), naming, TopicChoices()),
        _always(values, lambda node: node.field("after"), types.get("after"), naming, choices),
    )


def _always(
    plan: DecodingPlan,
    row_of: Callable[[Node], Node | None],
    target: st.DataType | None,
    naming: Naming,
    choices: TopicChoices,
) -> frozenset[str]:
    if not isinstance(target, st.StructType):
        return frozenset()
    wanted = {field.name: field.dataType for field in target.fields}
    found: frozenset[str] | None = None
    for group in plan.groups:
        row = row_of(group.reader)
        columns = {} if row is None else _columns(row, wanted, naming, choices)
        for schema_id in group.writers:
            required = plan.described[schema_id].required
            own = frozenset(column for name, column in columns.items() if name in required)
            found = own if found is None else found & own
    return found or frozenset()


def _columns(
    row: Node, wanted: dict[str, st.DataType], naming: Naming, choices: TopicChoices
) -> dict[str, str]:
    """By field, the column that has all of its values, none of which becomes null."""
    found = {}
    for name, node in row.fields:
        called = naming.sole(name)
        if called is not None and _stays(node, choices.of(name)):
            found[name] = target_name(wanted, called, chosen_type(node, choices.of(name)).sql)
    return found


def _stays(node: Node, types: TypeChoices) -> bool:
    """Whether no value of a type becomes null in its column."""
    if types.infinite_is_null and node.logical is not None:
        return False
    return chosen_type(node, types).convert is None or node.logical in _WHOLE
