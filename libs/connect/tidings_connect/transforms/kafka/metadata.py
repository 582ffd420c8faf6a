"""SetSchemaMetadata, and Filter."""

from dataclasses import replace
from typing import Any

from tidings_connect.data.schemas import PerSchema, with_defaults
from tidings_connect.transforms.config import REPLACE_NULL, ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError, SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema, ConnectType


class Filter(Transform):
    """Drops every record it gets; meant to have a predicate."""

    CONFIG = ConfigSpec()

    def apply(self, record: SourceRecord) -> SourceRecord | None:  # noqa: ARG002
        """See `Transform.apply`."""
        return None


class SetSchemaMetadata(Sided):
    """Gives a schema another name or version."""

    CONFIG = ConfigSpec(Setting("schema.name"), Setting("schema.version", "int"), REPLACE_NULL)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        name, version = settings["schema.name"], settings["schema.version"]
        if name is None and version is None:
            raise SettingError("", "Neither schema name nor version configured")
        changes = {k: v for k, v in (("name", name), ("version", version)) if v is not None}
        self._schema = PerSchema(lambda schema: replace(schema, **changes))
        self._replace = settings.flag("replace.null.with.default")

    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """See `Sided.convert`."""
        if schema is None:
            if value is None:
                return None, None
            raise DataError("Schema required for [updating schema metadata]")
        if self._replace and schema.type is ConnectType.STRUCT and value is not None:
            value = with_defaults(schema, value)
        return self._schema(schema), value
