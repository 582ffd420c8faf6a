"""The outbox's ``table.expand.json.payload``: a Connect schema for a JSON document, and its value."""

import json
from typing import Any, Final

from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_BOOLEAN: Final = ConnectSchema(ConnectType.BOOLEAN, optional=True)
_INT32: Final = ConnectSchema(ConnectType.INT32, optional=True)
_FLOAT64: Final = ConnectSchema(ConnectType.FLOAT64, optional=True)
_BYTES: Final = ConnectSchema(ConnectType.BYTES, optional=True)


class NotExpandable(Exception):  # noqa: N818 - not an error: the payload stays text
    """The text is not a JSON object or array, or its arrays are mixed."""


class JsonExpansion:
    """Expands documents.

    Args:
        null_as_bytes: ``table.json.payload.null.behavior=optional_bytes``: a null keeps its field; else it has none.
        empty_as_strings: ``table.json.payload.empty.array.behavior=optional_string``: so does an empty array.
    """

    def __init__(self, *, null_as_bytes: bool, empty_as_strings: bool) -> None:
        self._null_as_bytes = null_as_bytes
        self._empty_as_strings = empty_as_strings

    def expand(self, name: str, text: str) -> tuple[ConnectSchema, Any]:
        """Schema, named after the payload's field, and value.

        Raises:
            NotExpandable: the payload stays text.
        """
        if not text.startswith(("{", "[")):
            raise NotExpandable
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise NotExpandable from error
        schema = self._schema(name, document)
        if schema is None:
            raise NotExpandable
        return schema, _value(schema, document)

    def _schema(self, name: str | None, node: Any) -> ConnectSchema | None:
        match node:
            case None:
                return _BYTES if self._null_as_bytes else None
            case bool():
                return _BOOLEAN
            case str():
                return semantic.OPTIONAL_STRING
            case int() if -(2**31) <= node < 2**31:
                return _INT32
            case int() if -(2**63) <= node < 2**63:
                return semantic.OPTIONAL_INT64
            case int() | float():
                return _FLOAT64
            case list():
                return self._array(name, node)
            case _:
                return self._object(name, node)

    def _object(self, name: str | None, node: dict[str, Any]) -> ConnectSchema:
        fields = []
        for key, value in node.items():
            schema = self._schema(f"{name}.{key}" if name and name.strip() else key, value)
            if schema is not None:
                fields.append(Field(key, schema))
        return ConnectSchema(ConnectType.STRUCT, optional=True, name=name, fields=tuple(fields))

    def _array(self, name: str | None, node: list[Any]) -> ConnectSchema | None:
        if not node:
            if not self._empty_as_strings:
                return None
            return ConnectSchema(ConnectType.ARRAY, optional=True, items=semantic.OPTIONAL_STRING)
        sample = self._sample(node)
        items: ConnectSchema | None = None
        if isinstance(sample, dict):
            for element in node:
                if element is not None:
                    items = _merged(items, self._object(name, element))
        else:
            items = self._schema(None, sample)
        if items is None:
            raise NotExpandable
        return ConnectSchema(ConnectType.ARRAY, optional=True, items=items)

    def _sample(self, node: list[Any]) -> Any:
        """The first element that is not null; all must be of its kind."""
        known = [element for element in node if element is not None]
        if not known:
            return None
        for element in known:
            if _kind(element) != _kind(known[0]):
                raise NotExpandable
            if _kind(element) == "number" and self._schema(None, element) is not self._schema(None, known[0]):
                raise NotExpandable
        return known[0]


def _kind(node: Any) -> str:
    return "number" if isinstance(node, (int, float)) and not isinstance(node, bool) else type(node).__name__


def _merged(left: ConnectSchema | None, right: ConnectSchema) -> ConnectSchema:
    """The fields of both; a null's bytes give way to what another element has."""
    if left is None:
        return right
    fields = {field.name: field for field in left.fields}
    for field in right.fields:
        known = fields.get(field.name)
        if known is None or (
            known.schema.type is ConnectType.BYTES and field.schema.type is not ConnectType.BYTES
        ):
            fields[field.name] = field
    return ConnectSchema(ConnectType.STRUCT, name=left.name, fields=tuple(fields.values()))


def _value(schema: ConnectSchema, node: Any) -> Any:
    if node is None:
        return None
    if schema.type is ConnectType.STRUCT:
        if not isinstance(node, dict):
            raise NotExpandable
        return {field.name: _value(field.schema, node.get(field.name)) for field in schema.fields}
    if schema.type is ConnectType.ARRAY and schema.items is not None:
        return [_value(schema.items, element) for element in node]
    return float(node) if schema.type is ConnectType.FLOAT64 else node
