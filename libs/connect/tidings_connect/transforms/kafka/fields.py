"""Kafka's transforms of whole fields: insert, replace, mask, extract, hoist, and value to key."""

from decimal import Decimal
from typing import Any, Final

from tidings_connect.data.schemas import (
    PerSchema,
    basics,
    copied,
    default_of,
    field_of,
    get,
    require_map,
    require_struct,
)
from tidings_connect.data.text import UNIT_MS
from tidings_connect.transforms.config import (
    NOT_EMPTY,
    REPLACE_NULL,
    ConfigSpec,
    Setting,
    SettingError,
    Settings,
)
from tidings_connect.transforms.field_path import field_path
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError, SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.decimals import int_from_decimal
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

Side = tuple[ConnectSchema | None, Any]
_INT: Final = ConnectSchema(ConnectType.INT32)
_LONG: Final = ConnectSchema(ConnectType.INT64)


def _optional(schema: ConnectSchema, optional: bool) -> ConnectSchema:
    return schema.as_optional() if optional else schema


def _plain(name: str) -> str:
    """A field's name without the mark that makes it optional or required."""
    return name[:-1] if name[-1:] in ("?", "!") else name


class InsertField(Sided):
    """Adds fields with the record's topic, partition, offset (of a sink's record), time, or a fixed text."""

    CONFIG = ConfigSpec(
        Setting("topic.field"),
        Setting("partition.field"),
        Setting("offset.field"),
        Setting("timestamp.field"),
        Setting("static.field"),
        Setting("static.value"),
        REPLACE_NULL,
    )
    _SCHEMAS: Final = {
        "topic.field": semantic.STRING,
        "partition.field": _INT,
        "offset.field": _LONG,
        "timestamp.field": semantic.CONNECT_TIMESTAMP,
        "static.field": semantic.STRING,
    }

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields = [
            (option, settings.text(option)) for option in self._SCHEMAS if settings[option] is not None
        ]
        if not self._fields:
            raise SettingError("", "No field insertion configured")
        self._needs_offset = settings["offset.field"] is not None
        self._static = settings.optional("static.value")
        if settings["static.field"] is not None and self._static is None:
            raise SettingError("static.value", "null\0No value specified for static field")
        self._replace = settings.flag("replace.null.with.default")
        self._schema = PerSchema(self._with_fields)
        self._values: dict[str, Any] = {}

    def _with_fields(self, schema: ConnectSchema) -> ConnectSchema:
        added = [
            Field(_plain(name), _optional(self._SCHEMAS[option], name[-1] != "!"))
            for option, name in self._fields
        ]
        return basics(schema, (*schema.fields, *added))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.offset is None and self._needs_offset:
            raise DataError("offset.field: a source's record has no offset; only sinks have them")
        self._values = {
            "topic.field": record.topic,
            "partition.field": record.partition,
            "offset.field": record.offset,
            "timestamp.field": record.timestamp,
            "static.field": self._static,
        }
        return super().apply(record)

    def convert(self, schema: ConnectSchema | None, value: Any) -> Side:
        """See `Sided.convert`."""
        if value is None:
            return schema, value
        added = {_plain(name): self._values[option] for option, name in self._fields}
        if schema is None:
            found = require_map(value, "field insertion")
            return None, {**found, **{k: v for k, v in added.items() if v is not None}}
        found = require_struct(schema, value, "field insertion")
        return self._schema(schema), {**copied(schema, found, replace_null=self._replace), **added}


def _renames(mappings: list[str]) -> str | None:
    wrong = [mapping for mapping in mappings if len(mapping.split(":")) != 2]
    return f"Invalid rename mapping: {wrong[0]}" if wrong else None


class ReplaceField(Sided):
    """Leaves fields out, or gives them other names."""

    CONFIG = ConfigSpec(
        Setting("exclude", "list"),
        Setting("include", "list"),
        Setting("renames", "list", check=_renames),
        REPLACE_NULL,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._exclude = frozenset(settings.items_of("exclude"))
        self._include = frozenset(settings.items_of("include"))
        self._renames = dict(mapping.split(":") for mapping in settings.items_of("renames"))
        self._replace = settings.flag("replace.null.with.default")
        self._plan = PerSchema(self._compile)

    def _kept(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _compile(self, schema: ConnectSchema) -> tuple[ConnectSchema, list[tuple[str, str, Any]]]:
        kept = [field for field in schema.fields if self._kept(field.name)]
        new = basics(schema, [Field(self._renames.get(f.name, f.name), f.schema) for f in kept])
        moves = [
            (to.name, field.name, default_of(field.schema) if self._replace else None)
            for to, field in zip(new.fields, kept, strict=True)
        ]
        return new, moves

    def convert(self, schema: ConnectSchema | None, value: Any) -> Side:
        """See `Sided.convert`."""
        if value is None:
            return schema, value
        if schema is None:
            found = require_map(value, "field replacement")
            return None, {self._renames.get(k, k): v for k, v in found.items() if self._kept(k)}
        found = require_struct(schema, value, "field replacement")
        new, moves = self._plan(schema)
        return new, {
            name: default if (field := found.get(origin)) is None else field
            for name, origin, default in moves
        }


class MaskField(Sided):
    """Replaces values by their type's zero, or by a fixed value."""

    CONFIG = ConfigSpec(
        Setting("fields", "list", required=True, check=NOT_EMPTY),
        Setting("replacement", check=lambda text: None if text else "String must be non-empty"),
        REPLACE_NULL,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields = settings.items_of("fields")
        self._replacement = settings.optional("replacement")
        self._replace = settings.flag("replace.null.with.default")

    def convert(self, schema: ConnectSchema | None, value: Any) -> Side:
        """See `Sided.convert`."""
        if schema is None:
            found = require_map(value, "mask fields")
            return None, {**found, **{name: self._masked(None, found.get(name)) for name in self._fields}}
        found = copied(schema, require_struct(schema, value, "mask fields"), replace_null=self._replace)
        for name in self._fields:
            field = field_of(schema, name)
            if field is not None:
                found[name] = self._masked(field.schema, found[name])
        return schema, found

    def _masked(self, schema: ConnectSchema | None, value: Any) -> Any:
        if value is None:
            return None
        temporal = schema is not None and schema.name in UNIT_MS
        if self._replacement is not None and not temporal:
            return _replacement(self._replacement, value)
        match value:
            case bool() if self._replacement is None:
                return False
            case int() | float() | Decimal() | str() | list() if self._replacement is None:
                return type(value)()
            case dict() if (schema is None or schema.type is ConnectType.MAP) and self._replacement is None:
                return {}
        with_what = "" if self._replacement is None else " with custom replacement"
        raise DataError(f"Cannot mask value of type {type(value).__name__}{with_what}")


def _replacement(text: str, value: Any) -> Any:
    try:
        match value:
            case bool():
                pass
            case str():
                return text
            case int():
                return int_from_decimal(Decimal(text))
            case float():
                return float(Decimal(text))
            case Decimal():
                return Decimal(text)
    except (ArithmeticError, ValueError) as error:
        raise DataError("the replacement is not a number") from error
    raise DataError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")


class ValueToKey(Transform):
    """Makes the key of fields of the value."""

    CONFIG = ConfigSpec(Setting("fields", "list", required=True, check=NOT_EMPTY), REPLACE_NULL)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields = settings.items_of("fields")
        self._replace = settings.flag("replace.null.with.default")
        self._schema = PerSchema(self._key_schema)

    def _key_schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = []
        for name in self._fields:
            field = field_of(schema, name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(field)
        return ConnectSchema(ConnectType.STRUCT, fields=tuple(fields))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            found = require_map(record.value, purpose)
            return record.with_key(None, {name: found.get(name) for name in self._fields})
        found = require_struct(record.value_schema, record.value, purpose)
        schema = self._schema(record.value_schema)
        key = {f.name: get(found, f) if self._replace else found.get(f.name) for f in schema.fields}
        return record.with_key(schema, key)


def _syntax(text: str) -> str | None:
    return None if text.upper() in {"V1", "V2"} else "String must be one of (case insensitive): V1, V2"


class ExtractField(Sided):
    """Makes one field the whole key or value."""

    CONFIG = ConfigSpec(
        Setting("field", required=True),
        Setting("field.syntax.version", default="V1", check=_syntax),
        REPLACE_NULL,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._name = settings.text("field")
        try:
            self._path = field_path(self._name, version=settings.text("field.syntax.version"))
        except ValueError as error:
            raise SettingError("field", f"{self._name}\0{error}") from error
        self._replace = settings.flag("replace.null.with.default")

    def convert(self, schema: ConnectSchema | None, value: Any) -> Side:
        """See `Sided.convert`."""
        if schema is None:
            return None, None if value is None else self._from_map(require_map(value, "field extraction"))
        if value is not None:
            require_struct(schema, value, "field extraction")
        last: Field | None = None
        for step in self._path:
            last = field_of(schema if last is None else last.schema, step)
            if last is None:
                raise DataError(f"Unknown field: {self._name}")
            if value is not None:
                found = value.get(step)
                value = default_of(last.schema) if found is None and self._replace else found
        assert last is not None
        return last.schema, value

    def _from_map(self, value: dict[str, Any]) -> Any:
        found: Any = value
        for step in self._path:
            if found is None:
                return None
            found = require_map(found, "field extraction").get(step)
        return found


class HoistField(Sided):
    """Wraps the whole key or value in a struct of one field."""

    CONFIG = ConfigSpec(Setting("field", required=True))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._name = settings.text("field")
        self._schema = PerSchema(
            lambda schema: ConnectSchema(ConnectType.STRUCT, fields=(Field(self._name, schema),))
        )

    def convert(self, schema: ConnectSchema | None, value: Any) -> Side:
        """See `Sided.convert`."""
        return None if schema is None else self._schema(schema), {self._name: value}
