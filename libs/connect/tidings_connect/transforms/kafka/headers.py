"""InsertHeader, DropHeaders and HeaderFrom."""

from typing import Any

from tidings_connect.data.parse import parse_text
from tidings_connect.data.schemas import (
    PerSchema,
    basics,
    copied,
    default_of,
    field_of,
    require_map,
    require_struct,
)
from tidings_connect.transforms.config import (
    NOT_EMPTY,
    REPLACE_NULL,
    ConfigSpec,
    Setting,
    SettingError,
    Settings,
)
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError, Header, SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema


class InsertHeader(Transform):
    """Adds a header of a fixed value."""

    CONFIG = ConfigSpec(Setting("header", required=True), Setting("value.literal", required=True))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._header = Header(settings.text("header"), *parse_text(settings.text("value.literal")))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        return record.with_headers([*record.headers, self._header])


class DropHeaders(Transform):
    """Takes headers away by name."""

    CONFIG = ConfigSpec(Setting("headers", "list", required=True, check=NOT_EMPTY))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._names = frozenset(settings.items_of("headers"))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        return record.with_headers([h for h in record.headers if h.key not in self._names])


class HeaderFrom(Sided):
    """Copies or moves fields of the key or value to headers."""

    CONFIG = ConfigSpec(
        Setting("fields", "list", required=True, check=NOT_EMPTY),
        Setting("headers", "list", required=True, check=NOT_EMPTY),
        Setting("operation", required=True, values=("move", "copy"), exact=True),
        REPLACE_NULL,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields, self._headers = settings.items_of("fields"), settings.items_of("headers")
        if len(self._fields) != len(self._headers):
            raise SettingError(
                "fields", "'fields' config must have the same number of elements as 'headers' config."
            )
        self._move = settings.text("operation").lower() == "move"
        self._replace = settings.flag("replace.null.with.default")
        self._moved = PerSchema(
            lambda schema: basics(schema, [f for f in schema.fields if f.name not in self._fields])
        )

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        schema, value = (
            (record.key_schema, record.key) if self.IS_KEY else (record.value_schema, record.value)
        )
        result = super().apply(record)
        if result is None:
            return None
        added = [
            Header(header, *self._field(schema, value, name))
            for name, header in zip(self._fields, self._headers, strict=True)
        ]
        result.headers.extend(added)
        return result

    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """See `Sided.convert`."""
        purpose = f"header {'move' if self._move else 'copy'}"
        if schema is None:
            found = require_map(value, purpose)
            return None, {k: v for k, v in found.items() if not self._move or k not in self._fields}
        found = require_struct(schema, value, purpose)
        if not self._move:
            return schema, found
        moved = self._moved(schema)
        return moved, {
            f.name: v
            for f, v in zip(
                schema.fields, copied(schema, found, replace_null=self._replace).values(), strict=True
            )
            if f.name not in self._fields
        }

    def _field(self, schema: ConnectSchema | None, value: Any, name: str) -> tuple[ConnectSchema | None, Any]:
        if schema is None:
            return None, value.get(name)
        field = field_of(schema, name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        found = value.get(name)
        return field.schema, default_of(field.schema) if found is None and self._replace else found
