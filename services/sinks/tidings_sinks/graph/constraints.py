"""The constraints and indexes that keys need: made for rows, looked for where a person's pattern is written by."""

from collections.abc import Iterator

from tidings_service import get_logger
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.patterns import NodePattern, RelationshipPattern, quoted
from tidings_sinks.graph.settings import Pattern, Row, Settings
from tidings_sinks.graph.statements import key_names

_log = get_logger(__name__)


def make_constraints(client: Client, settings: Settings) -> None:
    """Make what the keys of rows need: nodes are unique by them, and relationships are found by them."""
    made = False
    for strategy in settings.strategies.values():
        if isinstance(strategy, Row):
            entity = strategy.pattern.entity
            for node in (*_nodes(entity), *(link.other for link in strategy.pattern.links)):
                keys = ", ".join(f"n.{quoted(key)}" for key in key_names(node))
                client.alone(
                    f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{quoted(node.labels[0])}) REQUIRE ({keys}) IS UNIQUE"
                )
            if isinstance(entity, RelationshipPattern):
                keys = ", ".join(f"r.{quoted(key)}" for key in key_names(entity))
                client.alone(f"CREATE INDEX IF NOT EXISTS FOR ()-[r:{quoted(entity.type)}]-() ON ({keys})")
            made = True
    if made:
        client.alone("CALL db.awaitIndexes(300)")


def missing_constraints(client: Client, settings: Settings) -> list[tuple[str, str, list[str]]]:
    """Which keys of patterns no constraint makes unique: the pattern, a label and the key's properties."""
    wanted = [strategy.pattern for strategy in settings.strategies.values() if isinstance(strategy, Pattern)]
    if not wanted:
        return []
    found = client.alone("SHOW CONSTRAINTS YIELD labelsOrTypes, properties RETURN labelsOrTypes, properties")
    known = {(label, frozenset(properties or ())) for labels, properties in found for label in labels or ()}
    missing = []
    for pattern in wanted:
        for node in _nodes(pattern):
            keys = frozenset(key_names(node))
            if not any((label, keys) in known for label in node.labels):
                missing.append((pattern.text, next(iter(node.labels), ""), sorted(keys)))
    return missing


def warn_of_missing(client: Client, settings: Settings) -> None:
    """Log which keys of patterns no constraint makes unique: they are slow, and two tasks may write a node twice."""
    for pattern, label, keys in missing_constraints(client, settings):
        _log.warning(
            "no constraint makes the key of a pattern unique", pattern=pattern, label=label, keys=keys
        )


def _nodes(pattern: NodePattern | RelationshipPattern) -> Iterator[NodePattern]:
    if isinstance(pattern, NodePattern):
        yield pattern
    else:
        yield pattern.start
        yield pattern.end
