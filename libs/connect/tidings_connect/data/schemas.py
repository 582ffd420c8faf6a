"""Reading and building Connect schemas, as Kafka Connect's ``SchemaBuilder`` and ``Struct`` do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from tidings_connect.data.errors import DataError
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType, Field

T = TypeVar("T")
_CACHED: Final = 256
_JSON: Final = JsonCodec()


def field_of(schema: ConnectSchema, name: str) -> Field | None:
    """A struct's field by name."""
    for field in schema.fields:
        if field.name == name:
            return field
    return None


def default_of(schema: ConnectSchema) -> Any:
    """A schema's default; None where there is none."""
    return None if schema.default is NO_DEFAULT else schema.default


def get(value: Mapping[str, Any], field: Field) -> Any:
    """A field's value, its default where it is null: Java's ``Struct.get``."""
    found = value.get(field.name)
    return default_of(field.schema) if found is None else found


def get_by_name(schema: ConnectSchema, value: Mapping[str, Any], name: str) -> Any:
    """The same by name.

    Raises:
        DataError: there is no such field.
    """
    field = field_of(schema, name)
    if field is None:
        raise DataError(f"{name} is not a valid field name")
    return get(value, field)


def with_defaults(schema: ConnectSchema, value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a struct in which nulls are replaced by defaults."""
    return {field.name: get(value, field) for field in schema.fields}


def copied(schema: ConnectSchema, value: Mapping[str, Any], *, replace_null: bool) -> dict[str, Any]:
    """A copy of a struct, with nulls replaced by defaults or not."""
    return with_defaults(schema, value) if replace_null else dict(value)


def basics(schema: ConnectSchema, fields: Iterable[Field] = ()) -> ConnectSchema:
    """A required struct with the same name, version, documentation and parameters, and these fields.

    Raises:
        DataError: two fields have the same name.
    """
    found = tuple(fields)
    if len({field.name for field in found}) != len(found):
        raise DataError("Cannot create field because of field name duplication")
    return ConnectSchema(
        ConnectType.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=found,
    )


def bare(schema: ConnectSchema, *, optional: bool = False) -> ConnectSchema:
    """The schema without its default, required or optional."""
    return replace(schema, optional=optional, default=NO_DEFAULT)


def require_struct(schema: ConnectSchema | None, value: Any, purpose: str) -> dict[str, Any]:
    """The value, if it is a struct.

    Raises:
        DataError: it is something else.
    """
    if schema is None or schema.type is not ConnectType.STRUCT or not isinstance(value, dict):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {type_name(schema, value)}")
    return value


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """The value, if it is a map; for values without a schema.

    Raises:
        DataError: it is something else.
    """
    if not isinstance(value, dict):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {type_name(None, value)}"
        )
    return value


def type_name(schema: ConnectSchema | None, value: Any) -> str:
    """What a value is, for messages."""
    if value is None:
        return "null"
    return schema.type.value if schema is not None else type(value).__name__


def is_envelope(schema: ConnectSchema | None) -> bool:
    """Whether a value is a change event (Debezium's ``Envelope.isEnvelopeSchema``)."""
    return schema is not None and schema.name is not None and schema.name.endswith(".Envelope")


class PerSchema(Generic[T]):
    """Computes something once per schema; finds schemas by identity, and holds the last few hundred."""

    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[ConnectSchema], T]) -> None:
        self._compute = compute
        self._found: dict[int, tuple[ConnectSchema, T]] = {}

    def __call__(self, schema: ConnectSchema) -> T:
        known = self._found.get(id(schema))
        if known is not None:
            return known[1]
        result = self._compute(schema)
        if len(self._found) >= _CACHED:
            self._found.clear()
        # The schema is held, so that nothing else can get its identity.
        self._found[id(schema)] = schema, result
        return result


def same_text(schema: ConnectSchema | None) -> bytes:
    """The same for equal schemas, and only for those."""
    return b"" if schema is None else _JSON.schema_json(schema)
