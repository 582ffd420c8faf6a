"""Neo4j's CUD format: records that say themselves what is to be created, updated, merged or deleted. Pure.

``{"op": "merge", "type": "node", "labels": [..], "ids": {..}, "properties": {..}}``, and of relationships ``rel_type``, ``from`` and
``to``. The format is ``cud.schema.v1.json`` of `neo4j-kafka-connector`.
"""

from collections.abc import Mapping
from typing import Any, Final

from tidings_sinks.errors import RowError
from tidings_sinks.graph.statements import node, relationship

_ID: Final = "_id"
_ELEMENT_ID: Final = "_elementId"
_OF_NODE: Final = frozenset({"type", "op", "labels"})
_OF_RELATIONSHIP: Final = frozenset({"type", "op", "rel_type", "from", "to"})
_FIELDS: Final[Mapping[tuple[str, str], tuple[frozenset[str], frozenset[str]]]] = {
    ("node", "create"): (frozenset({"properties"}), frozenset()),
    ("node", "merge"): (frozenset({"ids", "properties"}), frozenset()),
    ("node", "update"): (frozenset({"ids", "properties"}), frozenset()),
    ("node", "delete"): (frozenset({"ids"}), frozenset({"detach"})),
    ("relationship", "create"): (frozenset({"rel_type", "from", "to", "properties"}), frozenset()),
    ("relationship", "merge"): (frozenset({"rel_type", "from", "to", "properties"}), frozenset({"ids"})),
    ("relationship", "update"): (frozenset({"rel_type", "from", "to", "properties"}), frozenset({"ids"})),
    ("relationship", "delete"): (frozenset({"rel_type", "from", "to"}), frozenset({"ids"})),
}
"""By type and op: the fields that must be there, and those that may."""
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "type": str,
    "op": str,
    "rel_type": str,
    "labels": list,
    "ids": dict,
    "properties": dict,
    "from": dict,
    "to": dict,
    "detach": bool,
}


def read_cud(value: Any) -> tuple[str, dict[str, Any]]:
    """A statement, and the event that is put to it.

    Raises:
        RowError: the value is none of the format; names the field that is wrong.
    """
    if not isinstance(value, Mapping):
        raise RowError("the value has no fields, and so is none of the CUD format")
    kind, op = (str(value.get(name, "")).lower() for name in ("type", "op"))
    if (kind, op) not in _FIELDS:
        raise RowError(
            "type is node or relationship, and op is create, merge, update or delete: the record has others"
        )
    needed, perhaps = _FIELDS[kind, op]
    base = _OF_NODE if kind == "node" else _OF_RELATIONSHIP
    for name in needed - value.keys():
        raise RowError(f"the record has no {name}, which {op} of a {kind} needs")
    for name in value.keys() - base - needed - perhaps:
        raise RowError(f"{op} of a {kind} has no field {name}, and the record does")
    _check(value)
    return _node(op, value) if kind == "node" else _relationship(op, value)


def _check(value: Mapping[str, Any]) -> None:
    for name, item in value.items():
        kind = _TYPES.get(name)
        if kind is not None and not isinstance(item, kind):
            raise RowError(f"the field {name} is of another type")
    if not all(isinstance(label, str) for label in value.get("labels", ())):
        raise RowError("a label is no text")


def _node(op: str, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    labels = value.get("labels", [])
    if op == "create":
        return f"CREATE {node('n', labels, (), '')} SET n += e.p", {"p": value["properties"]}
    ids = _ids(value["ids"], "ids")
    event = {"k": ids, "p": value.get("properties")}
    if op == "delete":
        delete = "DETACH DELETE" if value.get("detach") else "DELETE"
        return f"{_found('n', labels, ids, 'e.k', 'MATCH')} {delete} n", event
    verb = "MERGE" if op == "merge" else "MATCH"
    return f"{_found('n', labels, ids, 'e.k', verb)} SET n += e.p", event


def _relationship(op: str, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if not value["rel_type"]:
        raise RowError("rel_type is empty")
    ends = [_end(variable, value[side], side, op) for variable, side in (("a", "from"), ("b", "to"))]
    (start, start_ids), (end, end_ids) = ends
    ids = value.get("ids") or {}
    event = {"s": start_ids, "t": end_ids, "k": ids, "p": value.get("properties")}
    both = f"{start} WITH e, a {end} WITH e, a, b"
    if op == "create":
        return f"{both} CREATE (a){relationship('r', value['rel_type'], (), '')}(b) SET r += e.p", event
    verb = "MERGE" if op == "merge" else "MATCH"
    where = ""
    keys: tuple[str, ...] = tuple(sorted(ids))
    if _ID in ids or _ELEMENT_ID in ids:
        if op == "merge":
            raise RowError("a relationship is not merged by the number that Neo4j gave it")
        where, keys = f" WHERE {_by_number('r', ids, 'e.k')}", ()
    only = "" if ids else " WITH e, r LIMIT 1"
    change = "DELETE r" if op == "delete" else "SET r += e.p"
    return (
        f"{both} {verb} (a){relationship('r', value['rel_type'], keys, 'e.k')}(b){where}{only} {change}",
        event,
    )


def _end(variable: str, side: Mapping[str, Any], name: str, op: str) -> tuple[str, dict[str, Any]]:
    if "ids" not in side:
        raise RowError(f"{name} has no ids")
    for other in side.keys() - {"ids", "labels", "op"}:
        raise RowError(f"{name} has no field {other}, and the record does")
    _check({"labels": side.get("labels", []), "ids": side["ids"]})
    verb = str(side.get("op", "match")).upper()
    if verb not in ("MATCH", "MERGE"):
        raise RowError(f"op of {name} is match or merge, and the record has another")
    if verb == "MERGE" and op in ("update", "delete"):
        raise RowError(f"op of {name} is match for {op} of a relationship, and the record has merge")
    ids = _ids(side["ids"], f"{name}.ids")
    labels = side.get("labels", [])
    if verb == "MERGE" and not labels:
        raise RowError(f"{name} has no labels, without which no node is merged")
    return _found(variable, labels, ids, "e.s" if variable == "a" else "e.t", verb), ids


def _ids(ids: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not ids:
        raise RowError(f"{name} is empty")
    return dict(ids)


def _found(variable: str, labels: list[str], ids: Mapping[str, Any], of: str, verb: str) -> str:
    if _ID in ids or _ELEMENT_ID in ids:
        if verb == "MERGE":
            raise RowError("a node is not merged by the number that Neo4j gave it")
        return f"MATCH ({variable}) WHERE {_by_number(variable, ids, of)}"
    return f"{verb} {node(variable, dict.fromkeys(labels), sorted(ids), of)}"


def _by_number(variable: str, ids: Mapping[str, Any], of: str) -> str:
    if _ID in ids:
        return f"id({variable}) = {of}.{_ID}"
    return f"elementId({variable}) = {of}.{_ELEMENT_ID}"
