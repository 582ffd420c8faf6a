"""Converters without schemas of their own: text, bytes, and single numbers.

Specified by ``org.apache.kafka.connect.storage.StringConverter`` and ``org.apache.kafka.connect.converters.*`` (Kafka 4.3).
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from tidings_connect.converters.options import ConverterError, Options
from tidings_connect.data.errors import DataError
from tidings_connect.data.schemas import get
from tidings_connect.data.text import connect_text
from tidings_envelope.codec import Codec, Frame
from tidings_envelope.schema import ConnectSchema, ConnectType

STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
_CONVERTERS: Final = "org.apache.kafka.connect.converters."
BYTE_ARRAY_CONVERTER: Final = f"{_CONVERTERS}ByteArrayConverter"
_NUMBERS: Final = {
    "Boolean": (ConnectType.BOOLEAN, ">?"),
    "Double": (ConnectType.FLOAT64, ">d"),
    "Float": (ConnectType.FLOAT32, ">f"),
    "Integer": (ConnectType.INT32, ">i"),
    "Long": (ConnectType.INT64, ">q"),
    "Short": (ConnectType.INT16, ">h"),
}
NUMBER_CONVERTERS: Final = {f"{_CONVERTERS}{name}Converter": kind for name, kind in _NUMBERS.items()}
_ENCODINGS: Final = {
    "utf8": "utf-8",
    "utf-8": "utf-8",
    "iso-8859-1": "latin-1",
    "us-ascii": "ascii",
    "utf-16": "utf-16",
}


class PlainConverter:
    """A converter whose bytes have no schema.

    Args:
        class_name: as configurations name it.
        schema: of what it reads.
        encode: bytes of a value that is not null.
        decode: a value of bytes.
    """

    registry: None = None

    def __init__(
        self,
        class_name: str,
        schema: ConnectSchema,
        encode: Callable[[ConnectSchema | None, Any], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        self.class_name = class_name
        self._schema = schema
        self._encode, self._decode = encode, decode

    @property
    def codec(self) -> Codec:
        """It has none: rows are not what it writes."""
        self._refuse()

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:  # noqa: ARG002
        """It has none."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConverterError(
            f"{self.class_name} cannot write rows", hint="use a JsonConverter or an AvroConverter"
        )

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:  # noqa: ARG002
        """See `Converter.encoder`."""
        return lambda value: self._encode(schema, value)

    def schemaless(self, value: Any) -> bytes:
        """The bytes of a value without a schema that is not null.

        Raises:
            DataError: it is not of the converter's type.
        """
        return self._encode(None, value)

    def decode(self, topic: str, data: bytes | None) -> tuple[ConnectSchema | None, Any]:  # noqa: ARG002
        """See `Converter.decode`."""
        if data is None:
            return self._schema, None
        try:
            return self._schema, self._decode(data)
        except (ValueError, struct.error):
            raise DataError(f"{len(data)} bytes are not what {self.class_name} reads") from None

    def close(self) -> None:
        """See `Converter.close`."""


def string_converter(options: Options, *, is_key: bool) -> PlainConverter:
    """StringConverter: any value as Java's ``toString`` has it; reads text."""
    names = (
        "key.converter.encoding" if is_key else "value.converter.encoding",
        "converter.encoding",
        "encoding",
    )
    given = next((value for name in names if (value := options.take(name)) is not None), "UTF-8")
    encoding = _ENCODINGS.get(given.strip().lower())
    if encoding is None:
        raise options.refusal("converter.encoding", given, f"supported: {', '.join(sorted(_ENCODINGS))}")
    options.ignore("converter.type")
    options.finish()
    return PlainConverter(
        STRING_CONVERTER,
        ConnectSchema(ConnectType.STRING, optional=True),
        lambda schema, value: java_text(schema, value).encode(encoding, "replace"),
        # As Java's `new String`: what is not text becomes the replacement character.
        lambda data: data.decode(encoding, "replace"),
    )


def byte_array_converter(options: Options, *, is_key: bool) -> PlainConverter:  # noqa: ARG001
    """ByteArrayConverter: bytes as they are."""
    options.ignore("converter.type")
    options.finish()

    def encode(schema: ConnectSchema | None, value: Any) -> bytes:
        if (schema is not None and schema.type is not ConnectType.BYTES) or not isinstance(value, bytes):
            kind = type(value).__name__ if schema is None else schema.type.value
            raise DataError(f"Invalid schema type for ByteArrayConverter: {kind}")
        return value

    return PlainConverter(
        BYTE_ARRAY_CONVERTER, ConnectSchema(ConnectType.BYTES, optional=True), encode, lambda data: data
    )


def number_converter(class_name: str) -> Callable[..., PlainConverter]:
    """Makes the converter of one type of numbers, or of booleans."""
    kind, layout = NUMBER_CONVERTERS[class_name]
    packed = struct.Struct(layout)

    def make(options: Options, *, is_key: bool) -> PlainConverter:  # noqa: ARG001
        options.ignore("converter.type")
        options.finish()

        def encode(schema: ConnectSchema | None, value: Any) -> bytes:
            if schema is not None and schema.type is not kind:
                raise DataError(f"{class_name} cannot write a {schema.type.value}")
            try:
                return packed.pack(value)
            except struct.error:
                raise DataError(f"{class_name} cannot write a {type(value).__name__}") from None

        return PlainConverter(
            class_name, ConnectSchema(kind, optional=True), encode, lambda data: packed.unpack(data)[0]
        )

    return make


def java_text(schema: ConnectSchema | None, value: Any) -> str:
    """What Java's ``toString`` makes of a value; bytes are base64 here, where Java names an object's address."""
    match value:
        case dict() if schema is not None and schema.type is ConnectType.STRUCT:
            fields = ((field, get(value, field)) for field in schema.fields)
            shown = (f"{f.name}={java_text(f.schema, item)}" for f, item in fields if item is not None)
            return f"Struct{{{','.join(shown)}}}"
        case dict():
            items = None if schema is None else schema.items
            keys = None if schema is None else schema.keys
            pairs = (f"{java_text(keys, key)}={java_text(items, item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            items = None if schema is None else schema.items
            return f"[{', '.join(java_text(items, item) for item in value)}]"
        case _:
            return connect_text(schema, value)


def writes_rows(class_name: str) -> bool:
    """Whether a converter of Kafka Connect's can write rows; True of one that is not known here."""
    return class_name.strip() not in {STRING_CONVERTER, BYTE_ARRAY_CONVERTER, *NUMBER_CONVERTERS}
