"""Statements for many rows at once, at most one of each row, and the order in which they are written. Pure.

A row's node may have relationships of other rows, which may come before it or go after it: tables are topics, and topics
have no order among them. So a node of which only others tell is there as a placeholder, with a label that says so and nothing
but its key. It goes when the last relationship to it does. What is there in the end does not depend on the order of topics.

Nor does it depend on which task writes first. A statement sees what others have committed when it looks, so a node is locked
before anybody asks whether it is a placeholder, or has relationships. Deleting a relationship locks its nodes only at the
commit; `SET n += {}` locks a node at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tidings_sinks.graph.patterns import Link, NodePattern, RelationshipPattern, RowPattern, quoted
from tidings_sinks.graph.rows import RowChange, Rows
from tidings_sinks.graph.statements import key_names, node, relationship

Event = dict[str, Any]


class Step(NamedTuple):
    """A statement, and the rows that it unwinds."""

    statement: str
    events: list[Event]


class RowStatements:
    """The statements of one pattern.

    Args:
        placeholder: the label of nodes of which only foreign keys tell.
    """

    def __init__(self, pattern: RowPattern, placeholder: str) -> None:
        self._label = quoted(placeholder)
        self._pattern = pattern
        entity = pattern.entity
        if isinstance(entity, NodePattern):
            self._node(entity)
        else:
            self._relationship(entity)

    # Texts

    def _forgotten(self, of: str) -> str:
        """The end of a statement that deletes those placeholders of a list of locked nodes that have no relationship any more."""
        return f" WITH {of} AS ms UNWIND ms AS m WITH DISTINCT m WHERE m:{self._label} AND NOT EXISTS {{(m)--()}} DELETE m"

    def _node(self, entity: NodePattern) -> None:
        itself = node("n", entity.labels, key_names(entity), "e.k")
        self._write = f"UNWIND $rows AS e MERGE {itself} SET n += e.p REMOVE n:{self._label}"
        self._clear = (
            f"UNWIND $rows AS e MATCH {itself}"
            " FOREACH (x IN [x IN keys(n) WHERE any(p IN e.c WHERE x STARTS WITH p)] | REMOVE n[x])"
        )
        self._delete = [
            # The key is not set anew: a transaction that did so, and then deleted the node, could not MERGE it any more.
            (
                f"UNWIND $rows AS e MATCH {itself} SET n:{self._label}"
                " FOREACH (x IN [x IN keys(n) WHERE NOT x IN keys(e.k)] | REMOVE n[x])"
            ),
            f"UNWIND $rows AS e MATCH {itself} WHERE NOT EXISTS {{(n)--()}} DELETE n",
        ]
        self._links = [self._link(itself, link) for link in self._pattern.links]

    def _link(self, itself: str, link: Link) -> tuple[str, str]:
        """What takes away the relationships to others than the one that is meant, and what writes that one."""
        other = node("m", link.other.labels, key_names(link.other), "e.f")
        same = " AND ".join(f"m.{quoted(key)} = e.f.{quoted(key)}" for key in key_names(link.other))
        arrow = f"-[r:{quoted(link.type)}]-"
        labels = "".join(f":{quoted(label)}" for label in link.other.labels)
        arrow = f"{arrow}>" if link.outgoing else f"<{arrow}"
        removed = (
            f"UNWIND $rows AS e MATCH {itself}{arrow}(m{labels}) WHERE e.f IS NULL OR NOT ({same})"
            " SET m += {} DELETE r" + self._forgotten("collect(DISTINCT m)")
        )
        properties = " SET r += e.p" if link.fields.included else ""
        written = (
            f"UNWIND $rows AS e MATCH {itself} MERGE {other} ON CREATE SET m:{self._label}"
            f" MERGE (n){arrow}(m){properties}"
        )
        return removed, written

    def _relationship(self, entity: RelationshipPattern) -> None:
        between = relationship("r", entity.type, key_names(entity), "e.k")
        start = node("a", entity.start.labels, key_names(entity.start), "e.s")
        end = node("b", entity.end.labels, key_names(entity.end), "e.t")
        same = " AND ".join(
            f"{variable}.{quoted(key)} = {of}.{quoted(key)}"
            for variable, of, side in (("a", "e.s", entity.start), ("b", "e.t", entity.end))
            for key in key_names(side)
        )
        deleted = " SET a += {} SET b += {} DELETE r" + self._forgotten(
            "collect(DISTINCT a) + collect(DISTINCT b)"
        )
        self._moved = f"UNWIND $rows AS e MATCH (a){between}(b) WHERE NOT ({same}){deleted}"
        self._write = (
            f"UNWIND $rows AS e MERGE {start} ON CREATE SET a:{self._label} MERGE {end} ON CREATE SET b:{self._label}"
            f" MERGE (a){between}(b) SET r += e.p"
        )
        self._patch = f"UNWIND $rows AS e MATCH (){between}() SET r += e.p"
        self._clear = (
            f"UNWIND $rows AS e MATCH (){between}()"
            " FOREACH (x IN [x IN keys(r) WHERE any(p IN e.c WHERE x STARTS WITH p)] | REMOVE r[x])"
        )
        self._delete = [f"UNWIND $rows AS e MATCH (a){between}(b){deleted}"]

    # Steps

    def deletes(self, changes: Sequence[RowChange]) -> Iterator[Step]:
        """What deletes rows."""
        events = [{"k": change.keys, "f": None} for change in changes]
        if isinstance(self._pattern.entity, NodePattern):
            for removed, _ in self._links:
                yield Step(removed, events)
        for statement in self._delete:
            yield Step(statement, events)

    def writes(self, changes: Sequence[RowChange]) -> Iterator[Step]:
        """What writes rows."""
        cleared = [{"k": change.keys, "c": change.cleared} for change in changes if change.cleared]
        if cleared:
            yield Step(self._clear, cleared)
        if isinstance(self._pattern.entity, NodePattern):
            yield Step(self._write, [{"k": change.keys, "p": change.properties} for change in changes])
            yield from self._links_of(changes)
        else:
            yield from self._relationships_of(changes)

    def _links_of(self, changes: Sequence[RowChange]) -> Iterator[Step]:
        for place, (removed, written) in enumerate(self._links):
            events = [
                {"k": change.keys, "f": end.keys, "p": end.properties}
                for change in changes
                if (end := change.ends[place]) is not None
            ]
            if events:
                yield Step(removed, events)
            there = [event for event in events if event["f"] is not None]
            if there:
                yield Step(written, there)

    def _relationships_of(self, changes: Sequence[RowChange]) -> Iterator[Step]:
        whole, patches = [], []
        for change in changes:
            start, end = change.ends
            event = {"k": change.keys, "p": change.properties}
            if start is None or end is None:
                patches.append(event)
            else:
                whole.append({**event, "s": start.keys, "t": end.keys})
        if whole:
            yield Step(self._moved, whole)
            yield Step(self._write, whole)
        if patches:
            yield Step(self._patch, patches)


def reduced(changes: Iterable[RowChange]) -> tuple[list[RowChange], list[RowChange]]:
    """Deletes, and then writes, at most one of each row, that do together what the changes do one after the other.

    A write takes in the one before it of the same row, and a delete makes what was before it vain.
    """
    deletes: dict[tuple[Rows, tuple[Any, ...]], RowChange] = {}
    writes: dict[tuple[Rows, tuple[Any, ...]], RowChange] = {}
    for change in changes:
        row = change.rows, change.identity
        if change.deletes:
            deletes[row] = change
            writes.pop(row, None)
        else:
            former = writes.get(row)
            writes[row] = change if former is None else change.after(former)
    return list(deletes.values()), list(writes.values())
