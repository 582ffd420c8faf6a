"""ByLogicalTableRouter and its successor ToLogicalTopicRouter: many tables on one topic, with keys that stay unique."""

import re
from dataclasses import replace
from typing import Any, Final

from tidings_connect.data.schemas import PerSchema, field_of, is_envelope, require_struct, with_defaults
from tidings_connect.java.regex import TopicRewriter, regex_problem
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.record import SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, Field

_NOT_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_.]")
_ADJUSTMENTS: Final = ("none", "avro", "avro_unicode")


def _adjusted(name: str, mode: str) -> str:
    """A schema's name as ``schema.name.adjustment.mode`` wants it."""
    if mode == "none":
        return name
    if mode == "avro":
        name = _NOT_IN_NAME.sub("_", name)
    else:
        name = re.sub(r"[^a-zA-Z0-9.]", lambda match: f"_u{ord(match.group()):04x}", name)
    return f"_{name[1:]}" if name[:1].isdigit() or name[:1] == "." else name


class ToLogicalTopicRouter(Transform):
    """See the module."""

    _KEY_FIELD = "__dbz__sourceIdentifier"
    CONFIG = ConfigSpec(
        Setting("topic.regex", required=True, check=regex_problem),
        Setting("topic.replacement", required=True),
        Setting("key.enforce.uniqueness", "boolean", default="true"),
        Setting("key.field.regex", check=regex_problem),
        Setting("key.field.name"),
        Setting("key.field.replacement"),
        Setting("schema.name.adjustment.mode", default="none", values=_ADJUSTMENTS),
        Setting("logical.destination.cache.size", "int", default="16"),
        Setting("logical.table.cache.size", "int"),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._topic = _rewriter(settings, "topic.regex", "topic.replacement")
        self._unique = settings.flag("key.enforce.uniqueness")
        self._field = settings.optional("key.field.name") or self._KEY_FIELD
        self._identifier: TopicRewriter | None = None
        if settings["key.field.regex"]:
            if not settings["key.field.replacement"]:
                raise SettingError(
                    "key.field.replacement",
                    "key.field.replacement must be non-empty if key.field.regex is set.",
                )
            self._identifier = _rewriter(settings, "key.field.regex", "key.field.replacement")
        self._mode = settings.text("schema.name.adjustment.mode").lower()
        self._keys: dict[str, PerSchema[ConnectSchema]] = {}
        self._envelopes: dict[str, PerSchema[ConnectSchema]] = {}

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        topic = self._topic(record.topic)
        if not topic:
            return record
        key_schema = key = None
        if record.key is not None:
            old = require_struct(record.key_schema, record.key, "Updating schema")
            assert record.key_schema is not None
            key_schema, key = self._key_schemas(topic)(record.key_schema), self._key(old, record.topic)
        result = record.with_topic(topic).with_key(key_schema, key)
        if record.value is None or record.value_schema is None or not is_envelope(record.value_schema):
            return result
        schema = self._envelope_schemas(topic)(record.value_schema)
        return result.with_value(schema, with_defaults(record.value_schema, record.value))

    def _key(self, old: dict[str, Any], topic: str) -> dict[str, Any]:
        if not self._unique:
            return old
        identifier = self._identifier(topic) if self._identifier is not None else None
        return {**old, self._field: topic if identifier is None else identifier}

    def _key_schemas(self, topic: str) -> PerSchema[ConnectSchema]:
        if topic not in self._keys:
            name = _adjusted(f"{topic}.Key", self._mode)
            added = (Field(self._field, semantic.STRING),) if self._unique else ()
            self._keys[topic] = PerSchema(
                lambda old: replace(old, name=name, fields=(*old.fields, *added), default=NO_DEFAULT)
            )
        return self._keys[topic]

    def _envelope_schemas(self, topic: str) -> PerSchema[ConnectSchema]:
        if topic not in self._envelopes:
            self._envelopes[topic] = PerSchema(lambda old: self._envelope(old, topic))
        return self._envelopes[topic]

    def _envelope(self, old: ConnectSchema, topic: str) -> ConnectSchema:
        row = field_of(old, "before") or field_of(old, "after")
        fields = old.fields
        if row is not None:
            new = replace(row.schema, name=_adjusted(f"{topic}.Value", self._mode), default=NO_DEFAULT)
            fields = tuple(Field(f.name, new) if f.name in ("before", "after") else f for f in old.fields)
        return replace(
            old, name=_adjusted(f"{topic}.Envelope", self._mode), fields=fields, default=NO_DEFAULT
        )


class ByLogicalTableRouter(ToLogicalTopicRouter):
    """The older name, with another name of the field in the key."""

    _KEY_FIELD = "__dbz__physicalTableIdentifier"


def _rewriter(settings: Settings, pattern: str, replacement: str) -> TopicRewriter:
    try:
        return TopicRewriter(settings.text(pattern), settings.text(replacement))
    except ValueError as error:
        raise SettingError(replacement, f"{settings.text(replacement)}\0{error}") from error
