"""Chooses the conversion of a column by its type.

Types fall in three groups: those with a conversion; those that Debezium has a representation for and Tidings not yet,
which are refused by name rather than left out silently; and those unknown to Debezium too, which are left out, or with
``include.unknown.datatypes`` passed on as opaque bytes. Oids below 16384 are fixed (``pg_type.dat``); types of
extensions are recognised by name.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidings_capture.conversion_options import ConversionOptions
from tidings_capture.relations import Column
from tidings_capture.types import arrays, numbers, temporal, texts
from tidings_capture.types.conversion import Conversion, ConversionError
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectType

_Maker = Callable[[int, ConversionOptions], Conversion]

_TYPES: Final[Mapping[str, _Maker]] = {
    "bool": lambda _, __: numbers.boolean(),
    "int2": lambda _, __: numbers.integer(ConnectType.INT16),
    "int4": lambda _, __: numbers.integer(ConnectType.INT32),
    "int8": lambda _, __: numbers.integer(ConnectType.INT64),
    "oid": lambda _, __: numbers.integer(ConnectType.INT64),
    "float4": lambda _, __: numbers.real(),
    "float8": lambda _, __: numbers.double(),
    "numeric": numbers.numeric,
    "bit": lambda typmod, _: numbers.bits(typmod),
    "varbit": lambda typmod, _: numbers.bits(2**31 - 1 if typmod == -1 else typmod),
    "date": lambda _, options: temporal.date(options),
    "time": temporal.time,
    "timetz": lambda _, __: temporal.timetz(),
    "timestamp": temporal.timestamp,
    "timestamptz": lambda typmod, _: temporal.timestamptz(typmod),
    "interval": lambda _, options: temporal.interval(options),
    "uuid": lambda _, options: texts.uuid_text(options),
    "json": lambda _, options: texts.json_text(options),
    "jsonb": lambda _, options: texts.json_text(options),
    "xml": lambda _, options: texts.text(options, semantic.XML),
    "tsvector": lambda _, options: texts.text(options, semantic.TSVECTOR),
    "bytea": lambda _, options: texts.binary(options),
}
_AS_TEXT: Final = frozenset(
    (
        "text",
        "varchar",
        "bpchar",
        "char",
        "name",
        "citext",
        "isbn",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
    )
)
_NO_ARRAYS: Final = frozenset(
    ("name", "interval", "varbit", "xml", "money", "point", "refcursor", "tsvector", "isbn")
)
"""Element types whose arrays Debezium leaves out."""
_REFUSED: Final = frozenset(
    (
        "money",
        "point",
        "box",
        "lseg",
        "path",
        "polygon",
        "circle",
        "line",
        "hstore",
        "ltree",
        "geometry",
        "geography",
        "vector",
        "halfvec",
        "sparsevec",
    )
)
"""Debezium has a representation of its own for these."""


def conversion_for(column: Column, options: ConversionOptions) -> Conversion | None:
    """The conversion of a column, or None where Debezium leaves the column out.

    Raises:
        ConversionError: a type that Debezium knows and Tidings does not yet.
    """
    if column.element is not None:
        return _array(column, options)
    if column.enum_labels:
        return texts.enum(column.enum_labels, options)
    scalar = _scalar(column.type_name, column.typmod, options)
    if scalar is not None:
        return scalar
    if column.type_name in _REFUSED:
        raise _refusal(column)
    return texts.unknown(options) if options.include_unknown_datatypes else None


def _scalar(name: str, typmod: int, options: ConversionOptions) -> Conversion | None:
    if name in _AS_TEXT:
        return texts.text(options)
    maker = _TYPES.get(name)
    return None if maker is None else maker(typmod, options)


def _array(column: Column, options: ConversionOptions) -> Conversion | None:
    element = column.element
    if element is None or element.name in _NO_ARRAYS:
        return None
    if element.enum_labels:
        conversion: Conversion | None = texts.enum(element.enum_labels, options)
    elif element.name == "time":
        conversion = temporal.time(column.typmod, options, in_array=True)
    elif element.name == "timestamptz":
        conversion = temporal.timestamptz(column.typmod, in_array=True)
    else:
        conversion = _scalar(element.name, column.typmod, options)
    if conversion is not None:
        return arrays.array(conversion, element.name, options, is_enum=bool(element.enum_labels))
    if element.name in _REFUSED or options.include_unknown_datatypes:
        raise _refusal(column)
    return None


def _refusal(column: Column) -> ConversionError:
    return ConversionError(
        f"column {column.name!r} is of type {column.type_name}, which is not supported yet",
        hint="leave the column out with column.exclude.list",
    )
