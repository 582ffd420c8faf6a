"""How rows of one schema are read as changes of a graph: which field is which property, and how its values are converted. Pure."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.toast import PLACEHOLDERS
from tidings_sinks.converting import Convert
from tidings_sinks.graph.patterns import Property, RelationshipPattern, RowPattern, Selection
from tidings_sinks.graph.values import Values

_OBJECTS: Final = frozenset((ConnectType.STRUCT, ConnectType.MAP))
_COMPOSED: Final = frozenset((ConnectType.STRUCT, ConnectType.MAP, ConnectType.ARRAY))
_MAY_SAY_UNSENT: Final = frozenset((ConnectType.STRING, ConnectType.BYTES))


class Source(NamedTuple):
    """Where a property comes from, in rows of one schema."""

    target: str
    name: str
    convert: Convert | None
    takes_apart: bool


class Flat(NamedTuple):
    """Properties of rows whose values are scalars: those of a row, of which each was sent, are its copy without some fields."""

    width: int
    """How many properties there are."""
    dropped: tuple[str, ...]
    """Fields of the rows that are no properties."""
    renamed: tuple[tuple[str, str], ...]
    """Fields, and their properties, of another name."""
    texts: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Those that may say that they were not sent."""
    converts: tuple[tuple[str, Convert], ...]
    """Of those that do not stay as they are."""

    def of(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """A row's; None where they are to be made one by one."""
        try:
            if not PLACEHOLDERS.isdisjoint(self.texts(row)):
                return None
            found = dict(row)
            for name in self.dropped:
                del found[name]
            for name, target in self.renamed:
                found[target] = found.pop(name)
        except (KeyError, TypeError):  # a field is missing, or has a value that its schema does not have
            return None
        if len(found) != self.width:
            return None
        for target, convert in self.converts:
            value = found[target]
            if value is not None:
                found[target] = convert(value)
        return found


class Plan(NamedTuple):
    """How rows of one schema are read."""

    schema: ConnectSchema | None
    """Kept, so that no other schema has its identity."""
    keys: tuple[Source, ...]
    properties: tuple[Source, ...]
    everything: bool
    """Whether further fields, which no schema tells of, are properties too."""
    ends: tuple[tuple[tuple[Source, ...], tuple[Source, ...]], ...]
    """Of each the keys, and the properties of the relationship to it."""
    flat: Flat | None
    """Of `properties`, where their schemas allow it."""


class Plans:
    """The plans of one pattern.

    Args:
        pattern: what a row is.
        values: converts what rows hold.
        flattens: whether objects are taken apart.
    """

    def __init__(self, pattern: RowPattern, values: Values, *, flattens: bool) -> None:
        self._values, self._flattens = values, flattens
        self._fields = pattern.entity.fields
        self._end_keys = _end_keys(pattern)
        self._plans: dict[int, Plan] = {}

    def of(self, schema: ConnectSchema | None) -> Plan:
        """How rows of a schema are read; None: of rows without one."""
        plan = self._plans.get(id(schema))
        if plan is None or plan.schema is not schema:
            plan = self._plans[id(schema)] = self._made(schema)
        return plan

    def _made(self, schema: ConnectSchema | None) -> Plan:
        schemas = {} if schema is None else {item.name: item.schema for item in schema.fields}

        def source(item: Property) -> Source:
            found = schemas.get(item.source)
            convert = self._values.property(found) if schema is None or found is not None else None
            return Source(item.target, item.source, convert, self._takes_apart(found))

        included = list(self._fields.included)
        if self._fields.everything:
            taken = {item.source for item in (*self._fields.keys, *included)} | set(self._fields.excluded)
            included += [Property(name, name) for name in schemas if name not in taken]
        properties = tuple(map(source, included))
        return Plan(
            schema,
            tuple(map(source, self._fields.keys)),
            properties,
            self._fields.everything and schema is None,
            tuple(
                (tuple(map(source, keys)), tuple(map(source, to_it.included)))
                for keys, to_it in self._end_keys
            ),
            _flat(properties, schemas),
        )

    def _takes_apart(self, schema: ConnectSchema | None) -> bool:
        if schema is None or not self._flattens:
            return False
        return schema.type in _OBJECTS or schema.name == "io.debezium.data.Json"


def _flat(properties: Sequence[Source], schemas: Mapping[str, ConnectSchema]) -> Flat | None:
    names = {source.name for source in properties}
    targets = {source.target for source in properties}
    if len(names) < len(properties) or len(targets) < len(properties):
        return None  # a field is two properties
    renamed = tuple((source.name, source.target) for source in properties if source.name != source.target)
    if any(target in schemas for _, target in renamed):
        return None
    found = [schemas.get(source.name) for source in properties]
    if not properties or any(
        source.takes_apart or schema is None or schema.type in _COMPOSED
        for source, schema in zip(properties, found, strict=True)
    ):
        return None
    texts = [
        source.name
        for source, schema in zip(properties, found, strict=True)
        if schema is not None and schema.type in _MAY_SAY_UNSENT
    ]
    return Flat(
        len(properties),
        tuple(name for name in schemas if name not in names),
        renamed,
        _tuple_of(texts),
        tuple((source.target, source.convert) for source in properties if source.convert is not None),
    )


def _tuple_of(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Gives the values of fields; raises KeyError: there is none of a name."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: tuple(row[name] for name in names)


def _end_keys(pattern: RowPattern) -> list[tuple[tuple[Property, ...], Selection]]:
    if isinstance(pattern.entity, RelationshipPattern):
        return [(node.fields.keys, Selection()) for node in (pattern.entity.start, pattern.entity.end)]
    return [(link.other.fields.keys, link.fields) for link in pattern.links]
