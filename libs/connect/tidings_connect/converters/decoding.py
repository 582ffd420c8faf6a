"""From the bytes of JSON and Avro to Connect's schemas and values: what ``toConnectData`` of the two converters does.

Specified by ``org.apache.kafka.connect.json.JsonConverter`` (Kafka 4.3) and ``io.confluent.connect.avro.AvroData`` with its
default settings. Values are as `transforms.record` describes them. What a converter of Java's takes for another type without
a word (a text where a number is to be becomes 0) is an error here.
"""

import binascii
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from tidings_connect.converters.json_structs import compile_struct
from tidings_connect.data.errors import DataError
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_from_bytes
from tidings_envelope.errors import DecodeError
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType, Field

Decode = Callable[[Any], Any]
Decoded = tuple[ConnectSchema | None, Any]

_KNOWN_SCHEMAS: Final = 1_000
_MOST_DEPTH: Final = 64
_BITS: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}
_FLOATS: Final = (ConnectType.FLOAT32, ConnectType.FLOAT64)
_WITH_SCHEMA_TEXT: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


class _WithSchema(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_with_schema = msgspec.json.Decoder(_WithSchema).decode
_plain = msgspec.json.Decoder().decode
_exact = msgspec.json.Decoder(float_hook=Decimal).decode
_NO_RECORD: Final = b"\0"
"""What no record begins with that is JSON."""
_SCHEMA_FIRST: Final = b'{"schema":'
_PAYLOAD_NEXT: Final = b'"payload":'
_Compiled = tuple[ConnectSchema | None, Decode, bool]
"""Of a schema: itself, what reads its values, and whether numbers with a point are decimals among them."""


class JsonDecoder:
    """Decodes what a JsonConverter has written.

    Args:
        replace_null: ``replace.null.with.default``.
    """

    def __init__(self, *, schemas_enable: bool, replace_null: bool) -> None:
        self._schemas_enable = schemas_enable
        self._replace_null = replace_null
        self._known: dict[bytes, _Compiled] = {}
        self._begins = _NO_RECORD
        """What the last record had before its payload."""
        self._last: _Compiled = (None, lambda value: value, False)

    def __call__(self, data: bytes | None) -> Decoded:
        """Schema and value; neither of null.

        Raises:
            DataError: the bytes are not what the converter writes.
        """
        if data is None:
            return None, None
        if not self._schemas_enable:
            return None, _json(data, exact=False)
        if data.startswith(self._begins):
            schema, decode, exact = self._last
            try:
                payload = (_exact if exact else _plain)(memoryview(data)[len(self._begins) : -1])
            except ValueError:
                pass  # more than a payload, or less: looked at closely below
            else:
                if data.endswith(b"}"):
                    return schema, decode(payload)
        try:
            message = _with_schema(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise DataError(_WITH_SCHEMA_TEXT) from None
        text, rest = bytes(message.schema), bytes(message.payload)
        schema, decode, exact = known = self._compiled(text)
        self._remember(data, rest, known)
        return schema, decode(_json(rest, exact=exact))

    def _remember(self, data: bytes, payload: bytes, known: _Compiled) -> None:
        """What stands before the payload, as it does in the next record, too: its schema need not be read again then."""
        if data.startswith(_SCHEMA_FIRST) and data.endswith(payload + b"}"):
            begins = data[: -len(payload) - 1]
            if begins.endswith(_PAYLOAD_NEXT):
                self._begins, self._last = begins, known

    def _compiled(self, text: bytes) -> _Compiled:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _KNOWN_SCHEMAS:
                self._known.clear()
            schema = schema_of_json(_json(text, exact=True))
            if schema is None:
                known = None, lambda value: value, False
            else:
                known = schema, compile_json(schema, replace_null=self._replace_null), _has_decimal(schema)
            self._known[text] = known
        return known


def _json(data: bytes, *, exact: bool) -> Any:
    try:
        # Not orjson, to which a whole number of more than 64 bits is a floating point one.
        return (_exact if exact else _plain)(data)
    except (ValueError, RecursionError):  # msgspec's and UTF-8's errors are of the first kind
        raise DataError("Converting byte[] to Kafka Connect data failed due to serialization error") from None


def _has_decimal(schema: ConnectSchema) -> bool:
    inner = [field.schema for field in schema.fields] + [
        s for s in (schema.items, schema.keys) if s is not None
    ]
    return schema.name == CONNECT_DECIMAL or any(map(_has_decimal, inner))


def schema_of_json(value: Any, depth: int = 0) -> ConnectSchema | None:
    """The schema that a JsonConverter has written; None for null.

    Raises:
        DataError: it is none.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or depth > _MOST_DEPTH:
        raise DataError("the schema is not a JSON object, or too deep")
    name = value.get("type")
    try:
        kind = ConnectType(str(name))
    except ValueError:
        raise DataError("Unknown schema type" if name else "Schema must contain 'type' field") from None
    fields: tuple[Field, ...] = ()
    items = keys = None
    if kind is ConnectType.STRUCT:
        fields = tuple(_field_of_json(item, depth) for item in _list(value.get("fields")))
    elif kind is ConnectType.ARRAY:
        items = _inner(value.get("items"), depth)
    elif kind is ConnectType.MAP:
        keys, items = _inner(value.get("keys"), depth), _inner(value.get("values"), depth)
    version = value.get("version")
    parameters = value.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise DataError("a schema's parameters are not a JSON object")
    schema = ConnectSchema(
        kind,
        optional=value.get("optional") is True,
        name=_text(value.get("name")),
        version=version if isinstance(version, int) else None,
        doc=_text(value.get("doc")),
        parameters={str(key): str(item) for key, item in parameters.items()},
        fields=fields,
        items=items,
        keys=keys,
    )
    default = value.get("default")
    return schema if default is None else replace(schema, default=compile_json(schema)(default))


def _inner(value: Any, depth: int) -> ConnectSchema:
    found = schema_of_json(value, depth + 1)
    if found is None:
        raise DataError("a schema of an array or map lacks the schema of its items")
    return found


def _field_of_json(value: Any, depth: int) -> Field:
    name = value.get("field") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise DataError("Struct schema's field name not specified properly")
    return Field(name, _inner(value, depth))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DataError("a struct's schema has no list of fields")
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def compile_json(schema: ConnectSchema, *, replace_null: bool = True, where: str = "the value") -> Decode:
    """A function from JSON's values to Connect's.

    Raises (the function):
        DataError: a value does not fit the schema; names the field, never the value.
    """
    present = _present_json(schema, replace_null, where)
    default = schema.default if replace_null else NO_DEFAULT

    def decode(value: Any) -> Any:
        if value is not None:
            return present(value)
        if default is not NO_DEFAULT:
            return default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.value} field: {where}")

    return decode


def _mismatch(where: str, schema: ConnectSchema) -> DataError:
    return DataError(f"{where} does not fit its schema, which is of type {schema.type.value}")


def _present_json(schema: ConnectSchema, replace_null: bool, where: str) -> Decode:
    if schema.name == CONNECT_DECIMAL:
        return _decimal(schema, where)
    match schema.type:
        case ConnectType.STRUCT:
            return _struct(schema, replace_null, where)
        case ConnectType.ARRAY | ConnectType.MAP:
            return _collection(schema, replace_null, where)
        case ConnectType.BYTES:
            return _bytes(schema, where)
        case _:
            return _scalar(schema, where)


def _scalar(schema: ConnectSchema, where: str) -> Decode:
    kind = schema.type
    bits = _BITS.get(kind)

    def integer(value: Any) -> Any:
        if type(value) is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1):  # type: ignore[operator]
            return value
        raise _mismatch(where, schema)

    def number(value: Any) -> Any:
        if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
            try:
                return float(value)  # Jackson writes "NaN" and "Infinity" as text
            except (ValueError, OverflowError):
                pass
        raise _mismatch(where, schema)

    wanted = bool if kind is ConnectType.BOOLEAN else str

    def other(value: Any) -> Any:
        if isinstance(value, wanted):
            return value
        raise _mismatch(where, schema)

    return integer if bits is not None else number if kind in _FLOATS else other


def _unbase64(value: Any, schema: ConnectSchema, where: str) -> bytes:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):  # what is not base64 is of the latter kind
        raise _mismatch(where, schema) from None


def _bytes(schema: ConnectSchema, where: str) -> Decode:
    return lambda value: _unbase64(value, schema, where)


def _decimal(schema: ConnectSchema, where: str) -> Decode:
    try:
        scale = int(schema.parameters["scale"])
    except (KeyError, ValueError):
        raise DataError(f"{where} is a Decimal, and its schema has no scale") from None

    def decode(value: Any) -> Decimal:
        try:
            if isinstance(value, Decimal):
                return value
            if isinstance(value, int | float) and not isinstance(value, bool):
                return Decimal(str(value))
            return decimal_from_bytes(_unbase64(value, schema, where), scale)
        except (DecodeError, InvalidOperation):
            raise _mismatch(where, schema) from None

    return decode


def _struct(schema: ConnectSchema, replace_null: bool, where: str) -> Decode:
    fields = [
        (
            field.name,
            field.schema,
            compile_json(field.schema, replace_null=replace_null, where=f"field {field.name}"),
        )
        for field in schema.fields
    ]
    return compile_struct(fields, lambda: _mismatch(where, schema))


def _collection(schema: ConnectSchema, replace_null: bool, where: str) -> Decode:
    assert schema.items is not None
    item = compile_json(schema.items, replace_null=replace_null, where=f"an item of {where}")
    if schema.type is ConnectType.ARRAY:

        def array(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise _mismatch(where, schema)
            return [item(each) for each in value]

        return array
    assert schema.keys is not None
    if schema.keys.type is ConnectType.STRING:

        def text_map(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise _mismatch(where, schema)
            return {key: item(each) for key, each in value.items()}

        return text_map
    key = compile_json(schema.keys, replace_null=replace_null, where=f"a key of {where}")

    def pairs(value: Any) -> dict[Any, Any]:
        if not isinstance(value, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
            raise _mismatch(where, schema)
        return {key(first): item(second) for first, second in value}

    return pairs


def text_parameters(value: Any) -> Mapping[str, str]:
    """A schema's parameters, from a property of an Avro schema."""
    return {str(key): str(item) for key, item in value.items()} if isinstance(value, dict) else {}
