"""What records ask for, by the strategy of their topic: a statement and what is put to it, or the change of a row. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tidings_connect.task.sink import SinkRecord
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.graph import statements
from tidings_sinks.graph.cud import read_cud
from tidings_sinks.graph.parts import Parts
from tidings_sinks.graph.patterns import NodePattern, Property, RelationshipPattern, Selection
from tidings_sinks.graph.rows import RowChange, Rows
from tidings_sinks.graph.settings import Cud, Cypher, Pattern, Row, Settings
from tidings_sinks.graph.values import Values


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement, whose variable ``e`` holds an event."""

    statement: str
    event: Mapping[str, Any]


Operation = Asked | RowChange
Read = Callable[[SinkRecord], Operation | None]


class Operations:
    """Reads records.

    Args:
        settings: says what topics are.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts = Parts(Values(semantic=settings.semantic, as_float=settings.decimals_as_float))
        self._of_rows = Values(semantic=True, as_float=settings.decimals_as_float, flattens=settings.flattens)
        self._by_topic = {topic: self._reader(strategy) for topic, strategy in settings.strategies.items()}

    def read(self, record: SinkRecord) -> Operation | None:
        """What a record asks for; None: nothing.

        Raises:
            RowError: it is none that the topic's strategy can read.
            TargetError: the topic has none.
        """
        read = self._by_topic.get(record.topic)
        if read is None:
            raise TargetError(
                f"topic {record.topic} has no strategy",
                hint="set neo4j.cypher.topic.*, or another option of its kind, or topics",
            )
        try:
            return read(record)
        except orjson.JSONDecodeError:
            raise RowError("a column of JSON holds none") from None

    def _reader(self, strategy: Cypher | Pattern | Cud | Row) -> Read:
        match strategy:
            case Cypher(text):
                statement = statements.cypher(
                    text, self._settings.cypher_binds, as_event=self._settings.as_event
                )
                return lambda record: Asked(statement, self._parts.event(record))
            case Pattern(NodePattern() as pattern):
                return self._nodes(pattern)
            case Pattern(RelationshipPattern() as pattern):
                return self._relationships(pattern)
            case Row(pattern):
                return Rows(pattern, self._of_rows, self._parts, flattens=self._settings.flattens).read
            case _:
                return lambda record: Asked(*read_cud(self._parts.value(record)))

    def _nodes(self, pattern: NodePattern) -> Read:
        write = statements.merge_node(pattern, merges=self._settings.merges_nodes)
        delete = statements.delete_node(pattern)

        def read(record: SinkRecord) -> Asked:
            fields = self._fields(record)
            keys = fields.keys(pattern.fields)
            if record.value is None:
                return Asked(delete, {"k": keys})
            return Asked(write, {"k": keys, "p": fields.properties(pattern.fields)})

        return read

    def _relationships(self, pattern: RelationshipPattern) -> Read:
        write = statements.merge_relationship(
            pattern, merges_nodes=self._settings.merges_nodes, merges=self._settings.merges_relationships
        )
        delete = statements.delete_relationship(pattern)

        def read(record: SinkRecord) -> Asked:
            fields = self._fields(record)
            event = {
                "s": fields.keys(pattern.start.fields),
                "t": fields.keys(pattern.end.fields),
                "k": fields.keys(pattern.fields),
            }
            if record.value is None:
                return Asked(delete, event)
            event |= {
                "sp": fields.properties(pattern.start.fields),
                "tp": fields.properties(pattern.end.fields),
                "p": fields.properties(pattern.fields),
            }
            return Asked(write, event)

        return read

    def _fields(self, record: SinkRecord) -> "_Fields":
        found = self._parts.fields(record, self._settings.pattern_binds)
        if record.value is not None and self._settings.pattern_binds.value in found:
            raise RowError("the value has no fields")
        return _Fields(found, self._settings, deleted=record.value is None)


class _Fields:
    """The fields of one record, by paths."""

    def __init__(self, fields: Mapping[str, Any], settings: Settings, *, deleted: bool) -> None:
        binds = settings.pattern_binds
        self._fields, self._deleted = fields, deleted
        self._value, self._key = f"{binds.value}.", f"{binds.key}."
        self._explicit = (self._value, self._key, f"{binds.header}.")
        self._whole = {binds.timestamp, binds.key}
        self._used: set[str] = set()

    def _is_explicit(self, source: str) -> bool:
        return source.startswith(self._explicit) or source in self._whole

    def keys(self, selection: Selection) -> dict[str, Any]:
        """The values of keys, by property.

        Raises:
            RowError: one of them is not there, or null.
        """
        return {item.target: self._of_key(item) for item in selection.keys}

    def _of_key(self, item: Property) -> Any:
        source = item.source
        if not self._is_explicit(source):
            paths = [self._value + source, self._key + source]
        elif self._deleted and source.startswith(self._value):
            paths = [self._key + source.removeprefix(self._value)]
        else:
            paths = [source]
        for path in paths:
            found = self._fields.get(path)
            if found is not None:
                self._used.add(path)
                return found
        raise RowError(f"the record has no {source}, which is a key")

    def properties(self, selection: Selection) -> dict[str, Any]:
        """The other properties."""
        found: dict[str, Any] = {}
        if selection.everything:
            found = {
                path.removeprefix(self._value): value
                for path, value in self._fields.items()
                if path.startswith(self._value) and path not in self._used
            }
        for item in selection.included:
            path = item.source if self._is_explicit(item.source) else self._value + item.source
            for known, value in self._fields.items():
                if known == path or known.startswith(f"{path}."):
                    self._used.add(known)
                    found[item.target + known[len(path) :]] = value
        for name in selection.excluded:
            if found.pop(name, found) is found:
                found = {path: value for path, value in found.items() if not path.startswith(f"{name}.")}
        return found
