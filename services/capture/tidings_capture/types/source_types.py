"""``column.propagate.source.type`` and ``datatype.propagate.source.type``: a column's type as parameters of its schema."""

from typing import Final

from tidings_capture.column_sizes import length_and_scale
from tidings_capture.conversion_options import ConversionOptions
from tidings_capture.filters import matches
from tidings_capture.relations import Column, Table

_SERIALS: Final = {"int2": "smallserial", "int4": "serial", "int8": "bigserial"}


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
    length, scale = length_and_scale(
        column.element.name if column.element is not None else column.type_name, column.typmod
    )
    return {
        "__debezium.source.column.type": name.upper(),
        "__debezium.source.column.length": str(length),
        "__debezium.source.column.scale": str(scale),
        "__debezium.source.column.name": column.name,
    }


def _type_name(column: Column) -> str:
    if column.default_expression is not None and "nextval(" in column.default_expression:
        return _SERIALS.get(column.type_name, column.type_name)
    return column.domain_name or column.type_name
