"""Statements of Cypher for one record, whose variable ``e`` holds what the record asks for. Pure.

``e.k`` are the keys of a node or of a relationship, ``e.p`` its properties; ``e.s`` and ``e.t`` the keys of a relationship's start
and end, ``e.sp`` and ``e.tp`` their properties.
"""

from collections.abc import Iterable, Sequence

from tidings_sinks.graph.patterns import NodePattern, RelationshipPattern, quoted
from tidings_sinks.graph.settings import Binds


def node(variable: str, labels: Iterable[str], keys: Sequence[str], of: str) -> str:
    """A node's pattern.

    Args:
        of: what holds the values of its keys, such as ``e.k``.
    """
    return f"({variable}{_labels(labels)}{_properties(keys, of)})"


def relationship(variable: str, type_: str, keys: Sequence[str], of: str) -> str:
    """A relationship's pattern, from its left to its right."""
    return f"-[{variable}:{quoted(type_)}{_properties(keys, of)}]->"


def _labels(labels: Iterable[str]) -> str:
    return "".join(f":{quoted(label)}" for label in labels)


def _properties(keys: Sequence[str], of: str) -> str:
    if not keys:
        return ""
    return " {" + ", ".join(f"{quoted(key)}: {of}.{quoted(key)}" for key in keys) + "}"


def key_names(pattern: NodePattern | RelationshipPattern) -> tuple[str, ...]:
    """The properties that are a pattern's keys."""
    return tuple(item.target for item in pattern.fields.keys)


def cypher(statement: str, binds: Binds, *, as_event: bool) -> str:
    """A person's statement, which knows the parts of a record by names."""
    names = [("event", "value")] * as_event
    names += [
        (alias, part)
        for alias, part in (
            (binds.timestamp, "timestamp"),
            (binds.header, "header"),
            (binds.key, "key"),
            (binds.value, "value"),
        )
        if alias
    ]
    bound = ", ".join(f"e.{part} AS {quoted(alias)}" for alias, part in names)
    return f"WITH {bound} {statement}"


def _set(variable: str, keys: str, properties: str, *, merges: bool) -> str:
    if merges:
        return f"SET {variable} += {properties}"
    return f"SET {variable} = {properties} SET {variable} += {keys}"


def merge_node(pattern: NodePattern, *, merges: bool) -> str:
    """Write a node.

    Args:
        merges: whether its other properties stay.
    """
    return f"MERGE {node('n', pattern.labels, key_names(pattern), 'e.k')} {_set('n', 'e.k', 'e.p', merges=merges)}"


def delete_node(pattern: NodePattern) -> str:
    """Delete a node, with its relationships."""
    return f"MATCH {node('n', pattern.labels, key_names(pattern), 'e.k')} DETACH DELETE n"


def merge_relationship(pattern: RelationshipPattern, *, merges_nodes: bool, merges: bool) -> str:
    """Write a relationship, and the nodes at its ends."""
    start = node("a", pattern.start.labels, key_names(pattern.start), "e.s")
    end = node("b", pattern.end.labels, key_names(pattern.end), "e.t")
    keys = key_names(pattern)
    between = relationship("r", pattern.type, keys, "e.k")
    only = "" if keys else " WITH e, r LIMIT 1"
    return (
        f"MERGE {start} {_set('a', 'e.s', 'e.sp', merges=merges_nodes)}"
        f" WITH e, a MERGE {end} {_set('b', 'e.t', 'e.tp', merges=merges_nodes)}"
        f" WITH e, a, b MERGE (a){between}(b){only} {_set('r', 'e.k', 'e.p', merges=merges)}"
    )


def delete_relationship(pattern: RelationshipPattern) -> str:
    """Delete a relationship; one of them where no key says which."""
    start = node("a", pattern.start.labels, key_names(pattern.start), "e.s")
    end = node("b", pattern.end.labels, key_names(pattern.end), "e.t")
    keys = key_names(pattern)
    only = "" if keys else " WITH r LIMIT 1"
    return f"MATCH {start}{relationship('r', pattern.type, keys, 'e.k')}{end}{only} DELETE r"
