"""``column.propagate.source.type`` and ``datatype.propagate.source.type``: a column's type as parameters of its schema."""

from typing import Final

from tidings_capture.cdc.encoding.column_sizes import length_and_scale
from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.encoding.source_types import told_type
from tidings_capture.cdc.filters import matches
from tidings_capture.cdc.tables import Column, Table

_SERIALS: Final = {"int2": "smallserial", "int4": "serial", "int8": "bigserial"}
_VECTORS: Final = frozenset(("vector", "halfvec", "sparsevec"))


def source_type_parameters(table: Table, column: Column, options: ConversionOptions) -> dict[str, str]:
    """The parameters that the options ask for; mostly none."""
    if not (options.propagated_columns or options.propagated_types):
        return {}
    name = _type_name(column)
    if not (
        matches(options.propagated_columns, f"{table.qualified_name}.{column.name}")
        or matches(options.propagated_types, f"{table.qualified_name}.{name}")
    ):
        return {}
    length: int | None
    if column.type_name in _VECTORS:
        # the modifier is the number of dimensions; without one there is no length
        length, scale = (None if column.typmod == -1 else column.typmod), 0
    else:
        element = column.element
        length, scale = length_and_scale(column.type_name if element is None else element.name, column.typmod)
    return told_type(column.name, name, length, scale)


def _type_name(column: Column) -> str:
    if column.default_expression is not None and "nextval(" in column.default_expression:
        return _SERIALS.get(column.type_name, column.type_name)
    return column.domain_name or column.type_name
