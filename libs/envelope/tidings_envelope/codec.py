"""What the JSON and the Avro codec have in common: compiling encoders from Connect schemas.

A codec never walks a schema while it encodes. `encoder` compiles a function for a schema once; for structs it also
gives the constant bytes around the fields, so that a caller who already has a field's bytes can splice them:

    fragments[0] + field 0 + fragments[1] + field 1 + ... + fragments[n]

In JSON the fragments are names and punctuation; in Avro, which only concatenates, they are mostly empty.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from tidings_envelope.schema import NO_DEFAULT, ConnectSchema

Encoder: TypeAlias = Callable[[Any], bytes]


class Frame(NamedTuple):
    """What stands before and behind a whole encoded key or value."""

    prefix: bytes
    suffix: bytes


class Codec(Protocol):
    """Compiles encoders for one format."""

    def encoder(self, schema: ConnectSchema) -> Encoder:
        """Compiles a function from a value (None where the schema is optional) to bytes, without a frame.

        Struct values are dicts by field name, Decimals `decimal.Decimal`, arrays lists, bytes `bytes`.

        Raises:
            SchemaError: the format cannot represent the schema.
        """
        ...

    def struct_fragments(self, schema: ConnectSchema) -> tuple[bytes, ...]:
        """The constant bytes around the fields of a struct that is not null; one more than there are fields."""
        ...

    def null(self, schema: ConnectSchema) -> bytes:
        """A null of an optional schema without a default."""
        ...


def with_null(
    schema: ConnectSchema, present: Encoder, null: bytes, *, default_replaces_null: bool = True
) -> Encoder:
    """Wraps the encoder of present values: None becomes the schema's default where there is one, else null.

    Connect's Struct does that replacement whenever a field is read.
    """
    if default_replaces_null and schema.default is not NO_DEFAULT:
        default = present(schema.default)
        return lambda value: default if value is None else present(value)
    if schema.optional:
        return lambda value: null if value is None else present(value)
    return present
