"""Checks changes of a contract: within a major version old and new readers must read old and new events.

That is Avro's FULL compatibility, explained in words before the registry refuses it in its own. Allowed are a field
with a default that comes or goes, documentation, other defaults, another order of fields. Everything else is a new
major version, which has a topic of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidings_domain.contracts.contracts import Contract, Contracts
from tidings_domain.language.lifecycle import shortened

_TRAITS = ("logicalType", "precision", "scale", "size")
_MAJOR = "make it a new major version"


def incompatibilities(old: Contracts, new: Contracts) -> list[str]:
    """What in `new` breaks `old`, one sentence each; empty when nothing does."""
    told: list[str] = []
    for key, before in old.items():
        after = new.get(key)
        if after is None:
            told.append(
                f"{before.topic}: the contract was removed; its topic still has readers and retained events"
            )
        else:
            told += [f"{before.topic}: {problem}" for problem in contract_incompatibilities(before, after)]
    return told


def contract_incompatibilities(before: Contract, after: Contract) -> list[str]:
    """What in one contract breaks its earlier form."""
    problems = list(_compare(_Named(before.schema), before.schema, _Named(after.schema), after.schema, ""))
    taken_back = shortened(before.lifecycle, after.lifecycle)
    return problems if taken_back is None else [*problems, taken_back]


class _Named(dict[str, Any]):
    """The named types of a schema by their short name, as a type may refer to one that was defined before."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self._collect(schema)

    def _collect(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        elif isinstance(schema, dict):
            if schema.get("type") in ("record", "enum", "fixed"):
                self[schema["name"]] = schema
            for field in schema.get("fields", ()):
                self._collect(field["type"])
            for inner in ("items", "values", "type"):
                self._collect(schema.get(inner))

    def resolve(self, schema: Any) -> Any:
        """The definition behind a name, and the plain form of ``{"type": "string"}``."""
        if isinstance(schema, str):
            return self.get(schema.rpartition(".")[2], schema)
        if isinstance(schema, dict) and "logicalType" not in schema and not isinstance(schema["type"], str):
            return self.resolve(schema["type"])
        if isinstance(schema, dict) and set(schema) <= {"type", "doc"} and isinstance(schema["type"], str):
            return self.resolve(schema["type"])
        return schema


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


def _traits(schema: Any) -> tuple[Any, ...]:
    """What besides its kind decides how a type's values are written."""
    return (
        tuple(schema.get(trait) for trait in _TRAITS) if isinstance(schema, dict) else (None,) * len(_TRAITS)
    )


def _shown(schema: Any, named: _Named) -> str:
    schema = named.resolve(schema)
    if isinstance(schema, list):
        return " or ".join(_shown(branch, named) for branch in schema)
    if isinstance(schema, str):
        return schema
    if schema.get("logicalType") == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return str(schema.get("logicalType") or schema.get("name") or schema["type"])


def _compare(old_names: _Named, old: Any, new_names: _Named, new: Any, path: str) -> Iterator[str]:
    old, new = old_names.resolve(old), new_names.resolve(new)
    where = f"field '{path}'" if path else "the event"
    changed = f"{where} was {_shown(old, old_names)} and is {_shown(new, new_names)}: {_MAJOR}"
    if _kind(old) != _kind(new):
        yield changed
    elif isinstance(old, list):
        yield from _compare_unions(old_names, old, new_names, new, path)
    elif _traits(old) != _traits(new):
        yield changed
    elif isinstance(old, dict) and isinstance(new, dict):
        if old["type"] in ("record", "enum", "fixed") and old["name"] != new["name"]:
            yield f"{where}: the {old['type']} was called {old['name']} and is called {new['name']}: {_MAJOR}"
        elif old["type"] == "record":
            yield from _compare_records(old_names, old, new_names, new, path)
        elif old["type"] == "enum":
            yield from _compare_enums(old, new, where)
        elif old["type"] in ("array", "map"):
            inner = "items" if old["type"] == "array" else "values"
            yield from _compare(old_names, old[inner], new_names, new[inner], f"{path}[]")


def _compare_unions(
    old_names: _Named, old: list[Any], new_names: _Named, new: list[Any], path: str
) -> Iterator[str]:
    if ("null" in old) != ("null" in new):
        was, now = ("optional", "required") if "null" in old else ("required", "optional")
        yield f"field '{path}' was {was} and is {now}: {_MAJOR}"
        return
    pairs = [[branch for branch in union if branch != "null"] for union in (old, new)]
    for before, after in zip(*pairs, strict=False):
        yield from _compare(old_names, before, new_names, after, path)


def _compare_records(
    old_names: _Named, old: Mapping[str, Any], new_names: _Named, new: Mapping[str, Any], path: str
) -> Iterator[str]:
    before = {field["name"]: field for field in old["fields"]}
    after = {field["name"]: field for field in new["fields"]}
    for name, field in before.items():
        where = f"{path}.{name}" if path else name
        if name in after:
            yield from _compare(old_names, field["type"], new_names, after[name]["type"], where)
        elif "default" not in field:
            yield (
                f"field '{where}' was removed and has no default: whoever reads with the earlier contract"
                f" cannot read new events; keep it, or {_MAJOR}"
            )
    for name, field in after.items():
        if name not in before and "default" not in field:
            where = f"{path}.{name}" if path else name
            yield (
                f"field '{where}' was added without a default: whoever reads with the new contract"
                f" cannot read earlier events; give it a default, or {_MAJOR}"
            )


def _compare_enums(old: Mapping[str, Any], new: Mapping[str, Any], where: str) -> Iterator[str]:
    gone = [symbol for symbol in old["symbols"] if symbol not in new["symbols"]]
    come = [symbol for symbol in new["symbols"] if symbol not in old["symbols"]]
    if gone and "default" not in new:
        yield f"{where}: the symbols {', '.join(gone)} were removed from an enum without a default: {_MAJOR}"
    if come and "default" not in old:
        yield f"{where}: the symbols {', '.join(come)} were added to an enum without a default: {_MAJOR}"
