"""Connect's JsonConverter, to the byte: values, schemas and the envelope of both.

Specified by ``org.apache.kafka.connect.json.JsonConverter`` (Kafka 4.3) with Jackson's default escapes: control
characters have short escapes or four upper-case hexadecimal digits, characters outside the Basic Multilingual Plane are
two escaped surrogates, everything else is UTF-8.
"""

import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import orjson

from tidings_envelope.codec import Encoder, Frame, with_null
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_to_bytes
from tidings_envelope.errors import SchemaError
from tidings_envelope.java.numbers import double_json, float_json
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

NULL: Final = b"null"
TRUE: Final = b"true"
FALSE: Final = b"false"


class DecimalFormat(StrEnum):
    """``decimal.format`` of the JsonConverter."""

    BASE64 = "base64"
    NUMERIC = "numeric"


_DIFFERENT = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\U00010000-\U0010ffff]")
"""Where Jackson and orjson escape differently."""


def string_json(text: str) -> bytes:
    """A string as Jackson writes it, with its quotes."""
    encoded = orjson.dumps(text)
    if text.isascii():
        if b"\\u00" not in encoded:
            return encoded
    elif _DIFFERENT.search(text) is None:
        return encoded
    return exact_string_json(text)


def exact_string_json(text: str) -> bytes:
    """The same, the long way round, for strings with control characters or surrogates."""
    pieces = []
    position = 0
    for match in _DIFFERENT.finditer(text):
        pieces.append(orjson.dumps(text[position : match.start()])[1:-1])
        utf16 = match.group().encode("utf-16-be")
        pieces.extend(b"\\u%04X" % int.from_bytes(utf16[i : i + 2], "big") for i in range(0, len(utf16), 2))
        position = match.end()
    pieces.append(orjson.dumps(text[position:])[1:-1])
    return b'"' + b"".join(pieces) + b'"'


def bytes_json(value: bytes) -> bytes:
    """Bytes as base64, with quotes."""
    return b'"' + b2a_base64(value, newline=False) + b'"'


def _integer(value: int) -> bytes:
    return b"%d" % value


def _boolean(value: bool) -> bytes:  # an encoder's only argument is the value
    return TRUE if value else FALSE


_SCALARS: Final[Mapping[ConnectType, Encoder]] = {
    ConnectType.INT8: _integer,
    ConnectType.INT16: _integer,
    ConnectType.INT32: _integer,
    ConnectType.INT64: _integer,
    ConnectType.FLOAT32: float_json,
    ConnectType.FLOAT64: double_json,
    ConnectType.BOOLEAN: _boolean,
    ConnectType.STRING: string_json,
    ConnectType.BYTES: bytes_json,
}


class JsonCodec:
    """Encodes Connect data as the JsonConverter does.

    Args:
        decimal_format: ``decimal.format``: Decimals as base64 of the unscaled bytes, or as numbers.
        replace_null_with_default: ``replace.null.with.default``: whether a null in a field with a default becomes
            that default.
    """

    def __init__(
        self, *, decimal_format: DecimalFormat = DecimalFormat.BASE64, replace_null_with_default: bool = True
    ) -> None:
        self.decimal_format = decimal_format
        self.replace_null_with_default = replace_null_with_default

    def encoder(self, schema: ConnectSchema) -> Encoder:
        """See `Codec.encoder`."""
        return with_null(
            schema, self._present(schema), NULL, default_replaces_null=self.replace_null_with_default
        )

    def struct_fragments(self, schema: ConnectSchema) -> tuple[bytes, ...]:
        """See `Codec.struct_fragments`."""
        names = [string_json(field.name) + b":" for field in schema.fields]
        if not names:
            return (b"{}",)
        return (b"{" + names[0], *(b"," + name for name in names[1:]), b"}")

    def null(self, schema: ConnectSchema) -> bytes:  # noqa: ARG002  # the same for every schema
        """See `Codec.null`."""
        return NULL

    def schema_json(self, schema: ConnectSchema, field_name: str | None = None) -> bytes:
        """A schema as the JsonConverter writes it; `field_name` where it is a struct's field."""
        parts = [b'"type":' + string_json(schema.type.value)]
        if schema.type is ConnectType.STRUCT:
            fields = b",".join(self.schema_json(field.schema, field.name) for field in schema.fields)
            parts.append(b'"fields":[' + fields + b"]")
        elif schema.type is ConnectType.ARRAY:
            parts.append(b'"items":' + self.schema_json(_items(schema)))
        elif schema.type is ConnectType.MAP:
            parts.append(b'"keys":' + self.schema_json(_keys(schema)))
            parts.append(b'"values":' + self.schema_json(_items(schema)))
        parts.append(b'"optional":' + _boolean(schema.optional))
        if schema.name is not None:
            parts.append(b'"name":' + string_json(schema.name))
        if schema.version is not None:
            parts.append(b'"version":%d' % schema.version)
        if schema.doc is not None:
            parts.append(b'"doc":' + string_json(schema.doc))
        if schema.parameters:
            parameters = b",".join(
                string_json(k) + b":" + string_json(v) for k, v in schema.parameters.items()
            )
            parts.append(b'"parameters":{' + parameters + b"}")
        if schema.default is not NO_DEFAULT:
            parts.append(b'"default":' + self._present(schema)(schema.default))
        if field_name is not None:
            parts.append(b'"field":' + string_json(field_name))
        return b"{" + b",".join(parts) + b"}"

    def frame(self, schema: ConnectSchema, *, schemas_enable: bool) -> Frame:
        """What stands around a whole value: its schema where ``schemas.enable`` asks for it."""
        if not schemas_enable:
            return Frame(b"", b"")
        return Frame(b'{"schema":' + self.schema_json(schema) + b',"payload":', b"}")

    def _present(self, schema: ConnectSchema) -> Encoder:
        if schema.name == CONNECT_DECIMAL:
            return self._decimal(schema)
        if schema.type in _SCALARS:
            return _SCALARS[schema.type]
        if schema.type is ConnectType.ARRAY:
            return _array(self.encoder(_items(schema)))
        if schema.type is ConnectType.MAP:
            if _keys(schema).type is not ConnectType.STRING:
                return _pairs(self.encoder(_keys(schema)), self.encoder(_items(schema)))
            return _map(self.encoder(_items(schema)))
        return self._struct(schema)

    def _decimal(self, schema: ConnectSchema) -> Encoder:
        if self.decimal_format is DecimalFormat.NUMERIC:
            return lambda value: str(value).encode()
        scale = int(schema.parameters["scale"])
        return lambda value: bytes_json(decimal_to_bytes(value, scale))

    def _struct(self, schema: ConnectSchema) -> Encoder:
        *before, last = self.struct_fragments(schema)
        fields: list[tuple[bytes, str, Callable[[Any], bytes]]] = [
            (fragment, field.name, self.encoder(field.schema))
            for fragment, field in zip(before, schema.fields, strict=True)
        ]
        return lambda value: b"".join([f + encode(value.get(name)) for f, name, encode in fields]) + last


def _array(item: Encoder) -> Encoder:
    return lambda values: b"[" + b",".join([item(value) for value in values]) + b"]"


def _map(item: Encoder) -> Encoder:
    return lambda values: (
        b"{" + b",".join([string_json(k) + b":" + item(v) for k, v in values.items()]) + b"}"
    )


def _pairs(key: Encoder, item: Encoder) -> Encoder:
    """A map whose keys are not strings: an array of arrays of two."""
    return lambda values: (
        b"[" + b",".join([b"[" + key(k) + b"," + item(v) + b"]" for k, v in values.items()]) + b"]"
    )


def _items(schema: ConnectSchema) -> ConnectSchema:
    if schema.items is None:
        raise SchemaError(f"a schema of type {schema.type} needs the schema of its items")
    return schema.items


def _keys(schema: ConnectSchema) -> ConnectSchema:
    if schema.keys is None:
        raise SchemaError("a schema of type map needs the schema of its keys")
    return schema.keys
