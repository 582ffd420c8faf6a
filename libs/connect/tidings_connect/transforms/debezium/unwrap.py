"""ExtractNewRecordState: the row instead of the change event."""

from dataclasses import replace
from typing import Any, Final

from tidings_connect.data.schemas import (
    PerSchema,
    bare,
    basics,
    copied,
    field_of,
    get_by_name,
    is_envelope,
    with_defaults,
)
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.record import DataError, Header, SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED: Final = "__deleted"
_IN_ENVELOPE: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_IN_TRANSACTION: Final = ("id", "data_collection_order", "total_order")

Found = tuple[ConnectSchema, str | None]
"""An added field's schema, and the struct it is read from."""


class _Reference:
    """One of ``add.fields`` or ``add.headers``: ``[struct.]field[:new name]``."""

    def __init__(self, prefix: str, text: str) -> None:
        parts = text.split(":")
        if len(parts) > 2:
            raise ValueError(f"Unexpected field name: {text}")
        path = parts[0].split(".")
        self.field = path[0] if len(path) == 1 else path[1]
        self.struct: str | None = path[0]
        if len(path) == 1:
            self.struct = (
                "transaction"
                if self.field in _IN_TRANSACTION
                else None
                if self.field in _IN_ENVELOPE
                else "source"
            )
        name = (
            parts[1] if len(parts) == 2 else self.field if len(path) == 1 else f"{self.struct}_{self.field}"
        )
        self.name = prefix + name

    def schema(self, envelope: ConnectSchema) -> Found | None:
        """The new field's schema, and where its value is; None where there is no such field."""
        parent: ConnectSchema = envelope
        if self.struct is not None:
            struct = field_of(envelope, self.struct)
            if struct is None:
                raise DataError(f"the change event has no field {self.struct}")
            parent = struct.schema
        found, where = field_of(parent, self.field), self.struct
        if found is None:
            found, where = field_of(envelope, self.field), None
        if found is None:
            return None
        schema = bare(found.schema, optional=True)
        # A struct is copied without its fields there, so that nothing could be put into it.
        return (replace(schema, fields=()) if schema.type is ConnectType.STRUCT else schema), where

    def value(self, envelope: dict[str, Any], where: str | None) -> Any:
        parent = envelope if where is None else envelope.get(where)
        return None if parent is None else parent.get(self.field)


class ExtractNewRecordState(Transform):
    """See the module."""

    CONFIG = ConfigSpec(
        Setting("delete.tombstone.handling.mode", default="tombstone", values=_MODES),
        Setting("route.by.field", default=""),
        Setting("add.fields.prefix", default="__"),
        Setting("add.fields", "list", default=""),
        Setting("add.headers.prefix", default="__"),
        Setting("add.headers", "list", default=""),
        Setting("replace.null.with.default", "boolean", default="true"),
        Setting("drop.fields.header.name"),
        Setting("drop.fields.from.key", "boolean", default="false"),
        Setting("drop.fields.keep.schema.compatible", "boolean", default="true"),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._mode = settings.text("delete.tombstone.handling.mode").lower()
        self._rewrite = self._mode.startswith("rewrite")
        self._route_by = settings.text("route.by.field")
        self._fields = _references(settings, "add.fields")
        self._headers = _references(settings, "add.headers")
        self._replace = settings.flag("replace.null.with.default")
        self._drop_header = settings.optional("drop.fields.header.name") or ""
        self._drop_from_key = settings.flag("drop.fields.from.key")
        self._compatible = settings.flag("drop.fields.keep.schema.compatible")
        self._added_fields = PerSchema(lambda envelope: _present(self._fields, envelope))
        self._added_headers = PerSchema(lambda envelope: _present(self._headers, envelope))
        self._row_schema = PerSchema(_row_schema)
        self._deleted_schema = PerSchema(
            lambda row: basics(row, (*row.fields, Field(_DELETED, semantic.OPTIONAL_STRING)))
        )
        self._result = PerSchema(lambda envelope: PerSchema(lambda row: self._with_fields(envelope, row)))
        self._without: dict[tuple[str, ...], PerSchema[ConnectSchema]] = {}

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.value is None:
            return self._tombstone(record)
        if record.value_schema is None or not is_envelope(record.value_schema):
            return record
        envelope, value = record.value_schema, record.value
        if self._headers:
            record.headers.extend(self._new_headers(envelope, value))
        before, after = value.get("before"), value.get("after")
        if after is not None:
            return self._row(record, envelope, after)
        return None if before is None else self._deleted(record, envelope, before)

    def _tombstone(self, record: SourceRecord) -> SourceRecord | None:
        if self._mode != "rewrite-with-tombstone":
            return None
        record.headers.extend(
            Header(reference.name, semantic.STRING, "d")
            for reference in self._headers
            if reference.field == "op"
        )
        return record

    def _new_headers(self, envelope: ConnectSchema, value: dict[str, Any]) -> list[Header]:
        return [
            Header(reference.name, schema, reference.value(value, where))
            for reference, (schema, where) in self._added_headers(envelope)
        ]

    def _row(self, record: SourceRecord, envelope: ConnectSchema, row: dict[str, Any]) -> SourceRecord:
        result = self._marked(record, envelope, row, "false")
        if self._route_by:
            result = self._routed(result, result.value_schema, result.value)
        return self._dropped(self._filled(result, envelope, record.value))

    def _deleted(
        self, record: SourceRecord, envelope: ConnectSchema, row: dict[str, Any]
    ) -> SourceRecord | None:
        match self._mode:
            case "drop":
                return None
            case "tombstone":
                result = record.with_value(self._row_schema(envelope), None)
            case "delete-to-tombstone":
                result = record.with_value(None, None)
            case _:
                result = self._marked(record, envelope, row, "true")
        if self._route_by:
            result = self._routed(result, self._row_schema(envelope), row)
        if self._drop_header and result.value_schema is not None:
            result = self._dropped(result)
        return result if result.value is None else self._filled(result, envelope, record.value)

    def _marked(
        self, record: SourceRecord, envelope: ConnectSchema, row: dict[str, Any], deleted: str
    ) -> SourceRecord:
        schema = self._row_schema(envelope)
        if not self._rewrite:
            return record.with_value(schema, row)
        new = copied(schema, row, replace_null=self._replace)
        new[_DELETED] = deleted
        return record.with_value(self._deleted_schema(schema), new)

    def _routed(
        self, record: SourceRecord, schema: ConnectSchema | None, row: dict[str, Any]
    ) -> SourceRecord:
        assert schema is not None
        topic = get_by_name(schema, row, self._route_by)
        if topic is not None and not isinstance(topic, str):
            raise DataError(f"Field '{self._route_by}' is not of type STRING")
        return record.with_topic(topic) if topic and topic.strip() else record

    def _with_fields(self, envelope: ConnectSchema, row: ConnectSchema) -> ConnectSchema:
        added = [Field(reference.name, schema) for reference, (schema, _) in self._added_fields(envelope)]
        return basics(row, (*row.fields, *added))

    def _filled(self, record: SourceRecord, envelope: ConnectSchema, value: dict[str, Any]) -> SourceRecord:
        """With ``add.fields``; even without any, the schema becomes a required one."""
        assert record.value_schema is not None
        row = dict(record.value)
        for reference, (_, where) in self._added_fields(envelope):
            row[reference.name] = reference.value(value, where)
        return record.with_value(self._result(envelope)(record.value_schema), row)

    def _dropped(self, record: SourceRecord) -> SourceRecord:
        """Without the fields that a header names."""
        if not self._drop_header:
            return record
        header = next((h for h in record.headers if h.key == self._drop_header), None)
        if header is None or not header.value:
            return record
        if not isinstance(header.value, list):
            raise DataError(f"header {self._drop_header} is not a list of field names")
        if self._drop_from_key and isinstance(record.key, dict) and record.key_schema is not None:
            record = record.with_key(*self._left(record.key_schema, record.key, header.value))
        if record.value_schema is not None:
            record = record.with_value(*self._left(record.value_schema, record.value, header.value))
        return record

    def _left(
        self, schema: ConnectSchema, value: dict[str, Any] | None, names: list[str]
    ) -> tuple[ConnectSchema, dict[str, Any] | None]:
        dropped = tuple(
            f.name for f in schema.fields if f.name in names and (f.schema.optional or not self._compatible)
        )
        if value is None or (not dropped and self._compatible):
            return schema, value
        if len(self._without) > 1_000:
            self._without.clear()
        if dropped not in self._without:
            self._without[dropped] = PerSchema(
                lambda full: basics(full, [f for f in full.fields if f.name not in dropped])
            )
        kept = with_defaults(schema, value)
        return self._without[dropped](schema), {k: v for k, v in kept.items() if k not in dropped}


def _row_schema(envelope: ConnectSchema) -> ConnectSchema:
    after = field_of(envelope, "after")
    if after is None:
        raise DataError("Unknown field: after")
    return after.schema


def _references(settings: Settings, option: str) -> list[_Reference]:
    prefix = settings[f"{option}.prefix"] or ""
    try:
        return [_Reference(prefix, text) for text in settings.items_of(option)]
    except ValueError as error:
        raise SettingError(option, f"{','.join(settings.items_of(option))}\0{error}") from error


def _present(references: list[_Reference], envelope: ConnectSchema) -> list[tuple[_Reference, Found]]:
    found = [(reference, reference.schema(envelope)) for reference in references]
    return [(reference, schema) for reference, schema in found if schema is not None]
