"""Avro binary encoding straight from event classes, compiled once per contract.

A schema becomes a tree of small functions, value to bytes, each of which checks the value's type and range first; so
encoding is also the validation of an event. It covers what contracts may use: the primitive types, records, enums,
arrays, maps, fixed, optional values (a union of null and one type), and the logical types decimal, date, time-micros,
timestamp-millis, timestamp-micros, local-timestamp-micros and uuid. For the format see the Avro specification 1.12,
"Binary Encoding"; fastavro reads what this writes, which the tests prove.

It exists because the rules' budget is 40 microseconds per technical event and fastavro takes that long for the decimals
of one order (measured: 41 against 9 microseconds).
"""

import struct
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_PREC, Context, Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from tidings_translator.errors import ContractError, EventError

Encoder = Callable[[Any], bytes]
Schema = Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Avro's local-timestamp has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EXACT = Context(prec=MAX_PREC if MAX_PREC < 10**9 else 10_000)
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


def _varint(value: int) -> bytes:
    """A long: zigzag, then seven bits a byte, lowest first."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL_COUNT = 1 << 14
_SMALL = tuple(_varint(value) for value in range(_SMALL_COUNT))
"""Most lengths, counts and many ids: looked up instead of calculated."""


def _long(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < _SMALL_COUNT else _varint(value)


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """A value that the contract does not allow: what is wrong, and the path of fields to it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []


def _typed(expected: str, value: object) -> _Wrong:
    return _Wrong(f"must be {expected}, not {type(value).__name__}")


def _integer(bits: int) -> Encoder:
    low, high, name = -(1 << bits - 1), (1 << bits - 1) - 1, "int" if bits == 32 else "long"

    def encode(value: Any) -> bytes:
        if type(value) is not int:
            raise _typed("an integer", value)
        if 0 <= value < _SMALL_COUNT:
            return _SMALL[value]
        if not low <= value <= high:
            raise _Wrong(f"does not fit into an Avro {name}")
        return _varint(value)

    return encode


def _boolean(value: Any) -> bytes:
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    raise _typed("a boolean", value)


def _floating(packer: struct.Struct) -> Encoder:
    def encode(value: Any) -> bytes:
        if type(value) is not float and type(value) is not int:
            raise _typed("a float", value)
        try:
            return packer.pack(value)
        except OverflowError as error:
            raise _Wrong("does not fit into an Avro float") from error

    return encode


def _string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _typed("a string", value)
    data = value.encode()
    return _long(len(data)) + data


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise _typed("bytes", value)
    return _long(len(value)) + value


def _uuid(value: Any) -> bytes:
    if not isinstance(value, UUID):
        raise _typed("a UUID", value)
    return b"\x48" + str(value).encode()


def _decimal(schema: Schema, size: int | None) -> Encoder:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    limit = 10**precision
    scaleb = _EXACT.scaleb

    def encode(value: Any) -> bytes:
        if type(value) is not Decimal:
            raise _typed("a Decimal", value)
        if not value.is_finite():
            raise _Wrong("must be a finite Decimal")
        scaled = scaleb(value, scale)
        number = int(scaled)
        if number != scaled:
            raise _Wrong(f"has more than the contract's {scale} digits after the point")
        if not -limit < number < limit:
            raise _Wrong(f"has more than the contract's {precision} digits")
        if size is not None:
            return number.to_bytes(size, "big", signed=True)
        length = number.bit_length() + 8 >> 3
        return _SMALL[length] + number.to_bytes(length, "big", signed=True)

    return encode


def _date(value: Any) -> bytes:
    if type(value) is not date:
        raise _typed("a date", value)
    return _long(value.toordinal() - _EPOCH_DAY)


def _time_micros(value: Any) -> bytes:
    if type(value) is not time or value.tzinfo is not None:
        raise _typed("a time without zone", value)
    return _varint(((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)


def _micros(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _timestamp_micros(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is None:
        raise _typed("a datetime with zone", value)
    return _varint(_micros(value - _EPOCH))


def _timestamp_millis(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is None:
        raise _typed("a datetime with zone", value)
    return _varint(_micros(value - _EPOCH) // 1000)


def _local_timestamp_micros(value: Any) -> bytes:
    if type(value) is not datetime or value.tzinfo is not None:
        raise _typed("a datetime without zone", value)
    return _varint(_micros(value - _LOCAL_EPOCH))


_PRIMITIVE: dict[str, Encoder] = {
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _floating(_FLOAT),
    "double": _floating(_DOUBLE),
    "string": _string,
    "bytes": _bytes,
}
_LOGICAL: dict[tuple[str, str], Encoder] = {
    ("int", "date"): _date,
    ("long", "time-micros"): _time_micros,
    ("long", "timestamp-micros"): _timestamp_micros,
    ("long", "timestamp-millis"): _timestamp_millis,
    ("long", "local-timestamp-micros"): _local_timestamp_micros,
    ("string", "uuid"): _uuid,
}


def _optional(schema: list[Schema], cls: object) -> Encoder:
    null = schema.index("null") if "null" in schema else -1
    if len(schema) != 2 or null < 0:
        raise ContractError("a union may only be null and one other type")
    nothing, index = _SMALL[null], _SMALL[1 - null]
    encode_value = _compile(schema[1 - null], _without_none(cls))

    def encode(value: Any) -> bytes:
        return nothing if value is None else index + encode_value(value)

    return encode


def _enum(schema: Schema) -> Encoder:
    indexes = {symbol: _SMALL[index] for index, symbol in enumerate(schema["symbols"])}

    def encode(value: Any) -> bytes:
        try:
            return indexes[value]
        except (KeyError, TypeError) as error:
            raise _Wrong(f"must be one of {', '.join(indexes)}") from error

    return encode


def _fixed(schema: Schema) -> Encoder:
    size = schema["size"]

    def encode(value: Any) -> bytes:
        if type(value) is not bytes or len(value) != size:
            raise _Wrong(f"must be {size} bytes")
        return value

    return encode


def _array(schema: Schema, cls: object) -> Encoder:
    encode_item = _compile(schema["items"], _argument(cls, 0))

    def encode(value: Any) -> bytes:
        if type(value) is not tuple and type(value) is not list:
            raise _typed("a tuple", value)
        if not value:
            return b"\x00"
        try:
            return b"".join([_long(len(value)), *map(encode_item, value), b"\x00"])
        except _Wrong as wrong:
            wrong.path.append("[]")
            raise

    return encode


def _map(schema: Schema, cls: object) -> Encoder:
    encode_item = _compile(schema["values"], _argument(cls, 1))

    def encode(value: Any) -> bytes:
        if type(value) is not dict:
            raise _typed("a dict", value)
        if not value:
            return b"\x00"
        try:
            parts = [_string(key) + encode_item(item) for key, item in value.items()]
        except _Wrong as wrong:
            wrong.path.append("{}")
            raise
        return b"".join([_long(len(parts)), *parts, b"\x00"])

    return encode


def _record(schema: Schema, cls: object) -> Encoder:
    if not (isinstance(cls, type) and issubclass(cls, msgspec.Struct)):
        raise ContractError(f"record {schema['name']} has no class")
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    names = [field["name"] for field in schema["fields"]]
    if list(fields) != names:
        raise ContractError(
            f"{cls.__name__} has not the fields of its contract: run `tidings-schemas generate`"
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
            raise _typed(f"a {cls.__name__}", value)
        try:
            return join(
                [encode_field(item) for encode_field, item in zip(encoders, values(value), strict=True)]
            )
        except _Wrong:
            _find_wrong(value)
            raise

    def _find_wrong(value: Any) -> None:
        """Only now does the field's name matter: encode once more, one field at a time."""
        for name, encode_field, item in zip(names, encoders, values(value), strict=True):
            try:
                encode_field(item)
            except _Wrong as wrong:
                wrong.path.append(name)
                raise

    return encode


_COMPLEX: dict[str, Callable[[Schema, object], Encoder]] = {
    "record": _record,
    "array": _array,
    "map": _map,
    "enum": lambda schema, _cls: _enum(schema),
    "fixed": lambda schema, _cls: _fixed(schema),
}


def _compile(schema: Schema, cls: object) -> Encoder:
    if isinstance(schema, list):
        return _optional(schema, cls)
    if isinstance(schema, str):
        return _PRIMITIVE[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return _decimal(schema, schema.get("size") if kind == "fixed" else None)
    if logical is not None:
        if (kind, logical) not in _LOGICAL:
            raise ContractError(f"logical type '{logical}' of {kind} cannot be encoded")
        return _LOGICAL[kind, logical]
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
        if schema in _PRIMITIVE or schema == "null":
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
        except _Wrong as wrong:
            path = ".".join(reversed(wrong.path)).replace(".[]", "[]").replace(".{}", "{}")
            raise EventError(
                f"{cls.__name__}.{path} {wrong.problem}" if path else f"{cls.__name__} {wrong.problem}"
            ) from wrong

    return encode
