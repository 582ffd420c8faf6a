"""How the rows of a result become records. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidings_capture.query.columns import Column, Field, field_of
from tidings_capture.query.config import QueryConfig
from tidings_capture.query.database import TableFacts, TableId
from tidings_capture.query.errors import TableError
from tidings_capture.query.packed import checksum
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.schema import Field as SchemaField

LATE: Final = "tidings_late"
"""The column that this connector selects beside a table's."""


@dataclass(slots=True)
class Plan:
    """How rows of a result become records."""

    columns: tuple[Column, ...]
    schema: ConnectSchema
    fields: list[tuple[str, Field]]
    key_schema: ConnectSchema | None
    key: list[str]
    number: int | None
    moments: list[int]
    late: int | None
    identity: list[int]
    """Where the primary key's columns are, when rows are compared with what was sent."""

    def checksum(self, row: Sequence[Any]) -> bytes:
        """Of a row, without what only this connector has selected."""
        names = [column.name for column in self.columns]
        if self.late is None:
            return checksum(names, row)
        late = self.late
        return checksum([*names[:late], *names[late + 1 :]], [*row[:late], *row[late + 1 :]])


def plan_of(
    columns: Sequence[Column],
    config: QueryConfig,
    facts: TableFacts,
    counted: str,
    table: TableId | None,
    *,
    compared: bool,
) -> Plan:
    """The plan for a result.

    Args:
        columns: the result's.
        counted: the column that only grows, where rows are found by it.
        table: None: the configuration's query.
        compared: whether rows are compared with what was sent.

    Raises:
        TableError: columns are missing, or two have one name.
    """
    title = "the query" if table is None else f"table {table}"
    nullable = {column.name: column.nullable for column in facts.columns}
    fields = []
    for column in columns:
        if column.name != LATE or not config.waits:
            seen = Column(
                column.name, column.kind, column.precision, column.scale, column.array,
                nullable.get(column.name, True),
            )  # fmt: skip
            fields.append((column.name, field_of(seen, config)))
    names = [column.name for column in columns]
    if len(set(names)) != len(names):
        raise TableError(f"{title} has two columns of one name", hint="give one of them another with AS")
    for name in (
        *((counted,) if config.by_number else ()),
        *(config.timestamps if config.by_timestamp else ()),
    ):
        if name not in names:
            raise TableError(f"{title} has no column {name}", hint="select it")
    by_name = dict(fields)
    key = list(facts.key) if config.keyed else []
    return Plan(
        columns=tuple(columns),
        schema=_struct(None if table is None else table.name, fields),
        fields=fields,
        key_schema=_struct(None, [(name, by_name[name]) for name in key]) if key else None,
        key=key,
        number=names.index(counted) if config.by_number else None,
        moments=[names.index(name) for name in config.timestamps] if config.by_timestamp else [],
        late=names.index(LATE) if config.waits and LATE in names else None,
        identity=[names.index(name) for name in facts.key] if compared else [],
    )


def _struct(name: str | None, fields: Sequence[tuple[str, Field]]) -> ConnectSchema:
    return ConnectSchema(
        ConnectType.STRUCT, name=name, fields=tuple(SchemaField(name, field.schema) for name, field in fields)
    )
