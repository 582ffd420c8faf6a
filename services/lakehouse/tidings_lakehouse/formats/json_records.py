"""Records of JSON. Most bring their schema: ``{"schema":...,"payload":...}``, as JsonConverter writes them with ``schemas.enable``.

The schema's text is the same in all records of one table's version, so a hash of it is their schema id: below zero, which
no id of a registry is. Only the payload is parsed, by Spark's `from_json`; of the usual form it begins behind the first
``},"payload":``, which no text inside of a schema can hold, since its quotes would be escaped.

Of a record that brings none, but for whose topic one is given, the whole is the payload.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.formats.avro_nodes import Node, UnsupportedSchemaError

_BEGIN = '{"schema":{'
_BETWEEN = '},"payload":'
_UNFIT = "_tidings_unfit"
"""The field that holds the text of a payload that does not fit its schema; nobody looks at it but for null."""
_MOST_TEXT = 256 << 20
_LONG_DIGITS = 18
UNFIT_REASON = (
    "the payload does not fit the schema that comes with it, or has fields that the schema given for its topic has not; "
    "of decimals it has to be decimal.format=BASE64"
)
_TYPES: dict[str, st.DataType] = {
    "boolean": st.BooleanType(),
    "int": st.IntegerType(),
    "long": st.LongType(),
    "float": st.FloatType(),
    "double": st.DoubleType(),
    "bytes": st.BinaryType(),
    "string": st.StringType(),
}


def is_json_id(schema_id: int) -> bool:
    """Whether an id is that of a schema which records bring themselves."""
    return schema_id < 0


def schema_id(name: str) -> Column:
    """The id of the schema in a record's key or value; null when there is none."""
    below_zero = sf.lit(-(1 << 63))
    return sf.when(_is_usual(name), sf.xxhash64(sf.expr(_head(name))).bitwiseOR(below_zero)).when(
        _is_otherwise(name), sf.xxhash64(_schema_within(name)).bitwiseOR(below_zero)
    )


def schema_text(name: str) -> Column:
    """The schema in a record's key or value, as text; null when there is none."""
    text = sf.expr(f"concat(substr({_head(name)}, {len(_BEGIN)}), '}}')")
    return sf.when(_is_usual(name), text).when(_is_otherwise(name), _schema_within(name))


def _is_otherwise(name: str) -> Column:
    """Whether the two parts are written in another way than JsonConverter does."""
    return is_json(name) & sf.startswith(_schema_within(name), sf.lit("{"))


def _schema_within(name: str) -> Column:
    return sf.expr(f"get_json_object(cast({name} AS string), '$.schema')")


def is_json(name: str) -> Column:
    """Whether a key or value begins as a JSON object does."""
    return sf.expr(f"substring(ltrim(decode(substring({name}, 1, 64), 'ISO-8859-1')), 1, 1) = '{{'")


def _head(name: str) -> str:
    return f"substring_index(cast({name} AS string), '{_BETWEEN}', 1)"


def _is_usual(name: str) -> Column:
    begins = f"substring({name}, 1, {len(_BEGIN)}) = cast('{_BEGIN}' AS binary)"
    return sf.expr(f"{begins} AND octet_length({_head(name)}) < length({name})")


def _payload(name: str) -> Column:
    begin = f"octet_length({_head(name)}) + {len(_BETWEEN) + 1}"
    whole = f"cast({name} AS string)"
    return (
        sf.when(_is_usual(name), sf.expr(f"cast(substring({name}, {begin}) AS string)"))
        .when(_is_otherwise(name), sf.expr(f"get_json_object({whole}, '$.payload')"))
        .otherwise(sf.expr(whole))
    )


def _is_closed(name: str, payload: Column, closed: Mapping[str, frozenset[str]]) -> Column:
    """Whether a record brings its schema or has no more fields than the one that is given: those would be lost."""
    fields = "map<string,string>"
    schema = fields if "" in closed else ", ".join(f"{row} {fields}" for row in sorted(closed))
    found = sf.from_json(payload, schema, {"mode": "PERMISSIVE", "maxStringLen": str(_MOST_TEXT)})
    tests = []
    for row, known in closed.items():
        more = sf.array_except(sf.map_keys(found[row] if row else found), sf.lit(sorted(known)))
        tests.append(sf.coalesce(sf.size(more) < 1, sf.lit(True)))
    brings = _is_usual(name) | sf.coalesce(_is_otherwise(name), sf.lit(False))
    return brings | functools.reduce(Column.__and__, tests, sf.lit(True))


def given_id(text: str) -> int:
    """The id of a schema that is given for a topic."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") | -(1 << 63)


def decode(
    column: str, reader: Node, keep: Mapping[str, Sequence[str]], closed: Mapping[str, frozenset[str]]
) -> Column:
    """The decoded payload of a key or value; see `is_undecoded`.

    Args:
        keep: see `reader_schema`.
        closed: fields of those parts that have no others ("": the whole), unless a record brings its schema.
    """
    schema = _struct(reader, keep).add(_UNFIT, st.StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNFIT, "maxStringLen": str(_MOST_TEXT)}
    payload = _payload(column)
    # The parser takes what is not UTF-8 for another character.
    fits = sf.is_valid_utf8(payload) & _is_closed(column, payload, closed)
    return sf.when(fits, sf.from_json(payload, schema, options))


def is_undecoded(decoded: str, required: Sequence[str]) -> Column:
    """Whether a payload was not what its schema says; of such a one nothing is decoded.

    Args:
        required: fields that may not be null.
    """
    found = sf.col(decoded)
    tests = [found.isNull(), found[_UNFIT].isNotNull(), *[found[name].isNull() for name in required]]
    return functools.reduce(Column.__or__, tests)


def _struct(node: Node, keep: Mapping[str, Sequence[str]]) -> st.StructType:
    fields = []
    for name, inner in node.fields:
        wanted = keep.get(name)
        if wanted is None:
            type_ = _type(inner)
        else:
            type_ = st.StructType([f for f in _struct(inner, {}).fields if f.name in wanted])
        fields.append(st.StructField(name, type_))
    return st.StructType(fields)


def _type(node: Node) -> st.DataType:
    if node.kind == "record":
        return _struct(node, {})
    if node.items is not None:
        items = _type(node.items)
        return st.ArrayType(items) if node.kind == "array" else st.MapType(st.StringType(), items)
    if node.kind not in _TYPES:
        raise UnsupportedSchemaError(f"the type {node.kind}")
    return _TYPES[node.kind]


def unscaled_decimal(value: Column, precision: int, scale: int) -> Column:
    """A decimal from its unscaled number, big-endian in two's complement, of at most 16 bytes."""
    digits = sf.hex(value)
    is_negative = digits >= "8"
    # Of a negative number the complement, which is its distance to -1: both halves are numbers without a sign.
    digits = sf.when(is_negative, sf.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")).otherwise(
        digits
    )
    count = sf.length(digits)
    low = sf.conv(sf.substr(digits, sf.greatest(count - 15, sf.lit(1))), 16, 10).cast("decimal(20,0)")
    size = low.cast("decimal(38,0)")
    if precision > _LONG_DIGITS:
        upper = sf.conv(sf.substr(digits, sf.lit(1), count - 16), 16, 10).cast("decimal(20,0)")
        size = sf.when(count > 16, (upper * sf.lit(Decimal(1 << 64)) + low).cast("decimal(38,0)")).otherwise(
            size
        )
    # Not -size - 1: Spark's unary minus rounds to 34 digits.
    whole = sf.when(is_negative, sf.lit(Decimal(-1)) - size).otherwise(size).cast("decimal(38,0)")
    text = whole.cast("string") if scale == 0 else sf.concat(whole.cast("string"), sf.lit(f"E{-scale}"))
    return text.cast(st.DecimalType(precision, scale))


def fitted(value: Column, scale: Column, target: int) -> Column:
    """The number with an unscaled number, as of `unscaled_decimal` but of any length, and a scale, as decimal(38, `target`); null where
    that is not exactly the number."""
    digits = sf.hex(value)
    is_negative = digits >= "8"
    size = sf.translate(
        digits, "0123456789ABCDEF", "FEDCBA9876543210"
    )  # of a negative number its size less one
    is_short = sf.length(value) < 16
    has_38_digits = (sf.length(value) == 16) & sf.when(is_negative, size < f"{10**38 - 1:032X}").otherwise(
        digits < f"{10**38:032X}"
    )
    whole = sf.when(is_short | has_38_digits, unscaled_decimal(value, 38, 0))
    more = scale - target
    cut = sf.concat(sf.lit("1E"), sf.greatest(more, sf.lit(0)).cast("string")).try_cast("decimal(38,0)")
    is_exact = (more <= 0) | (whole == 0) | ((more < 38) & (whole % cut == 0))
    text = sf.concat(whole.cast("string"), sf.lit("E"), (-scale).cast("string"))
    return sf.when(is_exact, text.try_cast(st.DecimalType(38, target)))
