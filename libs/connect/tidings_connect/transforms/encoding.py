"""From transformed keys and values to bytes, through the connector's own converters."""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tidings_connect.converters.encoding import Converter, JsonConverter
from tidings_connect.converters.plain import PlainConverter
from tidings_connect.data.schemas import same_text
from tidings_connect.transforms.checking import compile_check
from tidings_connect.transforms.record import DataError
from tidings_envelope.java.numbers import double_json
from tidings_envelope.json_codec import string_json
from tidings_envelope.schema import ConnectSchema

_KNOWN: Final = 2_000
"""Schemas that are remembered per converter, by topic."""

Encode = Callable[[Any], bytes]


class Encoding:
    """Encodes keys, or values, of any schema; a schema is compiled and registered once per topic.

    Schemas are found by identity; one that is new but equal to a known one costs its text once.
    """

    def __init__(self, converter: Converter) -> None:
        self._converter = converter
        self._by_identity: dict[tuple[str, int], tuple[ConnectSchema, Encode, Encode]] = {}
        self._by_text: dict[tuple[str, bytes], tuple[Encode, Encode]] = {}

    def __call__(
        self, topic: str, schema: ConnectSchema | None, value: Any, *, trusted: bool
    ) -> bytes | None:
        """The bytes; None for null.

        Args:
            topic: where the record goes.
            schema: its schema, if it has one.
            value: the key or value.
            trusted: whether it comes from a plan as it is.

        Raises:
            DataError: the value does not fit its schema, or the converter cannot write it.
            SchemaError: the format cannot represent the schema.
            RegistryError: the registry refused the schema or could not be reached.
        """
        if schema is None:
            return None if value is None else self._schemaless(value)
        known = self._by_identity.get((topic, id(schema)))
        if known is None:
            known = self._compile(topic, schema)
        if value is None and not isinstance(self._converter, JsonConverter):
            return None
        return (known[1] if trusted else known[2])(value)

    def _compile(self, topic: str, schema: ConnectSchema) -> tuple[ConnectSchema, Encode, Encode]:
        if len(self._by_identity) >= _KNOWN:
            self._by_identity.clear()
        if len(self._by_text) >= _KNOWN:
            self._by_text.clear()
        text = same_text(schema)
        both = self._by_text.get((topic, text))
        if both is None:
            encode = self._converter.encoder(topic, schema)
            both = self._by_text[topic, text] = encode, _checked(encode, schema)
        known = self._by_identity[topic, id(schema)] = (schema, *both)
        return known

    def _schemaless(self, value: Any) -> bytes:
        if isinstance(self._converter, PlainConverter):
            return self._converter.schemaless(value)
        if not isinstance(self._converter, JsonConverter):
            raise DataError("a value without a schema cannot be written in Avro")
        text = schemaless_json(value)
        return b'{"schema":null,"payload":' + text + b"}" if self._converter.schemas_enable else text


def _checked(encode: Encode, schema: ConnectSchema) -> Encode:
    check = compile_check(schema)

    def checked(value: Any) -> bytes:
        check(value)
        return encode(value)

    return checked


def schemaless_json(value: Any) -> bytes:  # noqa: PLR0911 - one per type
    """A value without a schema as the JsonConverter writes it.

    Raises:
        DataError: it is of a type that Connect does not have.
    """
    match value:
        case None:
            return b"null"
        case bool():
            return b"true" if value else b"false"
        case int():
            return b"%d" % value
        case float():
            return double_json(value)
        case str():
            return string_json(value)
        case bytes():
            return string_json(base64.b64encode(value).decode())
        case Decimal():
            return str(value).encode()
        case list():
            return b"[" + b",".join(map(schemaless_json, value)) + b"]"
        case dict():
            members = (string_json(str(k)) + b":" + schemaless_json(v) for k, v in value.items())
            return b"{" + b",".join(members) + b"}"
        case _:
            raise DataError(f"a value of type {type(value).__name__} cannot be written without a schema")
