"""HeaderToValue: copies or moves headers to fields of the value."""

from collections.abc import Mapping
from typing import Any, Final

from tidings_connect.data.schemas import (
    PerSchema,
    basics,
    default_of,
    field_of,
    require_struct,
    with_defaults,
)
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.record import DataError, Header, SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_Names = tuple[tuple[str, int], ...]
"""The fields that are added, and where their headers stand."""
_NESTED: Final = (ConnectType.STRUCT,)


def _clean(items: list[str]) -> str | None:
    if not items:
        return "Empty list"
    wrong = [item for item in items if not item or " " in item]
    return "Empty or space-containing elements are not allowed" if wrong else None


class HeaderToValue(Transform):
    """See the module."""

    CONFIG = ConfigSpec(
        Setting("headers", "list", required=True, check=_clean),
        Setting("fields", "list", required=True, check=_clean),
        Setting("operation", required=True, values=("move", "copy")),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._headers, self._fields = settings.items_of("headers"), settings.items_of("fields")
        if len(self._headers) != len(self._fields):
            raise SettingError(
                "fields", "'fields' config must have the same number of elements as 'headers' config."
            )
        self._move = settings.text("operation").lower() == "move"
        self._schemas: dict[tuple[tuple[str, int], ...], PerSchema[ConnectSchema]] = {}

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.value is None:
            return record
        value = require_struct(record.value_schema, record.value, "Header field insertion")
        assert record.value_schema is not None
        entries = [
            (self._fields[self._headers.index(header.key)], header)
            for header in record.headers
            if header.key in self._headers
        ]
        if not entries:
            return record
        schema = self._schema(record.value_schema, entries)
        result = _filled(schema, record.value_schema, value, _tree(entries))
        record = record.with_value(schema, result)
        if self._move:
            record = record.with_headers([h for h in record.headers if h.key not in self._headers])
        return record

    def _schema(self, schema: ConnectSchema, entries: list[tuple[str, Header]]) -> ConnectSchema:
        key = tuple((name, id(header.schema)) for name, header in entries)
        if len(self._schemas) > 1_000:
            self._schemas.clear()
        if key not in self._schemas:
            tree = _tree(entries)
            held = [header.schema for _, header in entries]  # so that no other schema gets its identity
            self._schemas[key] = PerSchema(lambda old, _held=held: _extended(old, tree))  # type: ignore[misc]
        return self._schemas[key](schema)


Tree = dict[str, Any]
"""A header for a field, or the tree of a nested struct."""


def _tree(entries: list[tuple[str, Header]]) -> Tree:
    tree: Tree = {}
    for path, header in entries:
        *parents, name = path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = header
    return tree


def _extended(schema: ConnectSchema, tree: Tree) -> ConnectSchema:
    fields = []
    for field in schema.fields:
        branch = tree.get(field.name)
        if isinstance(branch, dict):
            if field.schema.type not in _NESTED:
                raise DataError(
                    f"Field '{field.name}' is a primitive type, not a struct. Cannot add nested field."
                )
            fields.append(Field(field.name, _extended(field.schema, branch)))
        else:
            fields.append(field)
    for name, branch in tree.items():
        if field_of(schema, name) is None and not isinstance(branch, dict):
            fields.append(Field(name, _header_schema(branch)))
    for name, branch in tree.items():
        if field_of(schema, name) is None and isinstance(branch, dict):
            fields.append(Field(name, _extended(ConnectSchema(ConnectType.STRUCT), branch).as_optional()))
    # A struct that was optional is required now, as in Debezium: a field cannot be put into one that is null.
    return basics(schema, fields)


def _header_schema(header: Header) -> ConnectSchema:
    if header.schema is None:
        raise DataError(f"header {header.key} has no schema")
    return header.schema


def _filled(
    schema: ConnectSchema, old: ConnectSchema | None, value: Mapping[str, Any] | None, tree: Tree
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    before = with_defaults(old, value) if old is not None and value is not None else {}
    for field in schema.fields:
        branch = tree.get(field.name)
        old_field = None if old is None else field_of(old, field.name)
        found = before.get(field.name)
        if isinstance(branch, Header):
            result[field.name] = branch.value
        elif isinstance(branch, dict) and (old_field is None or found is not None):
            result[field.name] = _filled(
                field.schema, None if old_field is None else old_field.schema, found, branch
            )
        else:
            result[field.name] = default_of(field.schema) if found is None else found
    return result
