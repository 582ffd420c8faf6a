"""Connect schemas: what Kafka Connect calls a `Schema`, and the semantic types of Debezium and Connect.

Format: ``org.apache.kafka.connect.data.Schema`` and ``io.debezium.schema.SchemaFactory``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final


class ConnectType(StrEnum):
    """Connect's types, by their names in JSON schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class _NoDefault:
    """The type of `NO_DEFAULT`: a schema's default can be any value, also None."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: "ConnectSchema"


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """A Connect schema. Values of the logical types are Python's: Decimal is `decimal.Decimal`; dates and times stay
    the integers they are stored as."""

    type: ConnectType
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: Any = NO_DEFAULT
    fields: tuple[Field, ...] = ()
    """Of a struct, in order."""
    items: "ConnectSchema | None" = None
    """Of an array; of a map the values."""
    keys: "ConnectSchema | None" = None
    """Of a map."""

    def as_optional(self) -> "ConnectSchema":
        return replace(self, optional=True)
