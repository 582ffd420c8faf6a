"""Avro schemas as far as a table needs them: parsed, merged over versions, written as a reader's schema.

A topic's records may be written with several schema versions, of which each must be decoded with its own. Avro
resolves a writer's schema against a reader's (Apache Avro 1.12, "Schema Resolution"), so all versions that agree get
one reader: the union of their fields, in which every field may be null and defaults to null. Nothing a version holds
is lost, and a version that lacks a field reads as null.

Connect's and Debezium's logical types are named by ``connect.name``, Avro's own by ``logicalType``; both end in
`Node.logical`. The format of Connect's schemas in Avro is that of Confluent's AvroData.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidings_lakehouse.errors import LakehouseError

DECODED_FIELD = "tidings_decoded"
"""A field that readers add to the outermost record: true by default, so that null means "could not be decoded"."""
UNSCALED = "tidings.unscaled"
"""Property of a decimal's schema: its reader gives the bytes of the unscaled number, and not the decimal."""
MAX_DECIMAL_PRECISION = 38
_MAX_DEPTH = 150
"""Levels of a schema's JSON, of which a record in a record takes three: deeper ones end Spark's and our own recursion."""
_MAX_FIELDS = 20_000
"""With the fields of a record counted wherever its name is used."""
_NATIVE = {"timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros", "date"}
"""Avro's logical types that Spark converts by itself."""
_PRIMITIVES = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_WIDER = {("int", "long"): "long", ("float", "double"): "double"}


class UnsupportedSchemaError(LakehouseError):
    """A schema that no table column can represent."""

    code = "unsupported_schema"


@dataclass(frozen=True)
class Node:
    """One type of a schema. Every value may be null, so that is not noted."""

    kind: str
    """Avro's type: a primitive, ``record``, ``array``, ``map``, ``enum`` or ``fixed``."""
    logical: str | None = None
    name: str = ""
    """Full name of a record, enum or fixed."""
    fields: tuple[tuple[str, Node], ...] = ()
    items: Node | None = None
    """Of an array's items or a map's values."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0
    is_unscaled: bool = False
    """Whether a decimal's reader gives the bytes of the unscaled number."""

    def field(self, name: str) -> Node | None:
        """The type of a record's field, or None when it has none of that name."""
        return next((node for field, node in self.fields if field == name), None)

    @property
    def is_native_decimal(self) -> bool:
        """Whether Spark can read it as a decimal."""
        return self.logical == "decimal" and 0 < self.precision <= MAX_DECIMAL_PRECISION


def parse_schema(schema: Any) -> Node:
    """Read a schema as JSON gives it.

    Raises:
        UnsupportedSchemaError: it is recursive, too deep or too wide, or a union of several types.
    """
    if _is_too_deep(schema):
        raise UnsupportedSchemaError(f"more than {_MAX_DEPTH} levels, too deep for a column")
    node = _parse(schema, "", {}, ())
    if _size(node, {}) > _MAX_FIELDS:
        raise UnsupportedSchemaError(f"more than {_MAX_FIELDS} fields")
    return node


def _is_too_deep(schema: Any) -> bool:
    pending = [(schema, 1)]
    while pending:
        part, depth = pending.pop()
        if depth > _MAX_DEPTH:
            return True
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        pending += [(one, depth + 1) for one in inner]
    return False


def _size(node: Node, known: dict[int, int]) -> int:
    """Fields of a type; `known` has those of the nodes that were counted before, by `id`."""
    if id(node) not in known:
        inner = [one for _, one in node.fields] + ([] if node.items is None else [node.items])
        known[id(node)] = 1 + sum(_size(one, known) for one in inner)
    return known[id(node)]


def _parse(schema: Any, namespace: str, named: dict[str, Node], path: tuple[str, ...]) -> Node:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
        if len(branches) != 1:
            raise UnsupportedSchemaError("a union of several types")
        return _parse(branches[0], namespace, named, path)
    if isinstance(schema, str):
        return _named_or_primitive(schema, namespace, named, path)
    kind = schema["type"]
    if isinstance(kind, list | dict):
        return _parse(kind, namespace, named, path)
    if kind in {"record", "enum", "fixed"}:
        return _parse_named(schema, kind, namespace, named, path)
    if kind in {"array", "map"}:
        items = _parse(schema["items" if kind == "array" else "values"], namespace, named, path)
        return Node(kind, logical=schema.get("connect.name"), items=items)
    if kind in _PRIMITIVES:
        return _primitive(schema, kind)
    return _named_or_primitive(kind, namespace, named, path)


def _primitive(schema: Mapping[str, Any], kind: str) -> Node:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return Node(
            kind,
            logical="decimal",
            precision=int(schema.get("precision", 0)),
            scale=int(schema.get("scale", 0)),
            is_unscaled=schema.get(UNSCALED) is True,
        )
    return Node(kind, logical=schema.get("connect.name") or logical)


def _named_or_primitive(name: str, namespace: str, named: dict[str, Node], path: tuple[str, ...]) -> Node:
    if name in _PRIMITIVES:
        return Node(name)
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    if full in path:
        raise UnsupportedSchemaError(f"the recursive type {full}")
    found = named.get(full) or named.get(name)
    if found is None:
        raise UnsupportedSchemaError(f"the undefined type {full}")
    return found


def _parse_named(
    schema: Mapping[str, Any], kind: str, namespace: str, named: dict[str, Node], path: tuple[str, ...]
) -> Node:
    full = schema["name"]
    if "." not in full:
        space = schema.get("namespace", namespace)
        full = f"{space}.{full}" if space else full
    inner = full.rpartition(".")[0]
    if kind == "record":
        fields = tuple(
            (field["name"], _parse(field["type"], inner, named, (*path, full))) for field in schema["fields"]
        )
        node = Node(kind, logical=schema.get("connect.name"), name=full, fields=fields)
    elif kind == "enum":
        node = Node(kind, name=full, symbols=tuple(schema["symbols"]))
    else:
        decimal = schema.get("logicalType") == "decimal"
        node = Node(
            kind,
            logical="decimal" if decimal else None,
            name=full,
            size=int(schema["size"]),
            precision=int(schema.get("precision", 0)) if decimal else 0,
            scale=int(schema.get("scale", 0)) if decimal else 0,
        )
    named[full] = node
    return node


def merge_nodes(one: Node, other: Node) -> Node | None:
    """The type that can read both, with the fields of both; None when they disagree."""
    if one == other:
        return one
    if one.kind != other.kind:
        wider = _WIDER.get((one.kind, other.kind)) or _WIDER.get((other.kind, one.kind))
        return Node(wider) if wider and one.logical is None and other.logical is None else None
    if one.kind == "record":
        return _merge_records(one, other)
    if one.logical != other.logical or one.scale != other.scale or one.size != other.size:
        return None
    if one.items is not None and other.items is not None:
        items = merge_nodes(one.items, other.items)
        return None if items is None else replace(one, items=items)
    if one.name != other.name:
        return None
    symbols = (*one.symbols, *(symbol for symbol in other.symbols if symbol not in one.symbols))
    return replace(one, symbols=symbols, precision=max(one.precision, other.precision))


def merge_exactly(one: Node, other: Node) -> Node | None:
    """As `merge_nodes`, but for texts of numbers: as a double, a float's text is another number."""
    merged = merge_nodes(one, other)
    return merged if merged is None or _floats(merged) == _floats(one) | _floats(other) else None


def _floats(node: Node, path: tuple[str, ...] = ()) -> frozenset[tuple[str, ...]]:
    """Where a type has floats."""
    own = {path} if node.kind == "float" else frozenset()
    inner = [*node.fields, *([] if node.items is None else [("", node.items)])]
    return frozenset(own).union(*(_floats(one, (*path, name)) for name, one in inner))


def _merge_records(one: Node, other: Node) -> Node | None:
    fields: list[tuple[str, Node]] = []
    for name, node in one.fields:
        theirs = other.field(name)
        merged = node if theirs is None else merge_nodes(node, theirs)
        if merged is None:
            return None
        fields.append((name, merged))
    ours = {name for name, _ in one.fields}
    fields += [(name, node) for name, node in other.fields if name not in ours]
    return replace(one, fields=tuple(fields))


Merge = Callable[[Node, Node], Node | None]
"""The type that can read both; None when there is none."""


def group_by_reader(
    latest: Node | None, writers: Mapping[int, Node], merge: Merge = merge_nodes
) -> list[tuple[Node, tuple[int, ...]]]:
    """Schema ids by the reader that can read them, starting from the subject's newest version (None: unknown).

    Usually one group; a version whose types contradict the newest one's (a retyped column) gets a reader of its own.

    Args:
        writers: the oldest first.
    """
    groups: list[tuple[Node, list[int]]] = [] if latest is None else [(latest, [])]
    for schema_id in reversed(list(writers)):
        for index, (reader, ids) in enumerate(groups):
            merged = merge(reader, writers[schema_id])
            if merged is not None:
                ids.append(schema_id)
                groups[index] = (merged, ids)
                break
        else:
            groups.append((writers[schema_id], [schema_id]))
    return [(reader, tuple(ids)) for reader, ids in groups if ids]


def reader_schema(node: Node, *, keep: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """The reader's schema for Spark's `from_avro`: all fields nullable, with `DECODED_FIELD` in the outermost record.

    `keep` limits records that are fields of the outermost one to the fields named.
    """
    if keep:
        node = replace(
            node,
            fields=tuple(
                (name, _only(inner, keep[name]) if name in keep else inner) for name, inner in node.fields
            ),
        )
    schema: dict[str, Any] = _write(node, set())
    schema["fields"].append({"name": DECODED_FIELD, "type": "boolean", "default": True})
    return schema


def _only(node: Node, names: Sequence[str]) -> Node:
    return replace(node, fields=tuple((name, inner) for name, inner in node.fields if name in names))


def _write(node: Node, defined: set[str]) -> Any:
    if node.name:
        if node.name in defined:
            return node.name
        defined.add(node.name)
    if node.kind == "record":
        fields = [
            {"name": name, "type": ["null", _write(inner, defined)], "default": None}
            for name, inner in node.fields
        ]
        return {"type": "record", "name": node.name, "fields": fields}
    if node.items is not None:
        inner = ["null", _write(node.items, defined)]
        return {"type": node.kind, ("items" if node.kind == "array" else "values"): inner}
    schema: dict[str, Any] = {"type": node.kind}
    if node.kind == "enum":
        schema |= {"name": node.name, "symbols": list(node.symbols)}
    if node.kind == "fixed":
        schema |= {"name": node.name, "size": node.size}
    if node.is_native_decimal:
        schema |= {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
    elif node.logical in _NATIVE:
        schema["logicalType"] = node.logical
    return schema
