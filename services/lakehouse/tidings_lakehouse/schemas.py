"""Which reader decodes which schema ids of a topic: the registry's answers turned into a plan.

A plan is made again only when a record arrives with an id that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidings_lakehouse.avro_nodes import Node, UnsupportedSchemaError, group_by_reader, parse_schema
from tidings_lakehouse.fills import required_defaults, row_fields
from tidings_lakehouse.records import ReaderGroup
from tidings_lakehouse.registry import SchemaSource

Check = Callable[[Node], str | None]
"""Says why a schema cannot be used, or None."""


@dataclass(frozen=True)
class DecodingPlan:
    """How the keys or values of one topic are decoded."""

    groups: tuple[ReaderGroup, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    """Why an id cannot be used."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the row's fields that may not be null in the newest schema seen; see `fills`."""
    rows: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The row's fields by schema id."""

    @property
    def ids(self) -> frozenset[int]:
        """The ids it knows, refused ones included."""
        return frozenset(self.refused).union(*(group.writers for group in self.groups))


class Planner:
    """Makes plans, and keeps them."""

    def __init__(
        self, schemas: SchemaSource, check: Check, *, keep: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._schemas = schemas
        self._check = check
        self._keep = keep
        self._plans: dict[str, DecodingPlan] = {}

    def plan(self, subject: str, ids: Iterable[int]) -> DecodingPlan:
        """The plan for a subject that knows all `ids`.

        Raises:
            RegistryUnreachableError: the registry does not answer.
        """
        known = self._plans.get(subject, DecodingPlan())
        wanted = frozenset(ids)
        if not wanted <= known.ids:
            # A refused id is asked for again: it may have been registered since.
            usable = frozenset().union(*(group.writers for group in known.groups))
            known = self._make(subject, wanted | usable)
            self._plans[subject] = known
        return known

    def _make(self, subject: str, ids: frozenset[int]) -> DecodingPlan:
        writers: dict[int, Node] = {}
        texts: dict[int, str] = {}
        refused: dict[int, str] = {}
        rows: dict[int, dict[str, Any]] = {}
        for schema_id in sorted(ids):
            try:
                schema = self._schemas.by_id(schema_id)
            except RecursionError:
                refused[schema_id] = f"schema {schema_id} is too deep to be read"
                continue
            if schema is None:
                refused[schema_id] = f"schema {schema_id} is not in the registry"
                continue
            try:
                node = parse_schema(schema)
            except UnsupportedSchemaError as error:
                refused[schema_id] = f"schema {schema_id} has {error}"
                continue
            why = self._check(node)
            if why is not None:
                refused[schema_id] = f"schema {schema_id} {why}"
                continue
            writers[schema_id] = node
            texts[schema_id] = json.dumps(schema)
            rows[schema_id] = row_fields(schema)
        groups = tuple(
            ReaderGroup(reader, {schema_id: texts[schema_id] for schema_id in group}, self._keep)
            for reader, group in group_by_reader(self._newest(subject, writers), writers)
        )
        return DecodingPlan(
            groups,
            refused,
            required_defaults(rows[max(rows)]) if rows else {},
            {schema_id: frozenset(fields) for schema_id, fields in rows.items()},
        )

    def _newest(self, subject: str, writers: Mapping[int, Node]) -> Node | None:
        if not writers:
            return None
        try:
            schema = self._schemas.latest(subject)
            node = None if schema is None else parse_schema(schema)
        except (RecursionError, UnsupportedSchemaError):
            return None
        if node is None:
            return None
        return node if self._check(node) is None else None
