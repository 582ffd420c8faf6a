"""Flatten: one level of nested structs."""

from typing import Any

from tidings_connect.data.schemas import PerSchema, basics, default_of, get, require_map, require_struct
from tidings_connect.transforms.config import ConfigSpec, Setting, Settings
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType, Field


class Flatten(Sided):
    """Makes one level of nested structs; names are joined."""

    CONFIG = ConfigSpec(Setting("delimiter", default="."))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._delimiter = settings.text("delimiter")
        self._schema = PerSchema(self._flat_schema)

    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """See `Sided.convert`."""
        if value is None:
            return schema, value
        flat: dict[str, Any] = {}
        if schema is None:
            self._flatten_map(require_map(value, "flattening"), "", flat)
            return None, flat
        self._flatten(schema, require_struct(schema, value, "flattening"), "", flat)
        return self._schema(schema), flat

    def _flat_schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields: list[Field] = []
        self._add_fields(schema, "", fields, optional=schema.optional, parent=default_of(schema))
        return basics(schema, fields)

    def _add_fields(
        self,
        schema: ConnectSchema,
        prefix: str,
        to: list[Field],
        *,
        optional: bool,
        parent: dict[str, Any] | None,
    ) -> None:
        for field in schema.fields:
            name = prefix + field.name
            is_optional = optional or field.schema.optional
            default = default_of(field.schema)
            if default is None and parent is not None:
                default = parent.get(field.name)
            if field.schema.type is ConnectType.MAP:
                raise DataError(f"Flatten transformation does not support map for field {name}")
            if field.schema.type is ConnectType.STRUCT:
                self._add_fields(
                    field.schema, name + self._delimiter, to, optional=is_optional, parent=default
                )
            else:
                to.append(Field(name, _flat(field.schema, optional=is_optional, default=default)))

    def _flatten(
        self, schema: ConnectSchema, value: dict[str, Any] | None, prefix: str, to: dict[str, Any]
    ) -> None:
        for field in schema.fields:
            name = prefix + field.name
            found = None if value is None else get(value, field)
            if field.schema.type is ConnectType.STRUCT:
                self._flatten(field.schema, found, name + self._delimiter, to)
            else:
                to[name] = found

    def _flatten_map(self, value: dict[str, Any], prefix: str, to: dict[str, Any]) -> None:
        for key, found in value.items():
            if isinstance(found, dict):
                self._flatten_map(found, f"{prefix}{key}{self._delimiter}", to)
            else:
                to[prefix + key] = found


def _flat(schema: ConnectSchema, *, optional: bool, default: Any) -> ConnectSchema:
    return ConnectSchema(
        schema.type,
        optional=optional,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        default=NO_DEFAULT if default is None else default,
        items=schema.items,
    )
