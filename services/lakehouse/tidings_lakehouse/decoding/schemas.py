"""Which reader decodes which schema ids of a topic: the registry's answers turned into a plan.

A plan is made again only when a record arrives with an id that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidings_lakehouse.decoding.described import Described, described
from tidings_lakehouse.decoding.fills import required_defaults, required_fields, row_fields
from tidings_lakehouse.formats.avro_nodes import (
    Node,
    UnsupportedSchemaError,
    group_by_reader,
    merge_exactly,
    parse_schema,
)
from tidings_lakehouse.formats.json_records import is_json_id
from tidings_lakehouse.formats.records import JsonReaderGroup, ReaderGroup
from tidings_lakehouse.formats.registry import SchemaSource

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
    """The row's fields by schema id, the oldest first."""
    described: Mapping[int, Described] = field(default_factory=dict)
    """What each schema says beside the types, likewise."""

    @property
    def ids(self) -> frozenset[int]:
        """The ids it knows, refused ones included."""
        return frozenset(self.refused).union(*(group.writers for group in self.groups))

    def describing(self, ids: Iterable[int]) -> Described | None:
        """What the newest of some schemas says; None: none of them can be used."""
        among = frozenset(ids)
        found = [told for schema_id, told in self.described.items() if schema_id in among]
        return found[-1] if found else None

    @property
    def newest_row(self) -> frozenset[str]:
        """The row's fields in the newest schema seen."""
        return next(reversed(list(self.rows.values())), frozenset())


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
        required: dict[int, frozenset[str]] = {}
        told: dict[int, Described] = {}
        for schema_id in sorted(ids, key=self._schemas.age):
            named = "its schema" if is_json_id(schema_id) else f"schema {schema_id}"
            try:
                schema = self._schemas.by_id(schema_id)
            except RecursionError:
                refused[schema_id] = f"{named} is too deep to be read"
                continue
            except UnsupportedSchemaError as error:
                refused[schema_id] = f"{named} has {error}"
                continue
            if schema is None:
                refused[schema_id] = self._schemas.missing(schema_id)
                continue
            try:
                node = parse_schema(schema)
            except UnsupportedSchemaError as error:
                refused[schema_id] = f"{named} has {error}"
                continue
            why = self._check(node)
            if why is not None:
                refused[schema_id] = f"{named} {why}"
                continue
            writers[schema_id] = node
            texts[schema_id] = json.dumps(schema)
            rows[schema_id] = row_fields(schema)
            required[schema_id] = required_fields(schema)
            told[schema_id] = described(schema, schema_id)
        return DecodingPlan(
            (*self._avro_groups(subject, writers, texts), *self._json_groups(writers, texts, required)),
            refused,
            required_defaults(next(reversed(rows.values()))) if rows else {},
            {schema_id: frozenset(fields) for schema_id, fields in rows.items()},
            told,
        )

    def _avro_groups(
        self, subject: str, writers: Mapping[int, Node], texts: Mapping[int, str]
    ) -> list[ReaderGroup]:
        own = {schema_id: node for schema_id, node in writers.items() if not is_json_id(schema_id)}
        return [
            ReaderGroup(reader, {schema_id: texts[schema_id] for schema_id in group}, self._keep)
            for reader, group in group_by_reader(self._newest(subject, own), own)
        ]

    def _json_groups(
        self, writers: Mapping[int, Node], texts: Mapping[int, str], required: Mapping[int, frozenset[str]]
    ) -> list[JsonReaderGroup]:
        own = {schema_id: node for schema_id, node in writers.items() if is_json_id(schema_id)}
        return [
            JsonReaderGroup(
                reader,
                {schema_id: texts[schema_id] for schema_id in group},
                self._keep,
                tuple(sorted(frozenset.intersection(*(required[schema_id] for schema_id in group)))),
            )
            for reader, group in group_by_reader(None, own, merge_exactly)
        ]

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
