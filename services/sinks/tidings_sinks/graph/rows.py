"""Rows of tables, by Debezium's envelopes or as flat records, as changes of nodes and relationships. Pure.

A row is a node, whose foreign keys are relationships, or it is a relationship itself. It owns what its pattern names: its
properties, and its relationships. A node of which only foreign keys tell is a placeholder (see `row_statements`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.toast import is_unavailable
from tidings_sinks.errors import RowError
from tidings_sinks.graph.parts import Parts, timestamp
from tidings_sinks.graph.patterns import NodePattern, RowPattern
from tidings_sinks.graph.row_plans import Plan, Plans, Source
from tidings_sinks.graph.values import Values, flattened

_ENVELOPE: Final = frozenset({"before", "after", "op", "source"})
_HEADER: Final = "__header."
_TIMESTAMP: Final = "__timestamp"
_KEY: Final = "__key"


class End(NamedTuple):
    """The node at the other end of a relationship."""

    keys: Mapping[str, Any] | None
    """None: there is none, as the foreign key is null."""
    properties: Mapping[str, Any]
    """Of the relationship to it."""


@dataclass(slots=True)
class RowChange:
    """What a record does to a row."""

    rows: "Rows"
    identity: tuple[Any, ...]
    keys: Mapping[str, Any]
    deletes: bool = False
    properties: dict[str, Any] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    """How the names of properties begin that are there no more, unless they are among the new ones."""
    ends: tuple[End | None, ...] = ()
    """Of a node's links, or of a relationship's start and end; None: not sent, so that it stays what it is."""

    def after(self, former: "RowChange") -> "RowChange":
        """The change that does what a former write of the row and this one do."""
        kept = {
            name: value
            for name, value in former.properties.items()
            if name not in self.properties and not name.startswith(self.cleared)
        }
        ends = tuple(
            mine if mine is not None else before for mine, before in zip(self.ends, former.ends, strict=True)
        )
        cleared = tuple(dict.fromkeys(former.cleared + self.cleared))
        return RowChange(self.rows, self.identity, self.keys, False, kept | self.properties, cleared, ends)


class Rows:
    """Reads the records of one topic.

    Args:
        pattern: what a row is.
        values: converts what rows hold.
        parts: reads headers and keys, for patterns that name them.
        flattens: whether objects are taken apart.
    """

    def __init__(self, pattern: RowPattern, values: Values, parts: Parts, *, flattens: bool) -> None:
        self.pattern = pattern
        self._values, self._parts = values, parts
        self._plans = Plans(pattern, values, flattens=flattens)
        entity = pattern.entity
        self._is_node = isinstance(entity, NodePattern)
        self._keys, self._fields = entity.fields.keys, entity.fields

    def read(self, record: SinkRecord) -> RowChange | None:
        """What a record asks for; None: nothing.

        Raises:
            RowError: it is none that the pattern fits.
        """
        value = record.value
        if value is None:
            return self._delete(record, {}, None)
        if type(value) is not dict and not isinstance(value, Mapping):  # the former is much faster
            raise RowError("the value has no fields")
        if "after" not in value or not value.keys() >= _ENVELOPE:
            return self._write(record, value, record.value_schema)
        op = value["op"]
        if op == "d":
            return self._delete(record, value["before"] or {}, _part(record.value_schema, "before"))
        if op == "m":
            return None
        if op not in ("c", "r", "u") or not isinstance(value["after"], Mapping):
            raise RowError("the envelope has no op of a row, or no row after it")
        return self._write(record, value["after"], _part(record.value_schema, "after"))

    # Changes

    def _write(self, record: SinkRecord, row: Mapping[str, Any], schema: ConnectSchema | None) -> RowChange:
        plan = self._plans.of(schema)
        keys = {}
        for source in plan.keys:
            found = self._found(source, row, record)
            if found is None:
                raise RowError(f"the record has no {source.name}, which is a key")
            keys[source.target] = found
        flat = None if plan.flat is None else plan.flat.of(row)
        properties, cleared = (
            self._properties(plan.properties, row, record) if flat is None else (flat, _NOTHING)
        )
        if plan.everything:
            self._rest(plan, row, properties)
        ends: tuple[End | None, ...] = ()
        if plan.ends:
            ends = tuple(self._end(of_end, to_it, row, record) for of_end, to_it in plan.ends)
        if not self._is_node and any(end is not None and end.keys is None for end in ends):
            return RowChange(self, _identity(keys), keys, deletes=True)
        return RowChange(self, _identity(keys), keys, False, properties, cleared, ends)

    def _delete(
        self, record: SinkRecord, before: Mapping[str, Any], schema: ConnectSchema | None
    ) -> RowChange:
        keys = {}
        of_key = self._plans.of(record.key_schema) if isinstance(record.key, Mapping) else None
        of_row = self._plans.of(schema)
        for place, item in enumerate(self._keys):
            found = None
            if of_key is not None:
                found = self._found(of_key.keys[place], record.key, record)
            elif record.key is not None and len(self._keys) == 1:
                found = self._parts.key(record)
            if found is None:
                found = self._found(of_row.keys[place], before, record)
            if found is None:
                raise RowError(f"the record has no {item.source}, which is a key")
            keys[item.target] = found
        return RowChange(self, _identity(keys), keys, deletes=True)

    def _end(
        self,
        keys: tuple[Source, ...],
        to_it: tuple[Source, ...],
        row: Mapping[str, Any],
        record: SinkRecord,
    ) -> End | None:
        found = {}
        for source in keys:
            if is_unavailable(row.get(source.name)):
                return None
            found[source.target] = self._found(source, row, record)
        properties, _ = self._properties(to_it, row, record)
        return End(None if None in found.values() else found, properties)

    def _properties(
        self, sources: tuple[Source, ...], row: Mapping[str, Any], record: SinkRecord
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        found: dict[str, Any] = {}
        cleared: list[str] = []
        for target, name, convert, takes_apart in sources:
            value = row.get(name, _ABSENT)
            if value is _ABSENT:
                value = self._named(name, record)
            if value is None:
                found[target] = None
            elif (type(value) is str or type(value) not in _SCALARS) and is_unavailable(value):
                continue
            else:
                made = value if convert is None else convert(value)
                if type(made) is dict:
                    found |= flattened(made, target)
                    found.setdefault(target, None)
                else:
                    found[target] = made
            if takes_apart:
                cleared.append(f"{target}.")
        return found, tuple(cleared)

    def _rest(self, plan: Plan, row: Mapping[str, Any], properties: dict[str, Any]) -> None:
        """Of rows without a schema: what the pattern does not name."""
        named = {source.name for source in (*plan.keys, *plan.properties)} | set(self._fields.excluded)
        for name, value in row.items():
            if name not in named and not is_unavailable(value):
                made = None if value is None else self._values.property(None)
                found = made(value) if made is not None else None
                properties |= flattened({name: found}) if isinstance(found, dict) else {name: found}

    def _found(self, source: Source, row: Mapping[str, Any], record: SinkRecord) -> Any:
        value = row.get(source.name)
        if value is None:
            return self._named(source.name, record)
        return value if source.convert is None else source.convert(value)

    def _named(self, name: str, record: SinkRecord) -> Any:
        """A part of the record that a pattern names; None: there is none of this name."""
        if name.startswith(_HEADER):
            return self._parts.headers(record).get(name.removeprefix(_HEADER))
        if name == _TIMESTAMP:
            return timestamp(record)
        if name.startswith(_KEY):
            key = self._parts.key(record)
            return (
                key
                if name == _KEY
                else key.get(name.removeprefix(f"{_KEY}."))
                if isinstance(key, Mapping)
                else None
            )
        return None


_ABSENT: Final = object()
_NOTHING: Final[tuple[str, ...]] = ()
_SCALARS: Final = frozenset((int, float, bool))


def _part(schema: ConnectSchema | None, name: str) -> ConnectSchema | None:
    if schema is None:
        return None
    return next(item.schema for item in schema.fields if item.name == name)


def _identity(keys: Mapping[str, Any]) -> tuple[Any, ...]:
    found = tuple(keys.values())
    try:
        hash(found)
    except TypeError:
        raise RowError("a key is a list or an object, which no key can be") from None
    return found
