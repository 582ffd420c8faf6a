"""Chooses the conversion of a column by its type.

A type has a conversion here where Debezium has a representation for it; all others are left out, or with
``include.unknown.datatypes`` passed on as opaque bytes, as Debezium does. Types are recognised by name, whatever their
schema; those of extensions have no fixed oid.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.tables import Column, ElementType
from tidings_capture.cdc.types.conversion import Conversion
from tidings_capture.postgres.types import arrays, geometric, numbers, temporal, texts, vectors
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
    "money": lambda _, options: numbers.money(options),
    "bit": lambda typmod, _: numbers.bits(typmod),
    "varbit": lambda typmod, _: numbers.bits(2**31 - 1 if typmod == -1 else typmod),
    "date": lambda _, options: temporal.date(options),
    "time": temporal.time,
    "timetz": temporal.timetz,
    "timestamp": temporal.timestamp,
    "timestamptz": temporal.timestamptz,
    "interval": temporal.interval,
    "uuid": lambda _, options: texts.uuid_text(options),
    "json": lambda _, options: texts.json_text(options),
    "jsonb": lambda _, options: texts.json_text(options),
    "xml": lambda _, options: texts.text(options, semantic.XML),
    "tsvector": lambda _, options: texts.text(options, semantic.TSVECTOR),
    "bytea": lambda _, options: texts.binary(options),
    "hstore": lambda _, options: texts.hstore(options),
    "ltree": lambda _, options: texts.ltree(options),
}
_CONSTANT: Final[Mapping[str, Conversion]] = {**geometric.CONVERSIONS, **vectors.CONVERSIONS}
_RANGES: Final = frozenset(("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"))
_AS_TEXT: Final = _RANGES | {
    "text", "varchar", "bpchar", "char", "name", "citext", "isbn", "inet", "cidr", "macaddr", "macaddr8",
}  # fmt: skip
_NO_ARRAYS: Final = frozenset(("name", "interval", "varbit", "xml", "money", "point", "refcursor"))
"""Element types whose arrays Debezium leaves out, even with ``include.unknown.datatypes``."""
_OPTIONAL_ELEMENTS: Final = _RANGES | {
    "int2", "int4", "int8", "oid", "char", "varchar", "text", "bpchar", "inet", "cidr", "macaddr", "macaddr8",
    "numeric", "float4", "float8", "bool", "date", "uuid", "json", "jsonb", "time", "timetz", "timestamp",
    "timestamptz", "bytea", "geometry", "geography", "hstore", "citext", "ltree",
}  # fmt: skip
"""Element types whose arrays may hold nulls in Debezium's schemas."""
_VECTORS_OF: Final = {"oidvector": "oid", "int2vector": "int2"}
"""Arrays with a text form of their own, whose elements are never null."""


def conversion_for(column: Column, options: ConversionOptions) -> Conversion | None:
    """The conversion of a column, or None where Debezium leaves the column out."""
    if column.element is not None:
        return _array(column, column.element, options)
    if column.type_name == "hstore" and column.domain_name is not None:
        return texts.hstore(options, in_domain=True)
    conversion = None if column.enum_labels else _scalar(column.type_name, column.typmod, options)
    if conversion is not None:
        return conversion
    if column.enum_labels:
        return texts.enum(column.enum_labels, options, strict=column.domain_name is None)
    return texts.unknown(options) if options.include_unknown_datatypes else None


def _scalar(name: str, typmod: int, options: ConversionOptions) -> Conversion | None:
    if name in _AS_TEXT:
        return texts.text(options)
    if name in _CONSTANT:
        return _CONSTANT[name]
    maker = _TYPES.get(name)
    return None if maker is None else maker(typmod, options)


def _array(column: Column, element: ElementType, options: ConversionOptions) -> Conversion | None:
    if column.type_name in _VECTORS_OF:
        conversion = _scalar(element.name, -1, options)
        return None if conversion is None else arrays.vector(conversion)
    if element.name in _NO_ARRAYS and not element.is_domain:
        return None
    conversion = _element(column, element, options)
    if element.name == "bit" and not element.is_domain:
        return numbers.bit_array(column.typmod)
    if conversion is None:
        return None
    nulls = element.name in _OPTIONAL_ELEMENTS and not element.is_domain and not _is_enum(element)
    traits = arrays.Traits(
        nulls=nulls,
        breaks_on_null=element.name == "ltree",
        one_dimension=element.name == "timetz" and conversion.schema == semantic.ZONED_TIME,
        no_values=conversion.schema.type is ConnectType.STRUCT and not nulls,
        # Debezium knows the placeholder of an array by the name of the column's type
        unchanged=None if column.domain_name else arrays.unchanged(element.name, options),
        delimiter=element.delimiter.encode(),
    )
    return arrays.array(conversion, traits)


def _element(column: Column, element: ElementType, options: ConversionOptions) -> Conversion | None:
    if _is_enum(element):
        return texts.enum(element.enum_labels, options)
    known: Conversion | None = None
    if not element.is_domain:
        match element.name:
            case "date":
                known = temporal.date(options, in_array=True)
            case "time":
                known = temporal.time(column.typmod, options, in_array=True)
            case "timestamptz":
                known = temporal.timestamptz(column.typmod, options, in_array=True)
            case "numeric":
                known = numbers.numeric(column.typmod, options, in_array=True)
            case name:
                known = _scalar(name, column.typmod, options)
    if known is None and options.include_unknown_datatypes:
        return texts.unknown(options)
    return known


def _is_enum(element: ElementType) -> bool:
    return element.is_enum or bool(element.enum_labels)
