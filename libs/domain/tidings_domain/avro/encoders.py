"""Encodes event classes straight to Avro's binary format, by functions that are compiled once per contract.

A schema becomes a tree of small functions, value to bytes, each of which checks the value's type and range first; so
encoding is also the validation of an event. It covers what contracts may use: the primitive types, records, enums,
arrays, maps, fixed, optional values (a union of null and one type), and the logical types decimal, date, time-micros,
timestamp-millis, timestamp-micros, local-timestamp-micros and uuid. For the format see the Avro specification 1.12,
"Binary Encoding"; fastavro reads what this writes, which the tests prove.

It exists because the rules' budget is 40 microseconds per technical event and fastavro takes that long for the decimals
of one order (measured: 41 against 9 microseconds).
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from tidings_domain.avro.values import (
    LOGICAL,
    PRIMITIVE,
    SMALL,
    Encoder,
    Schema,
    WrongValue,
    decimal_encoder,
    encode_count,
    encode_string,
    enum_encoder,
    fixed_encoder,
    wrong_type,
)
from tidings_domain.errors import ContractError, EventError


def _optional(schema: list[Schema], cls: object) -> Encoder:
    null = schema.index("null") if "null" in schema else -1
    if len(schema) != 2 or null < 0:
        raise ContractError("a union may only be null and one other type")
    nothing, index = SMALL[null], SMALL[1 - null]
    encode_value = _compile(schema[1 - null], _without_none(cls))

    def encode(value: Any) -> bytes:
        return nothing if value is None else index + encode_value(value)

    return encode


def _array(schema: Schema, cls: object) -> Encoder:
    encode_item = _compile(schema["items"], _argument(cls, 0))

    def encode(value: Any) -> bytes:
        if type(value) is not tuple and type(value) is not list:
            raise wrong_type("a tuple", value)
        if not value:
            return b"\x00"
        try:
            return b"".join([encode_count(len(value)), *map(encode_item, value), b"\x00"])
        except WrongValue as wrong:
            wrong.path.append("[]")
            raise

    return encode


def _map(schema: Schema, cls: object) -> Encoder:
    encode_item = _compile(schema["values"], _argument(cls, 1))

    def encode(value: Any) -> bytes:
        if type(value) is not dict:
            raise wrong_type("a dict", value)
        if not value:
            return b"\x00"
        try:
            parts = [encode_string(key) + encode_item(item) for key, item in value.items()]
        except WrongValue as wrong:
            wrong.path.append("{}")
            raise
        return b"".join([encode_count(len(parts)), *parts, b"\x00"])

    return encode


def _record(schema: Schema, cls: object) -> Encoder:
    if not (isinstance(cls, type) and issubclass(cls, msgspec.Struct)):
        raise ContractError(f"record {schema['name']} has no class")
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    names = [field["name"] for field in schema["fields"]]
    if list(fields) != names:
        raise ContractError(
            f"{cls.__name__} does not have the fields of its contract: run `tidings-schemas generate`"
        )
    encoders = tuple(_compile(field["type"], fields[field["name"]].type) for field in schema["fields"])
    if not names:
        return lambda _value: b""
    values: Callable[[Any], Iterable[Any]] = attrgetter(*(fields[name].name for name in names))
    if len(names) == 1:
        one = values
        values = lambda value: (one(value),)  # noqa: E731
    join = b"".join

    def encode(value: Any) -> bytes:
        if type(value) is not cls:
            raise wrong_type(f"a {cls.__name__}", value)
        try:
            return join(
                [encode_field(item) for encode_field, item in zip(encoders, values(value), strict=True)]
            )
        except WrongValue:
            _find_wrong(value)
            raise

    def _find_wrong(value: Any) -> None:
        """Only now does the field's name matter: encode once more, one field at a time."""
        for name, encode_field, item in zip(names, encoders, values(value), strict=True):
            try:
                encode_field(item)
            except WrongValue as wrong:
                wrong.path.append(name)
                raise

    return encode


_COMPLEX: dict[str, Callable[[Schema, object], Encoder]] = {
    "record": _record,
    "array": _array,
    "map": _map,
    "enum": lambda schema, _cls: enum_encoder(schema),
    "fixed": lambda schema, _cls: fixed_encoder(schema),
}


def _compile(schema: Schema, cls: object) -> Encoder:
    if isinstance(schema, list):
        return _optional(schema, cls)
    if isinstance(schema, str):
        return PRIMITIVE[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return decimal_encoder(schema, schema.get("size") if kind == "fixed" else None)
    if logical is not None:
        if (kind, logical) not in LOGICAL:
            raise ContractError(f"logical type '{logical}' of {kind} cannot be encoded")
        return LOGICAL[kind, logical]
    if isinstance(kind, str) and kind in _COMPLEX:
        return _COMPLEX[kind](schema, cls)
    return _compile(kind, cls)


def inlined(schema: Schema, known: dict[str, Schema] | None = None) -> Schema:
    """The schema with every name of an earlier type replaced by that type's definition.

    Raises:
        ContractError: a name that is not defined before it is used (so a type may not contain itself).
    """
    known = {} if known is None else known
    if isinstance(schema, list):
        return [inlined(branch, known) for branch in schema]
    if isinstance(schema, str):
        if schema in PRIMITIVE or schema == "null":
            return schema
        short = schema.rpartition(".")[2]
        if short not in known:
            raise ContractError(f"type '{schema}' is not defined before it is used")
        return known[short]
    changed = dict(schema)
    if "fields" in changed:
        changed["fields"] = [{**field, "type": inlined(field["type"], known)} for field in changed["fields"]]
    for inner in ("items", "values"):
        if inner in changed:
            changed[inner] = inlined(changed[inner], known)
    if not isinstance(changed["type"], str):
        changed["type"] = inlined(changed["type"], known)
    if "name" in changed:
        known[changed["name"]] = changed
    return changed


def _without_none(cls: object) -> object:
    rest = [argument for argument in getattr(cls, "__args__", ()) if argument is not type(None)]
    return rest[0] if rest else cls


def _argument(cls: object, index: int) -> object:
    arguments = getattr(cls, "__args__", ())
    return arguments[index] if len(arguments) > index else None


def compile_encoder(schema: Schema, cls: type[msgspec.Struct]) -> Encoder:
    """A function from an instance of `cls` to the Avro binary encoding of `schema`.

    Raises:
        ContractError: the schema uses what is not supported, or the class has other fields.
    """
    encode_value = _compile(inlined(schema), cls)

    def encode(value: Any) -> bytes:
        try:
            return encode_value(value)
        except WrongValue as wrong:
            path = ".".join(reversed(wrong.path)).replace(".[]", "[]").replace(".{}", "{}")
            raise EventError(
                f"{cls.__name__}.{path} {wrong.problem}" if path else f"{cls.__name__} {wrong.problem}"
            ) from wrong

    return encode
