"""Length and scale of types: what PostgreSQL's JDBC driver says about a type and its modifier.

Reference: ``org.postgresql.jdbc.TypeInfoCache``, ``getPrecision``, ``getDisplaySize`` and ``getScale``.
"""

from collections.abc import Mapping
from typing import Final

from tidings_capture.cdc.encoding.column_mappers import UNLIMITED, MappedColumn
from tidings_capture.cdc.tables import Column

_TEXT_TYPES: Final = frozenset(("text", "varchar", "bpchar", "char", "name"))
"""Types that PostgreSQL's JDBC driver calls CHAR or VARCHAR, beside enums."""
_BITS: Final = frozenset(("bit", "varbit"))
"""Types whose bytes Debezium does not cut."""
_UNCONSTRAINED_NUMERIC: Final = 131_089
_FIXED: Final[Mapping[str, tuple[int, int]]] = {
    "int2": (5, 0),
    "int4": (10, 0),
    "int8": (19, 0),
    "oid": (10, 0),
    "float4": (8, 8),
    "float8": (17, 17),
    "bool": (1, 0),
    "char": (1, 0),
    "date": (13, 0),
}
"""Length and scale."""
_CLOCKS: Final[Mapping[str, int]] = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
"""The length without decimals."""
_INTERVAL_LENGTH: Final = 49
_TYPMOD_HEADER: Final = 4


def mapped_column(column: Column) -> MappedColumn:
    """What the options of masks and cuts ask of a column."""
    is_array = column.element is not None
    name = column.element.name if column.element is not None else column.type_name
    return MappedColumn(
        column.name,
        is_text=not is_array and (column.type_name in _TEXT_TYPES or bool(column.enum_labels)),
        length=length_and_scale(name, column.typmod)[0],
        can_be_cut=column.type_name not in _BITS,
    )


def length_and_scale(type_name: str, typmod: int) -> tuple[int, int]:
    """Of a base type, or of an array's element type, with the column's modifier (-1: none)."""
    if type_name in _FIXED:
        return _FIXED[type_name]
    if type_name in _CLOCKS:
        return _CLOCKS[type_name] + _decimals_length(typmod), 6 if typmod == -1 else typmod
    match type_name:
        case "numeric" if typmod == -1:
            return _UNCONSTRAINED_NUMERIC, 0
        case "numeric":
            packed = typmod - _TYPMOD_HEADER
            return packed >> 16 & 0xFFFF, packed & 0xFFFF
        case "interval":
            return _INTERVAL_LENGTH, 6 if typmod == -1 else typmod & 0xFFFF
        case "varchar" | "bpchar" if typmod != -1:
            return typmod - _TYPMOD_HEADER, 0
        case "bit" | "varbit" if typmod != -1:
            return typmod, 0
        case _:
            return UNLIMITED, 0


def _decimals_length(precision: int) -> int:
    """The point and the decimals; of one decimal the driver thinks that it takes two."""
    if precision <= 0:
        return 7 if precision == -1 else 0
    return max(precision, 2) + 1
