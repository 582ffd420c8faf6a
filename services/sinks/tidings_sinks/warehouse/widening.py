"""Which type holds what a column holds and what a record brings as well. Pure.

Types are trees, as `duckdb.sqltype` parses them: a name and children.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from tidings_sinks.warehouse.values import quoted

_MOST_DIGITS: Final = 38
_INTEGERS: Final = {"tinyint": 3, "smallint": 5, "integer": 10, "bigint": 19}
"""By width, with their digits."""
_OF_DOUBLE: Final = frozenset({"float", "tinyint", "smallint", "integer"})
"""Whose values a double has exactly."""


class DuckType(Protocol):
    """A `duckdb.sqltypes.DuckDBPyType`."""

    @property
    def id(self) -> str: ...

    @property
    def children(self) -> Sequence[tuple[str, Any]]: ...


def wider(column: DuckType, wanted: DuckType) -> str | None:
    """The type that holds the values of both; None where the column's own does, or none does."""
    found = _joined(column, wanted)
    return None if found is None or found == str(column) else found


def _joined(column: DuckType, wanted: DuckType) -> str | None:
    here, there = column.id, wanted.id
    if here == there:
        return _NESTED.get(here, _same)(column, wanted)
    if here in _INTEGERS and there in _INTEGERS:
        return str(max(column, wanted, key=lambda each: _INTEGERS[each.id]))
    if {here, there} <= {"decimal", *_INTEGERS}:
        return _decimal(column, wanted)
    if there == "double" and here in _OF_DOUBLE:
        return str(wanted)
    return None


def _same(column: DuckType, wanted: DuckType) -> str | None:  # noqa: ARG001 - whatever it is
    return str(column)


def _decimal(column: DuckType, wanted: DuckType) -> str | None:
    sizes = [_size(each) for each in (column, wanted)]
    scale = max(size[1] for size in sizes)
    digits = max(precision - own for precision, own in sizes) + scale
    return f"DECIMAL({digits},{scale})" if digits <= _MOST_DIGITS else None


def _size(each: DuckType) -> tuple[int, int]:
    if each.id in _INTEGERS:
        return _INTEGERS[each.id], 0
    found = dict(each.children)
    return int(found["precision"]), int(found["scale"])


def _struct(column: DuckType, wanted: DuckType) -> str | None:
    fields = dict(column.children)
    kept: dict[str, str] = {name: str(kind) for name, kind in fields.items()}
    names = {name.lower(): name for name in fields}
    for name, kind in wanted.children:
        known = names.get(name.lower())
        kept[known or name] = str(kind) if known is None else _joined(fields[known], kind) or kept[known]
    return f"STRUCT({', '.join(f'{quoted(name)} {kind}' for name, kind in kept.items())})"


def _list(column: DuckType, wanted: DuckType) -> str | None:
    item = _joined(column.children[0][1], wanted.children[0][1])
    return None if item is None else f"{item}[]"


def _map(column: DuckType, wanted: DuckType) -> str | None:
    parts = [_joined(here[1], there[1]) for here, there in zip(column.children, wanted.children, strict=True)]
    return None if None in parts else f"MAP({parts[0]}, {parts[1]})"


_NESTED: Final[dict[str, Callable[[DuckType, DuckType], str | None]]] = {
    "decimal": _decimal,
    "struct": _struct,
    "list": _list,
    "map": _map,
}
