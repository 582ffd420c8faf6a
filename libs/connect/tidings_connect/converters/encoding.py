"""Connect converters by their Java class name: how a key or value becomes bytes, and bytes a key or value.

Options are those of the Java classes. An option or value that would change the bytes and is not supported is refused by
name; options that only tune the Java implementation (caches) are accepted and ignored.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tidings_connect.converters.decoding import Decoded, JsonDecoder
from tidings_connect.converters.options import ConverterError, Options
from tidings_connect.converters.plain import (
    BYTE_ARRAY_CONVERTER,
    NUMBER_CONVERTERS,
    STRING_CONVERTER,
    byte_array_converter,
    number_converter,
    string_converter,
)
from tidings_connect.converters.registry_login import RegistryLogin, apicurio_login, confluent_login
from tidings_connect.data.columns import StructColumn
from tidings_connect.registered import registered
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.codec import Codec, Frame
from tidings_envelope.json_codec import DecimalFormat, JsonCodec
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.wire import header

if TYPE_CHECKING:
    from tidings_connect.converters.avro_decoding import AvroDecoder
    from tidings_envelope.registry import RegistryClient

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
CONFLUENT_AVRO_CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
APICURIO_AVRO_CONVERTER: Final = "io.apicurio.registry.utils.converter.AvroConverter"

_APICURIO_API = re.compile(r"/apis/registry/v\d+/?\Z")
_APICURIO_V2 = re.compile(r"/apis/registry/v2/?\Z")


class Converter(Protocol):
    """What Kafka Connect calls a converter: one for keys and one for values per worker or connector."""

    @property
    def codec(self) -> Codec:
        """Compiles encoders of its format; a converter that writes no rows has none.

        Raises:
            ConverterError: it has none.
        """
        ...

    @property
    def registry(self) -> "RegistryClient | None":
        """Where its schemas are; None for a format that has none."""
        ...

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:
        """What stands around every key or value of that schema on that topic; registers it where there is a
        registry."""
        ...

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
        """Compiles an encoder for whole keys or values of one schema on one topic."""
        ...

    def close(self) -> None:
        """Closes what the converter has opened; what it has compiled stays usable."""
        ...


class TwoWayConverter(Converter, Protocol):
    """A converter that sinks can use as well."""

    def decode(self, topic: str, data: bytes | None) -> Decoded:
        """Schema and value of a whole key or value; the schema is None where the format has none.

        Raises:
            DataError: the bytes are not what the converter writes.
            RegistryError: the registry could not be asked.
        """
        ...


@runtime_checkable
class DecodesMany(Protocol):
    """A converter that decodes many at once in less time than one by one."""

    def decode_many(
        self, messages: Sequence[bytes | None], reads: frozenset[str] | None = None
    ) -> list[Decoded] | None:
        """What `decode` gives for each of them; None where they are to be decoded one by one, as those are of which one cannot
        be decoded.

        Args:
            reads: the fields of envelopes that are wanted, such as ``after`` and ``source.ts_us``; values may lack the others.
                None: all.

        Raises:
            DataError, RegistryError: as `decode` does.
        """
        ...


@runtime_checkable
class DecodesStructs(Protocol):
    """A converter that decodes many structs of one schema field by field."""

    def decode_structs(
        self, messages: Sequence[bytes], reads: frozenset[str] | None = None
    ) -> tuple[ConnectSchema, StructColumn] | None:
        """Their schema and the structs; None where they are to be decoded in another way.

        Args:
            reads: see `DecodesMany.decode_many`.

        Raises:
            DataError, RegistryError: as `decode` does; what is not right within a value is told when it is made.
        """
        ...


def _encoder(converter: Converter, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
    prefix, suffix = converter.frame(topic, schema)
    encode = converter.codec.encoder(schema)
    return lambda value: prefix + encode(value) + suffix


class JsonConverter:
    """Connect's JsonConverter."""

    def __init__(self, codec: JsonCodec, *, schemas_enable: bool = True) -> None:
        self.codec: Codec = codec
        self.registry: RegistryClient | None = None
        self._json = codec
        self.schemas_enable = schemas_enable
        self._decode = JsonDecoder(
            schemas_enable=schemas_enable, replace_null=codec.replace_null_with_default
        )

    def decode(self, topic: str, data: bytes | None) -> Decoded:  # noqa: ARG002  # JSON carries its schema along
        """See `Converter.decode`."""
        return self._decode(data)

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:  # noqa: ARG002  # JSON carries its schema along
        """See `Converter.frame`."""
        return self._json.frame(schema, schemas_enable=self.schemas_enable)

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
        """See `Converter.encoder`."""
        return _encoder(self, topic, schema)

    def close(self) -> None:
        """See `Converter.close`."""


class AvroConverter:
    """Confluent's AvroConverter, and Apicurio's in Confluent's wire format: subjects ``<topic>-key`` and ``-value``."""

    def __init__(
        self, registry: "RegistryClient", *, is_key: bool, any_names: bool = False, keeps_null: bool = False
    ) -> None:
        """Args:
        any_names: the registry takes names that Avro does not allow, as Apicurio's own API does.
        keeps_null: ``ignore.default.for.nullables``: a null of a field that has a default stays one.
        """
        self._any_names = any_names
        self.codec: Codec = AvroCodec(replace_null_with_default=not keeps_null)
        self._registry = registry
        self.registry: RegistryClient | None = registry
        self._suffix = "key" if is_key else "value"
        self._decoder: AvroDecoder | None = None

    def decode(self, topic: str, data: bytes | None) -> Decoded:  # noqa: ARG002  # the bytes name their schema
        """See `TwoWayConverter.decode`."""
        return (self._decoder or self._made())(data)

    def decode_many(
        self, messages: Sequence[bytes | None], reads: frozenset[str] | None = None
    ) -> list[Decoded] | None:
        """See `DecodesMany.decode_many`."""
        return (self._decoder or self._made()).many(messages, reads)

    def decode_structs(
        self, messages: Sequence[bytes], reads: frozenset[str] | None = None
    ) -> tuple[ConnectSchema, StructColumn] | None:
        """See `DecodesStructs.decode_structs`."""
        return (self._decoder or self._made()).structs(messages, reads)

    def _made(self) -> "AvroDecoder":
        from tidings_connect.converters.avro_decoding import AvroDecoder  # noqa: PLC0415 - sources need it not

        self._decoder = AvroDecoder(self._registry)
        return self._decoder

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:
        """See `Converter.frame`."""
        text = avro_schema_json(schema, any_names=self._any_names)
        schema_id = self._registry.register(f"{topic}-{self._suffix}", text)
        return Frame(header(schema_id), b"")

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
        """See `Converter.encoder`."""
        return _encoder(self, topic, schema)

    def close(self) -> None:
        """See `Converter.close`."""
        self._registry.close()


def make_converter(
    properties: Mapping[str, str], *, is_key: bool, registry: "RegistryClient | None" = None
) -> TwoWayConverter:
    """Builds the converter that worker or connector properties name.

    Args:
        properties: ``key.converter`` or ``value.converter`` and the options behind that prefix
            (``value.converter.schemas.enable``); where a connector names a converter of its own, its properties only,
            as in Kafka Connect.
        is_key: whether it converts keys.
        registry: used instead of one made from ``*.schema.registry.url``; for tests.

    Raises:
        ConverterError: an unknown converter class or option value; names the property.
        RegistryError: the registry's URL is none.
        WorkerConfigError: a user or a key store for the registry cannot be used; names the option.
    """
    name = "key.converter" if is_key else "value.converter"
    class_name = properties.get(name, "").strip()
    known = converter_table()
    if class_name not in known:
        raise ConverterError(
            f"{name}={class_name or '(not set)'} is not supported",
            hint=f"use one of {', '.join(sorted(known))}",
        )
    options = Options(name, properties)
    if registry is None:
        return known[class_name](options, is_key=is_key)
    return known[class_name](options, is_key=is_key, registry=registry)


@cache
def converter_table() -> Mapping[str, Callable[..., TwoWayConverter]]:
    """What makes each converter that is installed, by class name. An entry point of ``tidings.converters`` names a dictionary
    of them; they are called with `converters.options.Options` and ``is_key``."""
    return {name: make for table in registered("tidings.converters") for name, make in table.items()}


def _avro(
    *,
    is_key: bool,
    login: RegistryLogin,
    urls: tuple[str, str | None],
    keeps_null: bool,
    registry: "RegistryClient | None",
) -> AvroConverter:
    # Its HTTP client costs a task process 20 MB and half a second, which JSON need not pay.
    from tidings_envelope.registry import RegistryClient  # noqa: PLC0415

    url, apicurio_url = urls
    if registry is None:
        with login.client_settings() as settings:
            registry = RegistryClient(
                url, settings=settings, apicurio_url=apicurio_url, authorization=login.authorization
            )
    return AvroConverter(registry, is_key=is_key, any_names=apicurio_url is not None, keeps_null=keeps_null)


def _confluent_converter(
    options: Options, *, is_key: bool, registry: "RegistryClient | None" = None
) -> AvroConverter:
    login = confluent_login(options.take, f"{options.prefix}.")
    keeps_null = options.boolean(KEEPS_NULL, default=False)
    urls = (_confluent_url(options), None)
    return _avro(is_key=is_key, login=login, urls=urls, keeps_null=keeps_null, registry=registry)


def _apicurio_converter(
    options: Options, *, is_key: bool, registry: "RegistryClient | None" = None
) -> AvroConverter:
    login = apicurio_login(options.take, f"{options.prefix}.")
    keeps_null = options.boolean(KEEPS_NULL, default=False)
    urls = _apicurio_urls(options)
    return _avro(is_key=is_key, login=login, urls=urls, keeps_null=keeps_null, registry=registry)


def _json_converter(
    options: Options,
    *,
    is_key: bool,  # noqa: ARG001 - the same for both
    registry: "RegistryClient | None" = None,  # noqa: ARG001 - it needs none
) -> JsonConverter:
    schemas_enable = options.boolean("schemas.enable", default=True)
    replace = options.boolean("replace.null.with.default", default=True)
    decimal_format = options.text("decimal.format", "BASE64").lower()
    if decimal_format not in tuple(DecimalFormat):
        raise options.refusal("decimal.format", decimal_format, "it is BASE64 or NUMERIC")
    options.ignore("schemas.cache.size", "converter.type", "converter.encoding")
    options.finish()
    codec = JsonCodec(decimal_format=DecimalFormat(decimal_format), replace_null_with_default=replace)
    return JsonConverter(codec, schemas_enable=schemas_enable)


KEEPS_NULL: Final = "ignore.default.for.nullables"
"""Of an Avro converter, Confluent's and here Apicurio's as well."""
_TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"


def _confluent_url(options: Options) -> str:
    url = options.text("schema.registry.url", "")
    if not url:
        raise ConverterError("the AvroConverter needs *.converter.schema.registry.url")
    for name in ("auto.register.schemas", "connect.meta.data"):
        options.only(name, "true")
    for name in (
        "use.latest.version",
        "normalize.schemas",
        "enhanced.avro.schema.support",
        "scrub.invalid.names",
        "generalized.sum.type.support",
        "discard.type.doc.default",
        "allow.optional.map.keys",
        "flatten.singleton.unions",
    ):
        options.only(name, "false")
    for name in ("key.subject.name.strategy", "value.subject.name.strategy"):
        options.only(name, _TOPIC_NAME_STRATEGY)
    options.ignore(
        "schemas.cache.config", "schemas.cache.size", "schema.reflection", "max.schemas.per.subject"
    )
    options.finish()
    return url


def _apicurio_urls(options: Options) -> tuple[str, str | None]:
    """The address of the Confluent API, and that of Apicurio's own where it is given in the version that we speak."""
    url = options.text("apicurio.registry.url", "")
    if not url:
        raise ConverterError("Apicurio's AvroConverter needs *.converter.apicurio.registry.url")
    for name in ("apicurio.registry.auto-register", "apicurio.registry.as-confluent"):
        options.only(name, "true")
    options.only("apicurio.registry.headers.enabled", "false")
    options.only("apicurio.registry.use-id", "contentId")
    options.only("apicurio.registry.find-latest", "false", "true")
    options.only("apicurio.registry.auto-register.if-exists", "FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE")
    options.only(
        "apicurio.registry.artifact-resolver-strategy", "io.apicurio.registry.serde.strategy.TopicIdStrategy"
    )
    options.finish()
    return _APICURIO_API.sub("/apis/ccompat/v7", url), url if _APICURIO_V2.search(url) else None


CONVERTERS: Final[Mapping[str, Callable[..., TwoWayConverter]]] = {
    JSON_CONVERTER: _json_converter,
    CONFLUENT_AVRO_CONVERTER: _confluent_converter,
    APICURIO_AVRO_CONVERTER: _apicurio_converter,
    STRING_CONVERTER: string_converter,
    BYTE_ARRAY_CONVERTER: byte_array_converter,
    **{name: number_converter(name) for name in NUMBER_CONVERTERS},
}
"""Kafka Connect's, Confluent's and Apicurio's, as the entry point names them."""
